"""Commands do no harm by a slip: they ask, refuse an empty name, and tell what went wrong once and whole."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from spotsieve import Deduplicator
from spotsieve.state.directory import LOG_FILE
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.stream.base.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_SETTING, EXIT_STATE, SettingError, StateError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import EXIT_BROKEN_PIPE, main
from spotsieve.stream.cli.options import local_path
from tests.fixtures.filter_crawl import ROOT, filter_json, lines, page
from tests.fixtures.services.forking import forked_command
from tests.fixtures.waiting import SECONDS

PAGES = 30


@pytest.fixture
def state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Thirty pages of one host, and two below one path."""
    path, made = tmp_path / "crawl.jsonl", tmp_path / "state"
    pages = [page(number) for number in range(PAGES)]
    for one in pages[:2]:
        one["url"] = one["url"].replace("example.com/", "example.com/news/")
    path.write_bytes(lines(pages))
    filter_json(capsys, path, "--state", made)
    return made


def test_a_prefix_of_everything_is_refused_with_what_it_names(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "forget", "--state", str(state), "--url-prefix", "http", "--yes"]) == EXIT_SETTING
    error = capsys.readouterr().err
    assert "--max-share must be at least 1: --url-prefix and --host match 30 of 30 pages, got 0.1" in error
    assert main(["state", "forget", "--state", str(state), "--host", "example.com", "--dry-run"]) == 0
    log = (state / "log").read_bytes()
    assert main(["state", "forget", "--state", str(state), "--host", "example.com", "--yes", "--max-share", "1"]) == 0
    assert (state / "log").read_bytes() != log


