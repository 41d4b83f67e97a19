"""A process that opens a state raises its soft limit of open files, and says where the hard limit is too low.

The limits are those of child processes: a test must not change the limit of the process that runs it.
"""

import ast
import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.store.rocks_options import FILE_LIMIT, MOST_OPEN_FILES
from tests.conftest import REPOSITORY
from tests.fixtures.services.forking import forked_python
from tests.fixtures.source_tree import tracked_names
from tests.fixtures.states.local_states import apply_log, families_of, open_state

SECONDS = 300
SOFT = 256
RECORDS = 60
LOW_HARD = 240
TABLES = re.compile(r"state has (\d+) table files, and only (\d+) can be open at a time")

OWNED = "from tests.fixtures.states.local_states import open_state\nwith open_state(directory):"
READ_ONLY = "from spotsieve.state.still.reading import read_only_state\nwith read_only_state(directory):"
OPENINGS = {
    "for writing": OWNED,
    "read-only": READ_ONLY,
    "for a description": "from spotsieve.state.still.reading import describe\nif describe(directory):",
    "to verify": "from spotsieve.state.verify.walk import verify\nif verify(directory):",
    "to import": "from spotsieve.state.portable.importing import NewState\nwith NewState(directory / 'new'):",
}


def in_child(program: str, *arguments: object, soft: int, hard: int | None = None) -> str:
    """Run a program in a process with these limits, and return what it prints. hard: None keeps the hard limit"""
    _, own = resource.getrlimit(resource.RLIMIT_NOFILE)
    given = json.dumps([str(argument) for argument in arguments])
    begin = f"""
import json, resource
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {own if hard is None else hard}))
arguments = json.loads({given!r})
"""
    command = [*forked_python(REPOSITORY), begin + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def max_open_files(directory: Path) -> int:
    """The bound with which RocksDB opened a state for writing last."""
    *_, latest = sorted((directory / INDEX_FOLDER).glob("OPTIONS-*"))
    found = re.search(r"max_open_files=(-?\d+)", latest.read_text("utf-8"))
    assert found
    return int(found[1])


@pytest.fixture(scope="module")
def many_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with more table files than RocksDB may hold open in a process that may open SOFT files."""
    directory = tmp_path_factory.mktemp("many") / "state"
    with open_state(directory) as state:
        for family in families_of(state).values():
            family.set_options({"target_file_size_base": "2000"})
        for first in range(0, RECORDS, RECORDS // 6):
            apply_log(directory, first, first + RECORDS // 6, state)
            state.compact()  # A file that overlaps with no other is moved and not cut.
    assert len(list((directory / INDEX_FOLDER).glob("*.sst"))) > SOFT // 2
    return directory


@pytest.mark.parametrize("opening", OPENINGS)
def test_every_way_to_open_a_state_raises_the_soft_limit(opening: str, tmp_path: Path) -> None:
    open_state(tmp_path).close()
    program = f"""
directory = Path(arguments[0])
{OPENINGS[opening]}
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    _, own = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = map(int, in_child(program, tmp_path, soft=SOFT).split())
    assert soft == (FILE_LIMIT if own == resource.RLIM_INFINITY else min(own, FILE_LIMIT)) > SOFT
    assert hard == own


def test_no_database_of_a_state_is_opened_with_other_options() -> None:
    opening = []
    for name in tracked_names("state/*.py", "stream/*.py"):
        text = (REPOSITORY / name).read_text("utf-8")
        for function in ast.walk(ast.parse(text)) if "Rdict(" in text else ():
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
                if "Rdict" in calls:
                    opening.append(function.name)
                    assert "database_options" in calls, (name, function.name)
    assert opening


@pytest.mark.parametrize("limit", [SOFT, 100_000])
def test_a_limit_that_is_high_enough_stays(limit: int) -> None:
    program = """
from spotsieve.state.store import rocks_options
rocks_options.FILE_LIMIT = 200
rocks_options.raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    _, own = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = limit if own == resource.RLIM_INFINITY else min(limit, own)
    assert int(in_child(program, soft=soft)) == soft


def test_a_command_lets_rocksdb_open_as_many_files_as_the_hard_limit_allows(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text('{"url": "https://a.example/", "body": "one two three"}\n', "utf-8")
    program = """
from spotsieve.stream.cli import main
raise SystemExit(main(["filter", arguments[0], "--state", arguments[1], "--out", "/dev/null"]))
"""
    in_child(program, tmp_path / "pages.jsonl", tmp_path / "state", soft=SOFT)
    _, own = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_OPEN_FILES if own == resource.RLIM_INFINITY else min(own // 2, MOST_OPEN_FILES)
    assert max_open_files(tmp_path / "state") == most > SOFT // 2


def test_a_hard_limit_that_is_too_low_for_the_table_files_is_reported(many_tables: Path) -> None:
    program = """
from spotsieve.stream.local.engines import LocalEngine
from tests.fixtures.states.local_states import SETTINGS
from spotsieve.stream.sign.schemes.registry import scheme_of
engine = LocalEngine(Path(arguments[0]), SETTINGS, scheme_of(SETTINGS.scheme))
print(*engine.notices)
engine.close()
"""
    low = in_child(program, many_tables, soft=LOW_HARD, hard=LOW_HARD)
    found = TABLES.search(low)
    assert found
    assert int(found[1]) > int(found[2]) == LOW_HARD // 2
    assert "LimitNOFILE" in low
    assert not TABLES.search(in_child(program, many_tables, soft=SOFT))


@pytest.mark.parametrize("hard", [LOW_HARD, None])
def test_a_view_of_a_state_outlives_its_checkpoint_whatever_the_limit(hard: int | None, many_tables: Path) -> None:
    program = """
from spotsieve.state.still.reading import read_only_state
directory = Path(arguments[0])
with read_only_state(directory) as state:
    print(*(len(list(state.backend.scan(family))) for family in ("entries", "buckets")))
    print(sum(1 for _ in directory.rglob("*.sst")) > sum(1 for _ in (directory / "index").glob("*.sst")))
"""
    with open_state(many_tables) as state:
        counts = [sum(1 for _ in state.backend.scan(family)) for family in ("entries", "buckets")]
    found, is_kept = in_child(program, many_tables, soft=LOW_HARD, hard=hard).splitlines()
    assert [int(number) for number in found.split()] == counts
    assert is_kept == str(hard is not None), "a checkpoint is removed only if all its files are open"


@pytest.mark.parametrize(("hard", "connections"), [(1_000, 500), (None, 500)])
def test_serve_accepts_as_many_connections_as_the_hard_limit_leaves(hard: int | None, connections: int) -> None:
    program = """
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.local.serve.server import bind
try:
    bind(ServeSettings(port=0, connections=int(arguments[0]))).close()
    print("bound", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
except SettingError as error:
    print(error)
"""
    printed = in_child(program, connections, soft=SOFT, hard=hard)
    if hard is None:
        name, limit = printed.split()
        assert name == "bound"
        assert int(limit) > SOFT
    else:
        assert "serve.connections must be at most 372, because this process may open 1,000 files" in printed
        assert "raise the hard limit" in printed
