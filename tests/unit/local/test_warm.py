"""Nothing is left to compile when the first real page comes."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from spotsieve import Deduplicator
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.engine import ApplyResult, Engine
from spotsieve.stream.engine.warmup import SHARES, _CompileListener, announced_compiling, compile_kernels
from spotsieve.stream.local.library import engines
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import SCHEMES, TERMS, scheme_of
from tests.conftest import REPOSITORY
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.waiting import SECONDS, wait_until

FILTER_AFTER_WARM_UP = """
import json, os, sys
from numba.core.registry import cpu_target
from pathlib import Path
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.local import file_filter
from spotsieve.stream.base.page import Page
from spotsieve.stream.judge import policy_of
from spotsieve.stream.judge import find_matches, judge_alone
from spotsieve.stream.sign.schemes.registry import scheme_of
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.state.log.record import encode
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.engine import open_engine
from tests.fixtures.kernels import compiled, compiled_since
from tests.fixtures.pages.crawls import crawl, edited, html_of

cpu_target.target_context.refresh()
folder, schemes = Path(sys.argv[1]), json.loads(sys.argv[2])
while True:  # Each scheme in a fork, in which no kernel is loaded yet
    if not schemes:
        sys.exit()
    name, chosen = schemes.popitem()
    if not os.fork():
        break
    (folder / f"{name}.code").write_text(str(os.wait()[1]))
os.dup2(os.open(folder / f"{name}.output", os.O_CREAT | os.O_WRONLY), 1)
os.dup2(1, 2)

settings = Settings.model_validate({"scheme": json.loads(chosen), "index": {"directory": folder / name}})
scheme = scheme_of(settings.scheme)

assert not any(compiled().values())
compile_kernels(scheme)
before = compiled()
engine = open_engine(settings, "log")
bodies = [html_of(number % 40, template=number % 3) for number in range(120)] + [edited(html_of(1)), "", "short"]
pages = [
    Page("log", 0, number, f"https://{number % 7}.example/{number}", body.encode(), number % 5 > 0, 0)
    for number, body in enumerate(bodies)
]
digest = engine.settings_digest
kinds = set()
for record, first in enumerate(range(0, len(pages), 30)):
    applied = engine.apply(encode(scheme.sign(pages[first:first + 30]), bytes(16), record, digest), record)
    kinds |= set(applied.verdicts.kind.tolist())
queried = scheme.sign(pages)
alone = judge_alone(queried, scheme, engine.state, 256, policy_of(settings))
assert Reason.FIRST_ATTEMPT in alone.reason, alone.reason
assert any(find_matches(queried, scheme, engine.state))
engine.state.close()
assert kinds == {0, 1, 2}, kinds
assert sum(before.values()) > 5, before
print(*compiled_since(before), sep="\\n", end="")
"""


IN_MEMORY_AFTER_WARM_UP = """
from spotsieve import Deduplicator
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.kernels import compiled, compiled_since
from tests.fixtures.pages.crawls import html_of

compile_kernels(scheme_of(Settings().scheme))
before = compiled()
with Deduplicator() as seen:
    kinds = [seen.add(host, f"https://{host}.example/", html_of(1)).kind for host in ("a", "b")]
    seen.query("c", "https://c.example/", html_of(2))
    seen.query("d", "https://d.example/", "<p>Little text.</p><script>render()</script>")
assert kinds == ["novel", "duplicate"], kinds
assert sum(before.values()) > 5, before
print(*compiled_since(before), sep="\\n", end="")
"""


def test_the_first_pages_of_the_library_without_a_directory_compile_nothing() -> None:
    command = [sys.executable, "-c", IN_MEMORY_AFTER_WARM_UP]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


WARM = [name for name in SCHEMES if name not in TERMS or name == "concept"]


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the exit code and the output of FILTER_AFTER_WARM_UP under each scheme."""
    folder = tmp_path_factory.mktemp("warmed")
    chosen = json.dumps({name: settings_named(name).model_dump_json() for name in WARM})
    subprocess.run([sys.executable, "-c", FILTER_AFTER_WARM_UP, str(folder), chosen], cwd=REPOSITORY, check=True)
    return folder


