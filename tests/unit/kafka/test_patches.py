"""The changes to aiokafka are verified at start, can be left out, and reach no other client of the process."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from spotsieve.stream.base.errors import EXIT_SETTING
from spotsieve.stream.base.startup import Expectation
from spotsieve.stream.kafka.driver.clients import PlainBatch
from spotsieve.stream.kafka.driver.patches import AS_SHIPPED, PERFORMANCE, TESTED, WORKAROUNDS, left_out
from tests.conftest import REPOSITORY

PATCHES = (*PERFORMANCE, *WORKAROUNDS)
NAMES = """
import sys
def names():
    return {
        (module, name, inner): value
        for module, content in list(sys.modules.items()) if module.partition(".")[0] == "aiokafka"
        for name, found in vars(content).items()
        for inner, value in (vars(found).items() if isinstance(found, type) else [("", found)])
    }
"""
"""A function for a child process: every name of aiokafka's modules and classes, with its value."""


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def test_every_patch_fits_the_installed_release_and_tells_what_it_is_for() -> None:
    assert len({patch.name for patch in PATCHES}) == len(PATCHES)
    for patch in PATCHES:
        assert patch.fault() is None
        assert patch.what
        assert patch.why
        assert patch.upstream
        assert patch.expects
    assert all(patch.effect for patch in PERFORMANCE)


def _differing(expected: Expectation) -> Sequence[Expectation]:
    """The expectation on releases that differ from it in one place."""
    others = [expected._replace(name=expected.name + "_renamed")]
    if expected.signature:
        others.append(expected._replace(signature=expected.signature.replace(")", ", more)")))
    return [
        *others,
        *(expected._replace(uses=[*expected.uses, "not_there"]) for _ in range(bool(expected.uses))),
        *(expected._replace(lacks=[name]) for name in expected.uses),
    ]


def test_each_name_signature_and_use_that_differs_is_a_fault() -> None:
    for patch in PATCHES:
        for number, expected in enumerate(patch.expects):
            for other in _differing(expected):
                changed = patch._replace(expects=(*patch.expects[:number], other, *patch.expects[number + 1 :]))
                fault = changed.fault()
                assert fault is not None, other
                assert fault.startswith(other.name)


BREAK = """
import sys
import {module} as module
del module.{path}
from spotsieve.stream.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_release_that_a_workaround_does_not_fit_is_refused() -> None:
    code = BREAK.format(module="aiokafka.client", path="AIOKafkaClient._metadata_update")
    done = python(code, "topics", "check", "--set", "kafka.bootstrap_servers=127.0.0.1:1")
    assert done.returncode == EXIT_SETTING, done.stderr
    assert "aiokafka.client:AIOKafkaClient._metadata_update does not exist" in done.stderr
    assert f"pip install 'aiokafka{TESTED}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_release_that_a_performance_patch_does_not_fit_works() -> None:
    code = (
        "import aiokafka.codec; del aiokafka.codec.snappy_encode\n"
        "from spotsieve.stream.kafka.driver import clients, patches\n"
        "print(*patches.left_out().items())\n"
        "print(type(clients.new_batch(1000, 'zstd', transactional=True)).__name__)"
    )
    done = python(code)
    assert done.stdout.splitlines() == [
        "('batch', 'aiokafka.codec:snappy_encode does not exist')",
        "PlainBatch",
    ], done.stderr


def test_a_variable_leaves_all_performance_patches_out() -> None:
    code = (
        "from aiokafka.conn import AIOKafkaConnection as theirs\n"
        "from spotsieve.stream.kafka.driver import clients, connections, patches\n"
        "print(*patches.left_out())\n"
        "print(connections.KafkaConnection.connect is theirs.connect)\n"
    )
    done = python(code, **{AS_SHIPPED: "1"})
    assert done.stdout.splitlines() == [" ".join(patch.name for patch in PERFORMANCE), "True"], done.stderr


def test_the_suite_runs_with_all_patches_unless_it_is_told_otherwise() -> None:
    assert bool(left_out()) == bool(os.environ.get(AS_SHIPPED))


def test_no_name_of_aiokafka_is_changed_by_a_service_and_its_clients() -> None:
    code = f"""{NAMES}
import asyncio
import aiokafka, aiokafka.admin
before = names()
import spotsieve.stream.service.run, spotsieve.stream.service.roles.resolver.loop
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka import clients
from spotsieve.stream.kafka.driver.clients import KafkaAdmin, bound_prefetch

async def make():
    settings = Settings()
    kept = [clients.pages_consumer(settings), clients.resolver_consumer(settings)]
    kept += [clients.log_producer(settings), clients.SharedClients(settings).producer(0, "id")]
    kept += [KafkaAdmin(**clients.client_options(settings.kafka))]
    for client in kept:
        try:
            await client.start()
        except aiokafka.errors.KafkaError:
            pass
        await (client.close() if isinstance(client, KafkaAdmin) else clients.stop_client(client))

asyncio.run(make())
after = names()
counters = {{"_PRODUCER_CLIENT_ID_SEQUENCE", "_abc_impl"}}
print(sorted(key for key in before if before[key] is not after.get(key) and key[2] not in counters))
"""
    done = python(code)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


def test_the_project_pins_the_tested_releases() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"aiokafka{TESTED}" in project["dependencies"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_plain_batch_tells_its_encoded_size_before_it_is_numbered(codec: str) -> None:
    batch = PlainBatch(900_000, codec, transactional=True)
    for number in range(20):
        assert batch.append(timestamp=number, key=None, value=b"value" * 100, headers=[("name", b"content")])
    size = batch.prepare()
    assert batch.append(timestamp=0, key=None, value=b"", headers=[]) is None
    batch._set_producer_state(2**40, 3, 4)
    content = bytes(batch._build())
    assert size == len(content)
    assert [record.value for record in MemoryRecords(content).next_batch()] == [b"value" * 100] * 20
    assert isinstance(batch, BatchBuilder)
