"""What a person expects of any command: plain options, hints, completion, and outputs that overwrite nothing."""

import math
import os
import re
import shutil
import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import EXIT_INPUT
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import COMMANDS, GROUPS, main, whole_parser
from spotsieve.stream.cli.options import settings_of, whole_number_within
from spotsieve.stream.research.scoring.truth import NEGATIVE, POSITIVE
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import filter_json, lines, page, read_json, refused, warc_record, write_crawl

HEAVY = {"numpy", "numba", "pydantic", "pydantic_core", "asyncio", "rocksdict", "aiokafka", "structlog", "rich"}


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.jsonl"
    write_crawl(path)
    return path


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is printed to the errors by a command whose arguments are refused."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["fliter", "x"], "got 'fliter'; did you mean filter?"),
        (["Score"], "did you mean score?"),
        (["xyzzy"], "got 'xyzzy'; --help describes each"),
        (["state", "imprt"], "did you mean import?"),
        (["config", "exmple"], "did you mean example?"),
        (["cluster", "status"], "got 'cluster'; did you mean shards?"),
    ],
)
def test_a_word_that_is_no_command_gets_the_nearest_one(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hint in error_of(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (
            ["filter", "x", "--ouput", "y"],
            "spotsieve filter: error: unrecognized arguments: --ouput y; did you mean --out?",
        ),
        (["state", "verify", "x", "--stat=y"], "spotsieve state verify: error: unrecognized arguments: --stat=y"),
        (["--foo"], "spotsieve: error: unrecognized arguments: --foo"),
    ],
)
def test_an_unknown_option_is_refused_with_the_usage_of_its_command(
    arguments: list[str], end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_of(capsys, *arguments).endswith(f"{end}\n")


def test_capital_v_is_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["-V"])
    assert capsys.readouterr().out.startswith("spotsieve 0.")


def test_help_of_every_command_imports_nothing_heavy() -> None:
    code = (
        "import contextlib, io, sys, spotsieve.stream.cli\n"
        "def loaded(*words):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        spotsieve.stream.cli.main([*words, '--help'])\n"
        f"    return sorted({HEAVY} & set(sys.modules))\n"
        "print([word for word in ('', *spotsieve.stream.cli.COMMANDS) if loaded(*filter(None, [word]))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_command_is_in_one_group_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{heading}:\n") for heading in GROUPS]
    assert places == sorted(places)
    for name in COMMANDS:
        assert re.search(rf"(?m)^  {name}\b", shown), name


def test_the_help_of_filter_has_a_dozen_options_and_help_all_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    def options_in(flag: str) -> set[str]:
        with pytest.raises(SystemExit) as ended:
            main(["filter", flag])
        assert ended.value.code == 0
        return set(re.findall(r"--[a-z-]+", capsys.readouterr().out))

    short, whole = options_in("--help"), options_in("--help-all")
    assert len(short - {"--set"}) <= 12
    assert short < whole
    rare = {"--revisits", "--rejected", "--stdin-name", "--cluster-ids", "--salt-from", "--text", "--timeout"}
    assert whole - short == rare


@pytest.mark.parametrize("columns", ["20", "40", "80"])
@pytest.mark.parametrize("words", [["--help"], ["filter", "--help-all"], ["score", "--help"]])
def test_help_fits_a_narrow_terminal_where_words_allow_it(
    columns: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    # The usage is indented by the name of the command.
    shown = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    assert columns == "20" or max(map(len, shown)) <= int(columns)


def test_a_variable_with_one_underscore_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPOTSIEVE_SERVICE_MODE", "secret")
    assert main(["config", "check"]) == main(["config", "check"]) == 0
    shown = capsys.readouterr().err
    assert shown.count("SPOTSIEVE_SERVICE_MODE is ignored") == 1
    assert "rename it to SPOTSIEVE_SERVICE__MODE" in shown
    assert "secret" not in shown


def test_such_a_variable_is_reported_by_commands_that_read_two_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPOTSIEVE_KAFKA_GROUP_ID", "1")
    assert main(["migrate", "-c", str(tmp_path / "none.toml"), "--switch"]) == 2
    shown = capsys.readouterr().err
    assert "SPOTSIEVE_KAFKA_GROUP_ID is ignored" in shown
    assert "none.toml" in shown


def test_config_example_has_the_settings_of_the_named_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "example", "--scheme", "minhash"]) == 0
    assert 'name = "minhash"' in capsys.readouterr().out
    assert main(["config", "example", "--scheme", "minhsh"]) == 2
    assert "did you mean minhash" in capsys.readouterr().err


def test_the_bounds_in_the_help_of_score_are_those_of_the_labels(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    help_text = " ".join(capsys.readouterr().out.split())
    assert f"minimum similarity of a duplicate ({POSITIVE})" in help_text
    assert f"novel below this similarity ({NEGATIVE})" in help_text


def test_scheme_and_threshold_are_plain_options(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = filter_json(capsys, crawl, "--threshold", "1")
    assert summary["reasons"] == {"no_match": 3, "exact": 1, "too_few_features": 1}
    verdicts = tmp_path / "v.jsonl"
    filter_json(capsys, crawl, "--scheme", "minhash", "--threshold", "0.4", "--verdicts", verdicts)
    assert {line["scheme"] for line in read_json(verdicts)} == {"minhash"}


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ([], {"scheme.min_containment": 0.6, "scheme.max_fresh_words": 0}),
        (["--threshold", ".75"], {"scheme.min_containment": 0.75}),
        (
            ["--threshold", "1", "--set", "scheme.max_fresh_words=50"],
            {"scheme.min_containment": 1.0, "scheme.max_fresh_words": 50},
        ),
        (["--scheme", "chain", "--threshold", "5"], {"scheme.max_distance_bits": 5, "scheme.tables": 21}),
        (["--scheme", "subhash"], {"scheme.k": 3}),
    ],
)
def test_a_threshold_is_the_setting_of_the_scheme_and_brings_what_goes_with_it(
    arguments: list[str], settings: dict[str, float]
) -> None:
    found: Settings = settings_of(whole_parser().parse_args(["filter", "pages.jsonl", *arguments]))
    assert {name: getattr(found.scheme, name.removeprefix("scheme.")) for name in settings} == settings


