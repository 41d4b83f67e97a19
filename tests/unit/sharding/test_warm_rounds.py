"""Shards and resolver have nothing left to compile when the first real round comes."""

import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.fixtures.pages.scheme_settings import settings_named

ROUNDS_AFTER_WARM_UP = """
import json, random, sys
from spotsieve.stream.judge import KEEP_FIRST
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes.registry import scheme_of
from spotsieve.stream.service.roles.role import compile_rounds
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.sharding.rounds import limits_in_shards
from tests.fixtures.kernels import compiled, compiled_since
from tests.fixtures.states.sharded_logs import assert_verdicts_equal, crawled
from tests.fixtures.states.shards import OneProcess, Shards

settings = Settings.model_validate({"scheme": json.loads(sys.argv[1])})
scheme = scheme_of(settings.scheme)
compile_kernels(scheme)
compile_rounds(scheme, limits_in_shards(settings, scheme))
before = compiled()
one = OneProcess(scheme, IndexSettings(), KEEP_FIRST)
pages = scheme.sign(crawled(random.Random(1)))
for first in range(0, len(pages), 16):
    one.sign(pages.part(first, min(first + 16, len(pages))))
shards = Shards(one, 2)
found = shards.apply(one.log, [24])
assert len(before) > 20 and 0 in found.kind and 1 in found.kind, (before, found.kind)
print(*compiled_since(before), sep="\\n", end="")
"""


@pytest.mark.parametrize("scheme", ["spotsieve", "chain"])
def test_the_first_round_compiles_nothing(scheme: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS_AFTER_WARM_UP, settings_named(scheme).model_dump_json()],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