@pytest.mark.parametrize("scheme", WARM)
def test_the_first_pages_compile_nothing(scheme: str, warmed: Path) -> None:
    assert (warmed / f"{scheme}.output").read_text("utf-8") == ""
    assert (warmed / f"{scheme}.code").read_text("utf-8") == "0"


def test_the_warm_up_confirms_a_page_of_its_own_record_and_a_filed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed: set[bool] = set()
    apply = Engine.apply

    def noted(self: Engine, record: bytes, offset: int) -> ApplyResult:
        found = apply(self, record, offset)
        its_own = set(found.record.signatures.offset.tolist())
        for reason, original in zip(found.verdicts.reason.tolist(), found.verdicts.originals, strict=True):
            if original is not None and reason != Reason.EXACT:
                confirmed.add(original.offset in its_own)
        return found

    monkeypatch.setattr(Engine, "apply", noted)
    compile_kernels(scheme_of(SpotsieveSettings()))
    assert confirmed == {True, False}


def test_kernels_that_are_compiled_are_announced_with_an_estimate() -> None:
    from numba import njit  # Imported first, it would compile for another CPU than the cached kernels.

    @njit
    def inner(number: int) -> int:
        return number + 1

    @njit
    def outer(number: int) -> int:
        return int(inner(number)) + 1

    messages: list[str] = []
    with announced_compiling(messages.append):
        outer(1)
        inner(0.5)
        outer(2)
    assert messages[0] == "compiling the kernels, once for this machine: 0 done in 0:00:00, one to four minutes in all"
    reported = len(messages)
    with announced_compiling(messages.append):
        outer(3)
    outer(0.5)
    assert len(messages) == reported


class CompileEvent(NamedTuple):
    """numba's event about a kernel."""

    data: dict[str, Any]

    @classmethod
    def of(cls, name: str) -> "CompileEvent":
        module, _, function = name.rpartition(".")
        return cls({"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module, __qualname__=function))})


def test_progress_is_reported_during_a_long_kernel_and_not_between_kernels() -> None:
    messages: list[str] = []
    listener = _CompileListener(messages.append)
    name = next(iter(SHARES))
    listener.on_start(CompileEvent.of(name))
    wait_until(lambda: len(messages) > 2, SECONDS, "reports of the thread")
    listener.on_end(CompileEvent.of(name))
    listener.close()
    assert not listener._thread.is_alive()
    reported = len(messages)
    listener.on_start(CompileEvent.of(name))
    listener.on_end(CompileEvent.of(name))
    assert len(messages) == reported


def test_the_remaining_time_is_estimated_from_the_slowest_kernel() -> None:
    now = 100.0
    listener = _CompileListener(lambda _: None, lambda: now)
    slowest = max(SHARES, key=lambda name: SHARES[name])
    listener.on_start(CompileEvent.of(slowest))
    now += 100 * SHARES[slowest]
    listener.on_end(CompileEvent.of(slowest))
    listener.close()
    now = 150.0
    assert listener.text().endswith("1 done in 0:00:50, about 0:00:50 left")


def test_the_shares_are_of_kernels_that_exist_and_leave_time_for_the_others() -> None:
    for name in SHARES:
        module, _, function = name.rpartition(".")
        assert callable(getattr(import_module(module), function)), name
    assert sum(SHARES.values()) < 0.8


def test_the_library_says_on_standard_error_that_it_compiles_while_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ""

    def compiling(_: Scheme, say: Callable[[str], None]) -> None:
        def announced() -> bool:
            nonlocal shown
            shown += capsys.readouterr().err
            return "\n" in shown

        say("compiling the kernels: 0 done")
        wait_until(announced, SECONDS, "a line on standard error")

    monkeypatch.setattr(engines, "compile_kernels", compiling)
    monkeypatch.setattr(engines, "_QUIET_S", 0.01)
    with Deduplicator():
        assert shown == "spotsieve: compiling the kernels: 0 done\n"
    monkeypatch.undo()
    with Deduplicator():
        assert capsys.readouterr().err == ""
