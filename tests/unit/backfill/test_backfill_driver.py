"""The driver of a backfill: inputs that end early, and runs over very many inputs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.local.backfill.outcomes import JudgedPages
from spotsieve.stream.local.backfill.parts import Parts
from spotsieve.stream.local.backfill.run import Driver
from spotsieve.stream.local.backfill.run_file import RunFile
from spotsieve.stream.local.backfill.schedule import Call, Task
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.local.summary import FilterSummary
from tests.fixtures.backfills import PAGES, backfilled, verdict_rows

PAGES_OF_FILE = 12


def write_lines(directory: Path) -> list[Path]:
    """Three files of lines."""
    paths = [directory / f"{number}.jsonl" for number in range(3)]
    for number, path in enumerate(paths):
        pages = PAGES[number * PAGES_OF_FILE : (number + 1) * PAGES_OF_FILE]
        lines = [{"url": page.url, "body": page.body.decode("utf-8", "replace")} for page in pages]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return paths


@pytest.mark.parametrize("shrunk", [0, 1])
def test_an_input_that_ends_before_its_judged_pages_is_named_and_restored(tmp_path: Path, shrunk: int) -> None:
    paths, settings = write_lines(tmp_path), Settings()
    names = [str(path) for path in paths]
    backfilled(names, tmp_path / "whole", settings)
    with pytest.raises(InputError, match="ended the process"):
        backfilled(names, tmp_path / "cut", settings, lose=lambda method, one: (method, one) == ("finish", shrunk))
    text = paths[shrunk].read_text()
    end = text.rstrip("\n").rindex("\n") + 1
    paths[shrunk].write_text(text[:end] + "\n" * (len(text) - end))
    with pytest.raises(InputError, match="ends before the last page") as refused:
        backfilled(names, tmp_path / "cut", settings)
    assert refused.value.name == names[shrunk]
    paths[shrunk].write_text(text)
    backfilled(names, tmp_path / "cut", settings)
    assert verdict_rows(tmp_path / "cut") == verdict_rows(tmp_path / "whole")


class NoPages:
    """A reader of empty inputs, and the pending call of any of its methods."""

    count = 1

    def __init__(self, given: object = None) -> None:
        self._given = given

    def call(self, reader: int, method: str, *arguments: object) -> Call:  # noqa: ARG002 - all inputs are empty
        return NoPages(FilterSummary() if method == "finish" else None)

    def renew(self, reader: int) -> None:
        raise NotImplementedError

    def wait(self, calls: Sequence[Call], seconds: float) -> None:
        """Nothing takes time here."""

    def ready(self) -> bool:
        return True

    def result(self) -> Any:
        return self._given


class LookedUp(dict[int, FilterSummary]):
    """The finished inputs. times: how often one was looked up"""

    times = 0

    def __contains__(self, number: object) -> bool:
        self.times += 1
        return super().__contains__(number)


class FinishedInMemory:
    """Stands for the run file."""

    def __init__(self) -> None:
        self.done = LookedUp()

    def finish(self, number: int, summary: FilterSummary) -> None:
        self.done[number] = summary


class EngineWithoutPages:
    """Stands for the engine, and for the pages that the run has judged."""

    count = 0
    engine: Any = None
    settings_digest = b""

    def check_end(self, page: int, source: str) -> None:
        """No page was judged."""


def test_the_next_input_is_found_without_a_look_at_all_finished_ones(tmp_path: Path) -> None:
    inputs = 2000
    task = Task(Input(tmp_path / "empty", "empty", 0), Parts(None, None, None), b"")
    run_file, nothing = FinishedInMemory(), EngineWithoutPages()
    nothing.engine = nothing
    driver = Driver(
        [task] * inputs,
        cast("LocalEngine", nothing),
        cast("JudgedPages", nothing),
        cast("RunFile", run_file),
        NoPages(),
        lambda: False,
        lambda _: None,
        lambda _: None,
    )
    assert driver.run()
    assert len(run_file.done) == inputs
    assert run_file.done.times < 20 * inputs
