"""Documents and comments name only files, links, make targets, commands and modules that exist; examples are true."""

import importlib.util
import io
import json
import re
import shlex
import subprocess
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import spotsieve
from bench.speed import page as speed
from spotsieve.stream import cli
from spotsieve.stream.base import errors
from spotsieve.stream.base.settings.reference import reference_markdown
from spotsieve.stream.cli import COMMANDS
from spotsieve.stream.sign.schemes.registry import SCHEMES
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import run_with
from tests.fixtures.services.forking import forked_command
from tests.fixtures.source_tree import comments_and_docstrings, tracked

README = REPOSITORY / "README.md"
DOCUMENTS = [README, REPOSITORY / "ARCHITECTURE.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
USER_DOCUMENTS = [README, *sorted((REPOSITORY / "docs").glob("*.md"))]
FOLDERS = ("stream", "state", "tests", "bench", "docs", "deploy")
ACTIONS = {
    "state": ("info", "verify", "snapshot", "restore", "forget", "export", "import", "merge", "split"),
    "topics": ("create", "check", "skip-record", "save"),
    "config": ("example", "reference", "check"),
    "model": ("build", "info"),
}
MOST_LINES = 150
MOST_WORDS = 60_000
SHELL = ("", "sh", "console", "toml")
TEXT_FILES = (
    "*.md",
    "*.py",
    "*.toml",
    "*.yaml",
    "*.yml",
    "*.tpl",
    "*.sh",
    "*.service",
    "Makefile",
    "deploy/Dockerfile",
)
IN_TREE = re.compile(r"(?<![\w/.@$~{-])(?:" + "|".join(FOLDERS) + r")/[\w./-]*\w(?![\w@]|\.?[*{<])")
MODULE = re.compile(r"\b(?:spotsieve\.(?:stream|state)|bench|tests)\.(?!json\b)[a-z_]\w*(?:\.\w+)*")
BARE_FILE = re.compile(r"(?<![\w/.*}\]-])(?!__)\w+\.py\b")
NOT_OF_THIS_TREE = {
    "CHANGELOG.md": None,  # names the tree of its day
    "docs/integrations.md": "settings.py",  # of a Scrapy project
    "tests/properties/test_scoring_agreement.py": "score.py",  # beside the labelled sets
    "tests/unit/cli/test_score_command.py": "score.py",
    "tests/unit/deploy/test_documents.py": None,  # names wrong files on purpose
}
documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def where(document: Path) -> str:
    return document.relative_to(REPOSITORY).as_posix()


def text_of(document: Path) -> str:
    return document.read_text("utf-8")


def code_of(text: str) -> list[str]:
    """What stands in backticks on a line, and the lines of code blocks."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for language, block in blocks if language in SHELL for line in block.splitlines()]
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", outside) + lines


def paths_in(text: str) -> set[str]:
    """What looks like a file or a folder of the tree: in backticks, or a document or source named in a sentence."""
    quoted = {word for code in code_of(text) for word in code.split() if word.partition("/")[0] in FOLDERS}
    plain = set(re.findall(r"(?<![\w/.])(?:" + "|".join(FOLDERS) + r")/[\w./-]+\.(?:md|py|json|toml|yaml|yml)\b", text))
    named = {word.partition("::")[0].rstrip(":,") for word in quoted | plain if "/" in word}
    return {word for word in named if re.fullmatch(r"[\w./-]+", word)}


def links_in(text: str) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def anchors_of(text: str) -> set[str]:
    """The anchors that a reader's software makes of headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_is_two_screens() -> None:
    assert len(text_of(README).splitlines()) <= MOST_LINES


def spans_that_should_be_links(text: str) -> list[str]:
    """Documents named in backticks. A reader cannot follow them."""
    return [
        code for code in code_of(text) if re.fullmatch(r"(?:docs/[\w/-]+|ARCHITECTURE|CHANGELOG)\.md(?:#[\w-]+)?", code)
    ]


@pytest.mark.parametrize("document", [README, *sorted((REPOSITORY / "docs").rglob("*.md"))], ids=where)
def test_documents_link_to_the_documents_that_they_name(document: Path) -> None:
    assert spans_that_should_be_links("see `docs/files.md`") == ["docs/files.md"]
    assert spans_that_should_be_links(text_of(document)) == []


def test_documents_name_no_folder_outside_of_the_repository() -> None:
    pages = [README, *(REPOSITORY / "docs").rglob("*.md")]
    assert [where(page) for page in pages if "../shared" in text_of(page)] == []


def test_user_documents_stay_short() -> None:
    written = [path for path in USER_DOCUMENTS if path.name != "configuration.md"]
    assert sum(len(text_of(path).split()) for path in written) <= MOST_WORDS


@documents
def test_every_file_that_a_document_names_is_there(document: Path) -> None:
    assert [path for path in sorted(paths_in(text_of(document))) if not (REPOSITORY / path).exists()] == []


def named_in(path: Path, text: str) -> list[tuple[int, str]]:
    """Files, folders and modules that a text names, with their lines. Of a program only what it says to readers."""
    patterns = (IN_TREE, MODULE, BARE_FILE)
    pieces = comments_and_docstrings(text) if path.suffix == ".py" else [(1, text)]
    return [
        (line + piece.count("\n", 0, match.start()), match[0])
        for line, piece in pieces
        for pattern in patterns
        for match in pattern.finditer(piece)
    ]


@cache
def names_of_files() -> frozenset[str]:
    return frozenset(path.name for path in tracked())


def is_there(path: Path, name: str) -> bool:
    """Whether the tree has a file, folder or module. A bare file name in a program means a file of the same folder."""
    if "/" in name:
        return any((REPOSITORY / f"{name}{suffix}").exists() for suffix in ("", ".py", ".md"))
    if name.endswith(".py"):
        return (path.parent / name).exists() if path.suffix == ".py" else name in names_of_files()
    return defines(name.removeprefix("spotsieve.").split("."), [])


def defines(module: list[str], members: list[str]) -> bool:
    """Whether the module is there and its code has these members, or the package before it has all of them."""
    place = REPOSITORY.joinpath(*module)
    sources = [one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()]
    if sources:
        code = tokenize.generate_tokens(io.StringIO(sources[0].read_text("utf-8")).readline)
        return set(members) <= {token.string for token in code}
    if place.is_dir() and not members:
        return True
    return len(module) > 1 and defines(module[:-1], [module[-1], *members])


def missing_names(path: Path, text: str) -> list[str]:
    where_from = path.relative_to(REPOSITORY).as_posix()
    if where_from in NOT_OF_THIS_TREE and NOT_OF_THIS_TREE[where_from] is None:
        return []
    return [
        f"{where_from}:{line} names {name}, which is not in the tree"
        for line, name in named_in(path, text)
        if not is_there(path, name) and NOT_OF_THIS_TREE.get(where_from) != name
    ]


def test_every_file_and_module_that_a_text_or_comment_names_is_in_the_tree() -> None:
    assert [found for path in tracked(*TEXT_FILES) for found in missing_names(path, path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("stream/judge/walk.py", True),
        ("stream/judge/rules.py", False),
        ("walk.py", True),
        ("rules.py", False),
        ("spotsieve.stream.judge.walk", True),
        ("spotsieve.stream.judge.rules.limits_of", False),
        ("bench.measure.speed", True),
        ("bench.speed", False),
    ],
)
def test_a_comment_that_names_a_file_or_module_that_is_gone_is_found(name: str, gone: bool) -> None:
    place = REPOSITORY / "stream" / "judge" / "policy.py"
    assert bool(missing_names(place, f"x = 1  # see {name}\n")) is gone


def dead_links(document: Path, text: str) -> list[str]:
    """Relative links whose file, or whose heading, is not there."""
    dead = []
    for link in links_in(text):
        path, _, anchor = link.partition("#")
        target = (document.parent / path) if path else document
        if not target.exists() or (anchor and anchor not in anchors_of(text_of(target))):
            dead.append(link)
    return dead


def test_every_link_of_every_markdown_file_leads_to_a_file_and_a_heading() -> None:
    assert dead_links(README, "[a](docs/none.md) [b](docs/faq.md#none) [c](docs/faq.md)") == [
        "docs/none.md",
        "docs/faq.md#none",
    ]
    found = {where(path): dead_links(path, text_of(path)) for path in tracked("*.md")}
    assert {name: dead for name, dead in found.items() if dead} == {}


@documents
def test_every_make_task_that_a_document_names_is_in_the_makefile(document: Path) -> None:
    tasks = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {found for code in code_of(text_of(document)) for found in re.findall(r"^make ([a-z]+)", code)}
    assert named <= tasks


@documents
def test_every_command_that_a_document_names_exists(document: Path) -> None:
    for code in code_of(text_of(document)):
        for command, action in re.findall(r"(?:^|\s|/)(?<!from )spotsieve ([a-z]+)(?: ([a-z][a-z-]*))?\b", code):
            assert command in COMMANDS, code
            assert not action or command not in ACTIONS or action in ACTIONS[command], code


def command_lines_in(text: str) -> list[list[str]]:
    """The arguments of each line of a shell block that runs our command and leaves nothing out. N is some number."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if "..." not in line]
    found = []
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True) if "spotsieve " in line else []
        if words and words[0] in ("spotsieve", ".venv/bin/spotsieve"):
            end = next(
                (at for at, word in enumerate(words) if word in ("|", "||", "&&", "&", ">", ">>", "2>", "<")), None
            )
            found.append(["0" if word == "N" else word for word in words[1:end]])
    return found


@documents
def test_every_command_line_of_a_document_is_one_that_the_command_takes(document: Path) -> None:
    parser = cli.whole_parser()
    for words in command_lines_in(text_of(document)):
        if "--help" not in words:
            parser.parse_args(words)  # Ends the test where it refuses, and says why.


def test_the_configuration_reference_is_that_of_the_models() -> None:
    page = text_of(REPOSITORY / "docs" / "configuration.md")
    assert page.strip() == reference_markdown().strip(), "run `spotsieve config reference > docs/configuration.md`"


@documents
def test_every_module_that_a_document_runs_exists(document: Path) -> None:
    named = {found for code in code_of(text_of(document)) for found in re.findall(r"python -m ([\w.]+)", code)}
    assert [name for name in sorted(named) if importlib.util.find_spec(name) is None] == []


def test_the_actions_of_commands_are_those_that_they_have() -> None:
    for command, actions in ACTIONS.items():
        shown = subprocess.run(
            [forked_command(REPOSITORY), command, "--help"], capture_output=True, text=True, check=True
        )
        assert tuple(re.findall(r"^    ([a-z-]+)(?:  |$)", shown.stdout, re.MULTILINE)) == actions


def linked_from(document: Path) -> set[Path]:
    """Every Markdown file that is reached from a document by links."""
    reached, waiting = set[Path](), [document.resolve()]
    while waiting:
        if (page := waiting.pop()) not in reached:
            reached.add(page)
            links = [(page.parent / link.partition("#")[0]).resolve() for link in links_in(text_of(page))]
            waiting += [path for path in links if path.suffix == ".md" and path.is_file()]
    return reached


def test_every_document_is_reached_from_readme_by_links() -> None:
    site_only = {"index.md", "api.md", "changelog.md"}  # the front page, the generated reference, a copy
    missing = {path for path in DOCUMENTS if path.name not in site_only} - linked_from(README)
    assert sorted(map(where, missing)) == []
    evidence = linked_from(REPOSITORY / "docs" / "evidence.md")
    assert {path for path in DOCUMENTS if path.parent.name == "measured"} <= evidence


def test_the_reference_of_the_library_has_every_public_name() -> None:
    shown = re.findall(r"^\.\. (?:auto\w+|py:data):: (\w+)$", text_of(REPOSITORY / "docs" / "api.md"), re.MULTILINE)
    assert sorted([*shown, "__version__"]) == sorted(spotsieve.__all__)


def test_the_guide_has_every_scheme() -> None:
    rows = re.findall(r"^\| (`.*?) \|", text_of(REPOSITORY / "docs" / "guide.md"), re.MULTILINE)
    missing = set(SCHEMES) - {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert missing == set(), "add the scheme to the table of docs/guide.md"


def test_operations_has_every_exit_code() -> None:
    codes = {code for name, code in {**vars(errors), **vars(cli)}.items() if name.startswith("EXIT_")}
    rows = re.findall(r"^\| (\d+) \|", text_of(REPOSITORY / "docs" / "operations.md"), re.MULTILINE)
    assert {int(row) for row in rows} == codes


def test_the_table_of_speeds_is_that_of_the_figures() -> None:
    page = text_of(speed.PAGE)
    assert page == speed.with_table(page), "run `python -m bench.speed.page`"


def test_readme_s_figures_are_those_of_their_places() -> None:
    figures: dict[str, Any] = json.loads((REPOSITORY / "docs" / "measured" / "bench.json").read_text("utf-8"))
    quality, soak = (text_of(REPOSITORY / "docs" / name) for name in ("measured/quality.md", "measured/soak.md"))
    target = r"^\| (?:catalogue|news): page F1, median of 5 orders \| ([\d.]+), (\d+) lost, .* of ([\d,]+) lost"
    found = re.findall(target, quality, re.MULTILINE)
    kills = re.findall(r"^\| workers killed \| ([\d,]+) times", soak, re.MULTILINE)[0]
    readme = text_of(README)
    assert len(found) == 2
    assert [pages for f1, lost, pages in found if f"| {f1}; {lost} of {pages} |" not in readme] == []
    assert f"| {figures['pipeline']['exactly_once.filter']['pages_per_s']:.0f} pages/s |" in readme
    assert f"| {figures['candidates']['1000000']['state_bytes_per_entry']:.0f} |" in readme
    pages = re.findall(r"^\| pages \| ([\d,]+) ", soak, re.MULTILINE)[0]
    assert f"after {kills} kills among {pages} pages | 0 |" in readme
    assert [soak.count(f"| {what} | 0 |") for what in ("pages without a verdict", "pages with two verdicts")] == [1, 1]


def test_the_commands_of_readme_and_quick_start_print_what_they_show(tmp_path: Path) -> None:
    text = text_of(README) + text_of(REPOSITORY / "docs" / "quick-start.md")
    files = re.findall(r"^```sh\n(?:mkdir /tmp/try && cd /tmp/try\n)?(cat > .*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(files) == 2
    for commands in files:
        subprocess.run(["sh", "-c", commands], cwd=tmp_path, check=True)
    shown = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(shown) == 4
    for command, output in shown:
        # The lines of README are at most 100 characters wide.
        ran = run_with(forked_command(REPOSITORY).parent, tmp_path, "sh", "-c", command, COLUMNS="100")
        ran.check_returncode()
        printed = _without_times(ran.stdout + ran.stderr).replace(str(tmp_path.resolve()), "/tmp/try").splitlines()
        assert [line for line in _without_times(output).splitlines() if line not in printed] == [], command


def _without_times(text: str) -> str:
    return re.sub(r"in \d+:\d\d:\d\d( \([^)]*\))?", "in no time", text)