def test_without_a_terminal_a_prefix_needs_yes_and_a_page_named_exactly_does_not(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forget = ["state", "forget", "--state", str(state)]
    log = (state / "log").read_bytes()
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main([*forget, "--url-prefix", "https://example.com/news/"]) == EXIT_SETTING
    assert "--yes must be given without a terminal, where nobody can confirm: 2 of 30 pages" in capsys.readouterr().err
    assert (state / "log").read_bytes() == log
    assert main([*forget, "--url-prefix", "https://example.com/news/", "--yes"]) == 0
    assert main([*forget, "--id", "p7"]) == 0


@pytest.mark.parametrize(("reply", "code"), [("y\n", 0), ("n\n", EXIT_INTERRUPTED), ("", EXIT_INTERRUPTED)])
def test_on_a_terminal_a_person_is_asked(
    state: Path, reply: str, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = (state / "log").read_bytes()
    monkeypatch.setattr("sys.stdin", Terminal(reply))
    assert main(["state", "forget", "--state", str(state), "--url-prefix", "https://example.com/news/"]) == code
    assert "forget 2 of 30 pages? [y/N]" in capsys.readouterr().err
    assert ((state / "log").read_bytes() == log) == (code != 0)


def test_no_output_is_written_into_a_state(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages, old, log, new = tmp_path / "crawl.jsonl", tmp_path / "old", state / "log", tmp_path / "new"
    filter_json(capsys, pages, "--state", old)
    before = {path: path.read_bytes() for path in (*state.glob("*"), *old.glob("*")) if path.is_file()}
    for command in (
        ["filter", pages, "--state", state, "--out", log],
        ["filter", pages, "--state", new, "--out", new / "inputs.jsonl"],
        ["filter", pages, "--verdicts", log, "--against", old, state],
        ["filter", pages, "--state", new, "--salt-from", state, "--out", log],
        ["backfill", pages, "--state", new, "--out", state, "--against", old, state],
        ["query", pages, "--state", state, "--verdicts", tmp_path / "old" / ".." / "state" / "log"],
        ["clusters", "--state", state, "--out", log],
        ["explain", "p1", "--state", state, "--html", log],
        ["state", "export", "--state", state, "--out", log],
        ["state", "export", "--state", state, "--out", state / "index" / "CURRENT"],
    ):
        assert main([*map(str, command), "--force"]) == EXIT_SETTING
        assert "must be outside of the state" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    assert not new.exists()


def test_the_share_is_of_the_pages_that_are_not_forgotten(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forget = ["state", "forget", "--state", str(state)]
    assert main([*forget, *(word for number in range(2, PAGES - 3) for word in ("--id", f"p{number}"))]) == 0
    capsys.readouterr()
    assert main([*forget, "--url-prefix", "https://example.com/news/", "--yes"]) == EXIT_SETTING
    assert "--max-share must be at least 0.4: --url-prefix and --host match 2 of 5 pages" in capsys.readouterr().err
    assert main([*forget, "--url-prefix", "https://example.com/news/", "--yes", "--max-share", "0.4"]) == 0


@pytest.mark.parametrize(
    "command",
    [
        "state snapshot state/index/copy --state state",
        "state snapshot snapshot/copy --state state",
        "state restore snapshot --state state/index",
        "state restore snapshot --state snapshot/copy",
        "state import export.jsonl --state state/index/copy",
        "state split state --shards 2 -o state/index/copy",
        "filter crawl.jsonl --state state/index",
        "filter crawl.jsonl --state snapshot/index",
        "backfill crawl.jsonl --state state/index/copy --out novel",
    ],
)
def test_no_state_is_made_in_the_database_of_a_state_or_in_a_snapshot(
    command: str, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["state", "snapshot", "snapshot", "--state", str(state)]) == 0
    assert main(["state", "export", "--state", str(state), "--out", "export.jsonl"]) == 0
    before = {path: path.is_dir() for name in ("state/index", "snapshot") for path in (tmp_path / name).iterdir()}
    capsys.readouterr()
    assert main(command.split()) == EXIT_STATE
    error = capsys.readouterr().err
    assert "must be outside of the database" in error or "must be outside of the snapshot" in error
    with pytest.raises(StateError, match=r"did you mean .*/state\?"):
        Deduplicator(state / "index")
    after = {path: path.is_dir() for name in ("state/index", "snapshot") for path in (tmp_path / name).iterdir()}
    assert [path for path, is_folder in after.items() if is_folder] == [
        path for path, is_folder in before.items() if is_folder
    ]
    assert main(["state", "verify", str(state)]) == main(["state", "verify", "snapshot"]) == 0


@pytest.mark.parametrize("share", ["nan", "inf", "-0.1", "1.5", "half", ""])
def test_a_share_that_is_none_is_refused(share: str, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["state", "forget", "--state", str(state), "--host", "example.com", "--yes", f"--max-share={share}"])
    assert ended.value.code == EXIT_SETTING
    assert f"must be a share in 0..1, such as 0.1, got {share!r}" in capsys.readouterr().err


@pytest.mark.parametrize("timeout", ["nan", "inf", "-1", "soon"])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["state", "snapshot", "backup", "--state", "seen", f"--timeout={timeout}"])
    assert ended.value.code == EXIT_SETTING
    assert f"must be a number of seconds from 0, got {timeout!r}" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        *("state info STATE", "state verify STATE --json", "query PAGES --state STATE --json", "filter PAGES --json"),
        *("query PAGES --state STATE", "filter PAGES", "explain p1 --state STATE", "clusters --state STATE"),
        *("state export --state STATE", "state forget --state STATE --id p1 --dry-run", "score PAGES"),
        *("config example", "completion bash", "--help", "--version", "filter --help-all", ""),
    ],
)
def test_a_full_standard_output_is_told_in_one_line(command: str, state: Path, tmp_path: Path) -> None:
    names = {"STATE": str(state), "PAGES": str(tmp_path / "crawl.jsonl")}
    words = [names.get(word, word) for word in command.split()]
    with Path("/dev/full").open("wb") as full:
        run = [str(forked_command(ROOT)), *words]
        done = subprocess.run(run, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False)
    error = done.stderr.decode()
    assert (done.returncode, "Traceback" in error, "Exception ignored" in error) == (EXIT_STATE, False, False), error
    assert "cannot be written: No space left on device; free disk space" in error.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("filter crawl.jsonl --cluster-ids --out novel.jsonl", "--cluster-ids needs --verdicts or --duplicates"),
        ("backfill crawl.jsonl --state new --out novel --cluster-ids", "--cluster-ids needs --verdicts"),
        ("filter crawl.jsonl --stdin-name tail --out novel.jsonl", "--stdin-name needs standard input among the files"),
        ("query crawl.jsonl --stdin-name tail --state state", "--stdin-name needs standard input among the files"),
        ("query crawl.jsonl --state state --all --json", "--all needs an output of verdicts"),
        ("query crawl.jsonl --state state --all --pages -", "--all needs an output of verdicts"),
        ("clusters v.jsonl --csv -o clusters.jsonl", "--csv must not be used with an --out that has the suffix"),
        ("clusters v.jsonl --csv -o clusters.json.gz", "--csv must not be used with an --out that has the suffix"),
        ("review crawl.jsonl --newest 5 -o review.html", "--newest needs --topic"),
        ("calibrate crawl.jsonl --labels labels.jsonl --sizes 5", "--sizes must not be used with --labels"),
        ("calibrate crawl.jsonl --labels labels.jsonl --smallest 4", "--smallest must not be used with --labels"),
        ("score crawl.jsonl --positive 0", "--positive must not be used without labels"),
        ("demo --crawl demo.jsonl --keep", "--keep must not be used with --crawl"),
        ("demo --crawl demo.jsonl --json", "--json must not be used with --crawl"),
        ("explain p1 --state state --url https://a.example/", "--url needs the file of a page"),
        ("explain p1 --state state --other-url https://a.example/", "--other-url needs the file OTHER"),
        ("explain p1 p2 --state state --other-url https://a.example/", "--other-url must not be used with --state"),
    ],
)
@pytest.mark.usefixtures("state")
def test_a_flag_without_effect_is_refused(
    command: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == EXIT_SETTING
    (line,) = capsys.readouterr().err.splitlines()
    assert flag in line
    assert {path.name for path in tmp_path.iterdir()} == {"crawl.jsonl", "state"}


@pytest.mark.parametrize(
    "command",
    [
        "filter crawl.jsonl --out FILE",
        "filter crawl.jsonl --verdicts ./FILE",
        "query crawl.jsonl --state state --pages FILE",
        "clusters crawl.jsonl -o FILE",
        "explain p1 --state state --html FILE",
        "review crawl.jsonl -o FILE",
        "score set --verdicts FILE",
        "sample crawl.jsonl -o SET",
        "replay --into FILE",
        "topics save FILE",
        "backfill crawl.jsonl --state new --out PARTS",
    ],
)
@pytest.mark.usefixtures("state")
def test_no_output_overwrites_the_configuration_even_with_force(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / ("SET/pages.jsonl.xz" if "SET" in command else "PARTS/00000-crawl.jsonl")
    config = config if {"SET", "PARTS"} & set(command.split()) else tmp_path / "config.html"
    config.parent.mkdir(exist_ok=True)
    config.write_text('[topics]\nnovel = "n"\n')
    words = command.replace("FILE", "config.html").split()
    assert main([*words, "--force", "-c", str(config)]) == EXIT_SETTING
    error = capsys.readouterr().err
    assert str(config) in error or config.name in error
    assert "must not go to the same place as" in error or "must not overwrite the file of -c" in error
    assert config.read_text() == '[topics]\nnovel = "n"\n'


class Terminal:
    """Standard input where a person types this reply."""

    def __init__(self, reply: str) -> None:
        self._reply = reply

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._reply


@pytest.mark.parametrize(
    "arguments",
    [
        ["filter", "pages.jsonl", "--state="],
        ["filter", "pages.jsonl", "--out", ""],
        ["query", "pages.jsonl", "--state", ""],
        ["state", "forget", "--id", "x", "--state="],
        ["state", "import", "export.jsonl", "--state= "],
        ["run", "--state="],
        ["run", "-c", ""],
        *(["state", action, ""] for action in ("info", "verify")),
        ["state", "snapshot", "", "--state", "seen"],
        ["state", "restore", "", "--state", "seen"],
        ["state", "import", "", "--state", "seen"],
        ["state", "export", "--state", "seen", "--out", ""],
        ["score", ""],
        ["score", "set", "--verdicts", ""],
        ["model", "build", "pages.jsonl", "--scheme", "imatch", "--out", ""],
        ["topics", "save", ""],
    ],
)
def test_an_empty_name_is_refused_and_nothing_is_written_into_the_current_directory(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages.jsonl").write_bytes(lines([page(1)]))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == EXIT_SETTING
    assert "must not be empty; is a variable unset?" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["pages.jsonl"]


@pytest.mark.parametrize(
    "command",
    [
        "filter pages.jsonl --state URL",
        "query pages.jsonl --state URL",
        "filter pages.jsonl --against URL",
        "backfill pages.jsonl --state URL",
        "state snapshot URL --state seen",
        "state import URL --state seen",
        "state restore seen --state URL",
        "sample pages.jsonl -o URL",
        "model build pages.jsonl --scheme imatch -o URL",
        "explain p1 --pages pages.jsonl --verdicts URL",
        "explain p1 --pages pages.jsonl --html URL",
        "score pages.jsonl --read-verdicts URL",
        "review pages.jsonl --verdicts URL -o review.html",
        "review pages.jsonl -o URL",
    ],
)
def test_a_url_in_place_of_a_local_file_is_refused_and_makes_no_directory(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages.jsonl").write_bytes(lines([page(1)]))
    with pytest.raises(SystemExit) as ended:
        main(command.replace("URL", "s3://bucket/seen").split())
    assert ended.value.code == EXIT_SETTING
    assert "must be on this machine, got the URL 's3://bucket/seen'; copy it here first" in capsys.readouterr().err
    with pytest.raises(SettingError, match="must be a directory of this machine"):
        Deduplicator("s3://bucket/seen")
    assert [path.name for path in tmp_path.iterdir()] == ["pages.jsonl"]


def test_a_file_url_is_a_directory_of_this_machine(tmp_path: Path) -> None:
    assert local_path(f"file://{tmp_path}") == tmp_path
    with Deduplicator(f"file://{tmp_path}/state"):
        assert (tmp_path / "state" / LOG_FILE).exists()


def test_a_local_path_that_contains_the_mark_of_a_url_is_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("./s3://seen") == Path("s3:/seen")
    with Deduplicator("./s3://seen"):
        assert (tmp_path / "s3:" / "seen" / LOG_FILE).exists()


def test_an_empty_state_directory_in_the_settings_is_refused_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--set", "index.directory="]) == EXIT_SETTING
    assert "index.directory" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_the_filter_with_141_and_no_word_of_disks(tmp_path: Path) -> None:
    path = tmp_path / "crawl.jsonl"
    path.write_bytes(lines([page(number) for number in range(400)]))
    command = [sys.executable, "-m", "spotsieve.stream", "filter", str(path), "--out", "-"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        error = process.stderr.read().decode()
        assert process.wait() == EXIT_BROKEN_PIPE
    assert "disk" not in error
    assert "Traceback" not in error


class Interruption:
    """An interrupt in a destructor, where Python ignores it."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_python_ignores_in_a_destructor_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: object) -> int:
        Interruption()
        threading.Event().wait(SECONDS)
        return EXIT_OK

    monkeypatch.setattr("spotsieve.stream.cli.config.run", run)
    assert main(["config", "check"]) == EXIT_INTERRUPTED
    assert "KeyboardInterrupt" not in capsys.readouterr().err


def test_an_interrupt_as_a_command_ends_does_not_reach_the_caller_of_main(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(_: object) -> int:
        Interruption()
        return EXIT_OK

    sent = list[tuple[object, ...]]()
    monkeypatch.setattr(signal, "pthread_kill", lambda *arguments: sent.append(arguments))
    monkeypatch.setattr("spotsieve.stream.cli.config.run", run)
    assert main(["config", "check"]) == EXIT_OK
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):
            timer.join(SECONDS)
    assert sent == []


def test_config_check_tells_all_that_is_wrong_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["kafka.groupid=a", "service.mode=both", "index.bucket_cap=0"]
    assert main(["config", "check", *(text for one in wrong for text in ("--set", one))]) == EXIT_SETTING
    messages = capsys.readouterr().err.splitlines()
    assert len(messages) == 3
    for setting in ("kafka.groupid", "service.mode", "index.bucket_cap"):
        assert sum(setting in line for line in messages) == 1
    together = [
        "scheme.name=manku",
        "scheme.tables=5",
        "input.preset=norconex",
        "input.format=html",
        "topics.novel=pages",
    ]
    assert main(["config", "check", *(text for one in together for text in ("--set", one))]) == EXIT_SETTING
    messages = capsys.readouterr().err.splitlines()
    assert ["tables" in messages[0], "input.preset" in messages[1], "topics" in messages[2]] == [True] * 3


@pytest.mark.parametrize(
    ("together", "message"),
    [
        (["cluster.shards=2", "policy.keep=newest"], "policy.keep must be first or longest in shards"),
        (["cluster.shards=2", "policy.recrawl=pass"], "policy.recrawl must be drop in shards"),
        (["kafka.security_protocol=SASL_PLAINTEXT"], "kafka.sasl_username must be set"),
        (["kafka.sasl_password=secret"], "kafka.sasl_password has no effect with security_protocol PLAINTEXT; set"),
        (["kafka.sasl_password_file={secret}"], "kafka.sasl_password_file has no effect with security_protocol PLAIN"),
        (["kafka.ssl_key_password_file={secret}"], "or remove kafka.ssl_key_password_file"),
        (["kafka.security_protocol=SSL", "kafka.sasl_username=me"], "kafka.sasl_username has no effect with"),
        (["kafka.ssl_cafile=/etc/ca.pem"], "kafka.ssl_cafile has no effect with security_protocol PLAINTEXT; set"),
        (["kafka.bootstrap_servers=localhost:99999"], "kafka.bootstrap_servers must be a comma-separated list"),
        (["kafka.security_protocol=SSL", "kafka.ssl_cafile=/none.pem"], "must be readable PEM files"),
    ],
)
def test_config_check_tells_what_a_service_would_refuse(
    together: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    given = [one.replace("{secret}", str(secret)) for one in together]
    assert main(["config", "check", *(text for one in given for text in ("--set", one))]) == EXIT_SETTING
    assert message in capsys.readouterr().err


def test_config_check_tells_each_fault_of_the_clients(capsys: pytest.CaptureFixture[str]) -> None:
    together = ["kafka.security_protocol=SASL_SSL", "kafka.ssl_cafile=/none.pem", "kafka.bootstrap_servers=a:99999"]
    assert main(["config", "check", *(text for one in together for text in ("--set", one))]) == EXIT_SETTING
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_broker_that_is_not_there_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("aiokafka"), "level", logging.NOTSET)
    assert main(["topics", "check", "--set", "kafka.bootstrap_servers=localhost:1"]) == 5
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("spotsieve: kafka.bootstrap_servers leads to no broker that responds")


@pytest.mark.guarantee(
    "a state stays usable when fields of the input are renamed", fault="other fields for body and URL"
)
def test_names_of_fields_are_not_part_of_a_state_s_identity(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = tmp_path / "renamed.jsonl"
    one = page(3)
    renamed.write_bytes(lines([{"html": one["body"], "link": one["url"], "id": "again"}]))
    fields = ["--set", "input.fields.body=html", "--set", "input.fields.url=link"]
    assert filter_json(capsys, renamed, "--state", state, *fields)["duplicate"] == 1
    names = json.loads(verdict_settings_text(Settings()))
    assert [name for name in names if name.startswith("input.fields.")] == []
    assert "input.accepted_statuses" in names


@pytest.mark.parametrize(
    "command",
    [
        ["query", "--state", "theirs", "crawl.jsonl"],
        ["explain", "p1", "--state", "theirs"],
        ["serve", "--state", "theirs", "--port", "0"],
        ["migrate", "--from-state", "theirs", "--state", "ours"],
        ["state", "info", "theirs"],
        ["state", "verify", "theirs"],
        ["state", "export", "--state", "theirs"],
        ["state", "merge", "theirs", "theirs", "--state", "ours"],
    ],
    ids=" ".join,
)
def test_a_state_of_another_user_is_refused_in_a_line_that_says_so(
    command: list[str], state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(state.parent)
    state.rename("theirs")
    stat = os.stat

    def refusing(path: Any, **how: Any) -> os.stat_result:
        if "theirs" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", refusing)  # tests may run as root, which reads all files
    assert main(command) == EXIT_STATE
    error = capsys.readouterr().err
    assert "Permission denied; run this command as its owner" in error
    assert error.count("\n") == 1


def test_a_refusal_of_the_database_names_the_directory(tmp_path: Path) -> None:
    error = (
        r"index\.directory cannot be used to open the state by this user \(Permission denied .*; run this as the owner"
    )
    with pytest.raises(StateError, match=error), rocks_errors(tmp_path, "open"):
        raise PermissionError("Permission denied (os error 13)")