def test_a_wrong_scheme_or_threshold_is_one_line(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "scheme.min_containment should be less than or equal to 1" in refused(capsys, crawl, "--threshold", "50")[1]
    assert "did you mean minhash?" in refused(capsys, crawl, "--scheme", "minhsah")[1]
    assert "scheme.k" in refused(capsys, crawl, "--scheme", "subhash", "--threshold", "2.5")[1]


def test_an_output_that_is_there_is_kept_unless_force_is_given(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    filter_json(capsys, crawl, "--state", state)
    commands = {
        "--verdicts": ["filter", str(crawl), "--verdicts"],
        "--out": ["filter", str(crawl), "--out"],
        "--rejected": ["query", str(crawl), "--state", str(state), "--json", "--rejected"],
    }
    for flag, command in commands.items():
        there = tmp_path / "there.jsonl"
        there.write_text("mine", "utf-8")
        capsys.readouterr()
        assert main([*command, str(there)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert (
            f"{flag} must be a new file, got '{there}'; choose another name, or overwrite this file with --force"
            in error
        )
        assert there.read_text("utf-8") == "mine"
        assert main([*command, str(there), "--force"]) == 0
        assert there.read_text("utf-8") != "mine"
    there.write_text("mine", "utf-8")
    export = ["state", "export", "--state", str(state), "--out", str(there)]
    assert main(export) == 2
    assert there.read_text("utf-8") == "mine"
    assert main([*export, "--force"]) == 0
    assert there.read_text("utf-8").startswith("{")
    assert main(["filter", str(crawl), "--out", "/dev/null"]) == 0


@pytest.mark.parametrize("name", ["novel.avro", "novel.csv.gz", "novel.zip", "novel.WACZ"])
def test_an_ending_that_is_not_written_is_refused(
    crawl: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = refused(capsys, crawl, "--out", tmp_path / name)
    assert code == 2
    assert "because this format is not written; let it end in .jsonl or .warc" in error
    assert list(tmp_path.iterdir()) == [crawl]


def test_names_with_dots_of_their_own_are_written(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("novel", "novel.2024-03-01", "novel.v1.2", "novel.jsonl.gz", "novel.txt"):
        filter_json(capsys, crawl, "--out", tmp_path / name)
        assert len(read_json(tmp_path / name)) == 3


def test_records_go_into_no_file_that_is_named_as_of_the_other_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warc, jsonl = tmp_path / "crawl.warc", tmp_path / "crawl.jsonl"
    warc.write_bytes(warc_record(1, "http://a.example/"))
    jsonl.write_bytes(lines([page(2)]))
    assert (
        "has a suffix of another format, but its content is JSON lines"
        in refused(capsys, jsonl, "--out", tmp_path / "out.warc.gz")[1]
    )
    assert (
        "has a suffix of another format, but its content is WARC records"
        in refused(capsys, warc, "--out", tmp_path / "out.jsonl")[1]
    )
    assert (
        "has a suffix of another format, but its content is JSON lines"
        in refused(capsys, warc, "--verdicts", tmp_path / "v.warc")[1]
    )
    assert not list(tmp_path.glob("*.partial"))


def test_a_pipe_that_is_named_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert main(["filter", str(pipe)]) == EXIT_INPUT
    assert "is a pipe and not a file; pipe it into standard input" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["spotsieve", "fil"], ["filter"]),
        (["spotsieve", "state", "ver"], ["verify"]),
        (["spotsieve", "filter", "--thr"], ["--threshold"]),
        (["spotsieve", "filter", "--out", "cra"], ["crawl.jsonl"]),
    ],
)
def test_bash_completes_commands_options_and_files(
    words: list[str], expected: list[str], crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    completion = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_spotsieve"
    completion += '; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{completion}"], cwd=crawl.parent, capture_output=True, text=True, check=True
    )
    assert [line.strip() for line in done.stdout.splitlines()] == expected, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_get_a_script_with_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b", script)] == []


@pytest.mark.parametrize("text", ["", "-1", "+5", " 5", "1_0", "5.0", "\u0665", "9223372036854775808", "9" * 10_000])
def test_a_flag_of_a_whole_number_refuses_other_text_and_what_64_bits_cannot_hold(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="must be a whole number from 0"):
        whole_number_within(text, 0, math.inf, "a whole number from 0")


def test_a_flag_of_a_whole_number_takes_every_offset_of_kafka() -> None:
    assert whole_number_within("9223372036854775807", 0, math.inf, "an offset") == 2**63 - 1
    assert whole_number_within("0007", 0, 999, "a number") == 7
