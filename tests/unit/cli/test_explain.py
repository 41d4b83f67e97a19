"""`spotsieve explain`: a page by URL, id, file or verdict line, against a state, files, or one other page."""

import contextlib
import gzip
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_NOT_FOUND, EXIT_SETTING, EXIT_STATE
from spotsieve.stream.cli import main
from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json, write_crawl

COPY = "https://example.com/copy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl of five pages, two of them copies, its state, and its verdicts."""
    made = tmp_path_factory.mktemp("made")
    write_crawl(made / "crawl.jsonl")
    arguments = [made / "crawl.jsonl", "--state", made / "state", "--verdicts", made / "v.jsonl", "--json"]
    assert main(["filter", *map(str, arguments)]) == 0
    return made


def explained(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The output of --json."""
    assert main(["explain", "--json", *map(str, arguments)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    fields: dict[str, Any] = json.loads(line)
    return fields


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["explain", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    assert main(["explain", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert not captured.out
    (line,) = captured.err.splitlines()
    return line


def holdings(directory: Path) -> dict[str, bytes]:
    """The data files of a state, without the logs of RocksDB."""
    return {
        path.name: path.read_bytes() for path in directory.rglob("*") if path.suffix == ".sst" or path.name == "log"
    }


def test_a_dropped_page_has_the_verdict_that_it_had_by_url_and_by_id(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = holdings(folder / "state")
    by_url = explained(capsys, COPY, "--state", folder / "state")
    recorded = next(line for line in read_json(folder / "v.jsonl") if line["url"] == COPY)
    for name in ("verdict", "reason", "duplicate_of", "score", "scheme", "original_url"):
        assert by_url[name] == recorded[name]
    (criterion, *_) = by_url["compared_with"]["criteria"]
    assert criterion["reached"]
    thresholds = {one["name"]: one for one in criterion["thresholds"]}
    contained = thresholds[f"containment of the {by_url['part']}"]
    assert contained["needed"] <= by_url["containment"] == round(contained["value"], 6) == by_url["score"]
    assert by_url["fresh_words"] <= thresholds[f"fresh words in the {by_url['part']}"]["needed"]
    assert by_url["compared_with"]["fate"] == "original"
    assert by_url["compared_with"]["keys"]["MinHash values"] > 4
    assert by_url["texts"] is None
    by_id = explained(capsys, "copy", "--state", folder / "state")
    assert by_id["page"].pop("name") != by_url["page"].pop("name")
    assert by_id == by_url
    assert holdings(folder / "state") == before


def test_with_the_pages_it_shows_both_texts_and_marks_shared_and_fresh_text(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(capsys, COPY, "--state", folder / "state", "--pages", folder / "crawl.jsonl")
    texts = found["texts"]
    assert texts["page"]["shared"] == texts["other"]["shared"] == texts["other"]["shingles"] < texts["page"]["shingles"]
    pieces = [piece for block in texts["page"]["blocks"] for piece in block["pieces"]]
    (fresh,) = (piece["text"] for piece in pieces if piece["fresh"])
    assert fresh.startswith("A line of the editor's own")
    assert [run["text"] for run in texts["page"]["fresh"]] == [fresh]
    assert texts["other"]["fresh"] == []
    assert sum(len(piece["text"]) for piece in pieces if piece["shared"]) > 500
    assert texts["containment"] == pytest.approx(found["containment"], abs=0.1)
    assert texts["fresh_words"] == texts["page"]["fresh"][0]["words"] == pytest.approx(found["fresh_words"], abs=10)
    assert texts["jaccard"] is None, "it decides nothing"


def test_an_explanation_begins_with_the_contained_share_and_the_fresh_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, COPY, "--state", folder / "state", "--pages", folder / "crawl.jsonl")
    labels = [line[:13].strip() for line in text.splitlines() if line[:13].strip()]
    assert labels[:6] == ["page", "verdict", "original", "contained", "fresh words", "criterion"]
    unwrapped = " ".join(text.split())
    assert "of the distinctive main text, needs 0.756 (over the texts: 0.97)" in unwrapped
    assert "fresh text 14 words: \"A line of the editor's own" in unwrapped


def test_a_verdict_line_and_a_report_are_explained_with_the_recorded_verdict(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = next(line for line in (folder / "v.jsonl").read_bytes().splitlines() if b'"copy"' in line)
    recorded = json.loads(line)
    report = {
        "page": {"id": "copy", "url": COPY},
        "duplicate_of": {"id": "p1", "url": recorded["original_url"]},
        "reason": recorded["reason"],
        "score": recorded["score"],
    }
    one, other = tmp_path / "line", tmp_path / "report"
    one.write_bytes(line)
    other.write_text(json.dumps(report))
    as_line, as_report = (explained(capsys, file, "--state", folder / "state") for file in (one, other))
    assert as_line["recorded"] == as_report["recorded"]
    assert as_line["recorded"]["original"] == as_line["duplicate_of"] == "p1"
    looked_up = explained(capsys, COPY, "--state", folder / "state", "--verdicts", folder / "v.jsonl")
    assert looked_up["recorded"] == as_line["recorded"]


def test_verdict_lines_of_other_programs_are_recognised_or_refused_in_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = next(line for line in (folder / "v.jsonl").read_bytes().splitlines() if b'"copy"' in line)
    fields, found = (
        json.loads(line),
        explained(capsys, COPY, "--state", folder / "state", "--verdicts", folder / "v.jsonl"),
    )
    one, many = tmp_path / "line", tmp_path / "many.jsonl"
    one.write_bytes(b"\xef\xbb\xbf" + line)
    assert explained(capsys, one, "--state", folder / "state")["recorded"] == found["recorded"]
    many.write_bytes(line.replace(b"/", b"\\/").replace(b"copy", b"\\u0063opy"))
    for name in (COPY, "copy"):
        as_line = explained(capsys, name, "--state", folder / "state", "--verdicts", many)
        assert as_line["recorded"] == found["recorded"]
    for change in ({"id": 5}, {"id": None}, {"verdict": 1}, {"reason": ["x"]}, {"duplicate_of": [1]}):
        one.write_text(json.dumps(fields | change))
        refused(capsys, EXIT_INPUT, one, "--state", folder / "state")
    one.write_text(json.dumps(fields | {"score": "0.9"}))
    assert explained(capsys, one, "--state", folder / "state")["recorded"] == found["recorded"] | {"score": None}


def test_a_recorded_verdict_that_differs_is_told_in_text_and_html(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notice, html = "The verdict differs from the recorded one", tmp_path / "why.html"
    (copy,) = (line for line in read_json(folder / "v.jsonl") if line["id"] == "copy")
    (novel,) = (line for line in read_json(folder / "v.jsonl") if line["id"] == "p1")
    indexed = {"verdict": "duplicate", "reason": "contained", "duplicate_of": "p2"}
    for name, line, differs in (
        (COPY, copy, False),
        (COPY, copy | {"duplicate_of": "p2"}, True),
        (COPY, copy | {"reason": "exact"}, True),
        ("p1", novel, False),
        ("p1", novel | indexed, True),
    ):
        (tmp_path / "v.jsonl").write_text(json.dumps(line))
        recorded = ("--verdicts", tmp_path / "v.jsonl", "--html", html, "--force")
        text = shown(capsys, name, "--state", folder / "state", *recorded)
        assert [notice in " ".join(text.split()), notice in html.read_text()] == [differs, differs]


@contextlib.contextmanager
def standard_input(content: Path) -> Iterator[None]:
    """Standard input that reads a file."""
    kept = os.dup(0)
    try:
        with content.open("rb") as file:
            os.dup2(file.fileno(), 0)
            yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def warc_of(fields: dict[str, Any]) -> bytes:
    body = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{fields['body']}".encode()
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {fields['url']}\r\nContent-Length: {len(body)}\r\n\r\n"
    return b"%s%s\r\n\r\n" % (head.encode(), body)


def parquet_of(fields: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({name: [value] for name, value in fields.items()}), written)
    return written.getvalue()


def mhtml_of(fields: dict[str, Any]) -> bytes:
    head = f"Snapshot-Content-Location: {fields['url']}\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
    return f"{head}--b\r\nContent-Type: text/html\r\n\r\n{fields['body']}\r\n--b--\r\n".encode()


def single_file_of(fields: dict[str, Any]) -> bytes:
    return f"<html><!--\n Page saved with SingleFile \n url: {fields['url']}\n-->{fields['body']}".encode()


@pytest.mark.parametrize(
    "form",
    [
        lambda fields: json.dumps(fields).encode(),
        lambda fields: b"\xef\xbb\xbf" + json.dumps(fields).encode() + b"\n",
        lambda fields: gzip.compress(json.dumps(fields).encode()),
        warc_of,
        parquet_of,
        mhtml_of,
        single_file_of,
    ],
    ids=["jsonl", "byte-order-mark", "gzip", "warc", "parquet", "mhtml", "singlefile"],
)
def test_one_page_of_any_format_is_read_from_a_pipe_as_from_a_file(
    form: Callable[[dict[str, Any]], bytes], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawled = next(one for one in read_json(folder / "crawl.jsonl") if one["url"] == COPY)
    one = tmp_path / "one"
    one.write_bytes(form(crawled))
    by_name = explained(capsys, one, "--state", folder / "state")
    with standard_input(one):
        piped = explained(capsys, "-", "--state", folder / "state")
    assert by_name["page"]["url"] == piped["page"]["url"] == COPY
    assert by_name["duplicate_of"] == piped["duplicate_of"] == "p1"
    assert by_name["score"] == piped["score"]


def test_a_saved_page_without_a_url_and_one_with_a_given_url_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields, saved, nameless = page(1), tmp_path / "saved.mhtml", tmp_path / "nameless.mhtml"
    saved.write_bytes(mhtml_of(fields))
    nameless.write_bytes(mhtml_of(fields).split(b"\r\n", 1)[1])
    found = explained(capsys, nameless, saved, "--url", "https://given.example/")
    assert found["page"]["url"] == "https://given.example/"
    assert found["verdict"] == "duplicate"
    assert explained(capsys, nameless, saved)["verdict"] == "duplicate"


def test_a_novel_page_is_shown_beside_its_nearest_candidate_and_its_thresholds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half, file = page(1, "half"), tmp_path / "half.jsonl"
    half["url"] = "https://elsewhere.example/half"
    half["body"] = f"<p>{article(1)[:1500]} {article(8)[:2000]}</p>"
    file.write_bytes(lines([half]))
    found = explained(capsys, file, "--state", folder / "state")
    assert (found["verdict"], found["reason"]) == ("novel", "no_match")
    other = found["compared_with"]
    assert (other["id"], other["fate"], other["accepted"]) == ("p1", "no match", False)
    thresholds = [one for criterion in other["criteria"] for one in criterion["thresholds"] if not one["reached"]]
    assert any(one["name"].startswith("containment") and 0 < one["shortfall"] < 0.6 for one in thresholds)
    text = shown(capsys, file, "--state", folder / "state")
    assert "- containment of the distinctive main text: 0." in text
    assert "needs 0.6" in text


def test_an_indexed_page_is_shown_beside_the_named_page_and_the_other_candidates(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(capsys, "p1", "p2", "--state", folder / "state")
    assert (found["verdict"], found["reason"]) == ("novel", "first_attempt")
    assert found["compared_with"]["id"] == "p2"
    assert "p1" not in [other["id"] for other in found["nearest"]]


def test_two_files_are_compared_without_a_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    one.write_text(f"<title>Mills</title><ul><li>Menu</ul><p>{article(3)}")
    other.write_text(f"<p>{article(3)[:-400]}")
    found = explained(capsys, one, other)
    assert (found["verdict"], found["original_url"]) == ("duplicate", "https://other.invalid/")
    assert found["texts"]["page"]["title"] == "Mills"
    assert [block["main_text"] for block in found["texts"]["page"]["blocks"]] == [False, True]
    same = explained(capsys, one, other, "--url", "https://a.example/1", "--other-url", "https://a.example/2")
    assert same["compared_with"]["figures"]["one host"] == 1
    alone = explained(capsys, one)
    assert (alone["verdict"], alone["compared_with"]) == ("novel", None)


def test_without_a_state_the_pages_before_it_are_judged_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "copy", "--pages", folder / "crawl.jsonl")
    by_state = explained(capsys, "copy", "--state", folder / "state")
    for name in ("verdict", "reason", "score", "duplicate_of"):
        assert found[name] == by_state[name]
    assert found["known_pages"] == 2
    assert found["texts"]["other"] is not None


@pytest.mark.parametrize("scheme", ["manku", "minhash", "onebit"])
def test_other_schemes_name_their_own_thresholds(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    one.write_text(f"<p>{article(3)}")
    other.write_text(f"<p>{article(3)} And one sentence more.")
    found = explained(capsys, one, other, "--set", f"scheme.name={scheme}")
    assert found["scheme"] == scheme
    names = {one["name"] for criterion in found["compared_with"]["criteria"] for one in criterion["thresholds"]}
    expected = {
        "manku": "bits of the fingerprint that differ",
        "minhash": "equal minima of 84",
        "onebit": "bits of 400 that differ",
    }
    assert names == {expected[scheme]}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.marked = self.fresh = ""
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.in_fresh = tag == "mark" and ("class", "fresh") in attrs
        self.outside += [value or "" for name, value in attrs if name in ("src", "href", "onclick")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.marked += data if "mark" in self.open else ""
        self.fresh += data if "mark" in self.open and self.in_fresh else ""


def test_the_html_page_marks_shared_and_fresh_text_and_escapes_foreign_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile, file, out = page(1, "<script>alert(1)</script>"), tmp_path / "h.jsonl", tmp_path / "why.html"
    hostile["body"] = (
        f"<p>{article(1)}</p><p>&lt;img src=x onerror=alert(2)&gt; and \u202e backwards</p>"
        f"<p>An answer that the first page lacks, of more than ten words, so it is fresh. {article(7)[:1500]}</p>"
    )
    file.write_bytes(lines([hostile]))
    arguments = [file, "--state", folder / "state", "--pages", folder / "crawl.jsonl", "--html", out]
    assert out.name in shown(capsys, *arguments)
    markup = out.read_text("utf-8")
    reader = _Reader()
    reader.feed(markup)
    assert not reader.open
    assert not reader.outside
    assert article(1)[4:60] in reader.marked
    assert "An answer that the first page lacks" in reader.fresh
    assert article(1)[4:60] not in reader.fresh
    assert "<script" not in markup
    assert "<img" not in markup
    assert "\u202e" not in markup
    assert "must be a new file" in refused(capsys, EXIT_SETTING, *arguments)


def printed(monkeypatch: pytest.MonkeyPatch, folder: Path, **environment: str) -> bytes:
    """The bytes that a terminal receives."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    reading, writing = pty.openpty()
    with io.FileIO(reading) as terminal:
        with os.fdopen(writing, "w") as stream, monkeypatch.context() as replaced:
            replaced.setattr(sys, "stdout", stream)
            assert main(["explain", COPY, "--state", str(folder / "state")]) == 0
        sent = list[bytes]()
        with contextlib.suppress(OSError):  # reading a terminal without a writer ends with EIO
            while some := terminal.read(65_536):  # a busy machine delivers parts
                sent.append(some)
        return b"".join(sent)


def test_a_terminal_gets_colour_and_neither_a_pipe_nor_no_color_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert b"\x1b[31mduplicate" in printed(monkeypatch, folder, TERM="xterm")
    assert b"\x1b" not in printed(monkeypatch, folder, TERM="xterm", NO_COLOR="1")
    assert b"\x1b" not in printed(monkeypatch, folder, TERM="dumb")
    assert "\x1b" not in shown(capsys, COPY, "--state", folder / "state")


def test_a_state_without_a_log_describes_the_entry_of_the_page(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state of a service has no log of its own: its log is a topic."""
    state = tmp_path / "state"
    shutil.copytree(folder / "state", state)
    (state / "log").unlink()
    found = explained(capsys, "https://example.com/1", "--state", state)
    assert found["entry"]["entry"].startswith("0 of 3")
    assert found["verdict"] == "novel"
    line = refused(capsys, EXIT_NOT_FOUND, COPY, "--state", state)
    assert "is not in this state: it was dropped, or never sent" in line
    assert "--pages" in line
    report = tmp_path / "report.json"
    page = {"id": "the-copy", "url": COPY}
    original = {"id": "p1", "url": "https://example.com/1"}
    report.write_text(json.dumps({"page": page, "duplicate_of": original, "reason": "contained", "score": 0.9}))
    line = refused(capsys, EXIT_NOT_FOUND, report, "--state", state)
    assert "it was dropped (contained) as a copy of p1 (https://example.com/1)" in line
    report.write_text(json.dumps({"page": page, "duplicate_of": {"id": "p1", "url": ""}, "reason": "contained"}))
    assert "as a copy of p1, got" in refused(capsys, EXIT_NOT_FOUND, report, "--state", state)
    assert "as PAGE" not in line
    whole = explained(capsys, COPY, "--state", state, "--pages", folder / "crawl.jsonl")
    assert (whole["verdict"], whole["duplicate_of"]) == ("duplicate", "p1")


def test_the_note_on_a_forgotten_page_names_the_log_record(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    shutil.copytree(folder / "state", state)
    assert main(["state", "forget", "--state", str(state), "--id", "p2"]) == 0
    capsys.readouterr()
    (note, *_) = explained(capsys, "p2", "--state", state)["notes"]
    assert "Record 2 of the log forgets the page" in note
    (state / "log").unlink()  # a service's state knows the number of forgotten pages, but not which ones
    line = refused(capsys, EXIT_NOT_FOUND, "p2", "--state", state)
    assert "it was dropped, forgotten on request (1 pages were), or never sent" in line


def test_the_note_on_a_page_outside_the_window_names_its_age(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl, state = tmp_path / "crawl.jsonl", tmp_path / "state"
    crawl.write_bytes(lines([page(1), page(2) | {"fetched_at": "2024-03-02T00:00:10Z"}]))
    filter_json(capsys, crawl, "--state", state, "--set", "index.horizon_hours=10")
    (note, *_) = explained(capsys, "p1", "--state", state)["notes"]
    assert "24 hours older than the watermark of the state, 2024-03-02T00:00:10.000Z, and outside" in note
    (state / "log").unlink()  # a service's state knows only when its window starts
    since = "window starts at 2024-03-01T23:56:15.000Z (index.horizon_hours = 10), or"
    assert f"{since} never sent" in refused(capsys, EXIT_NOT_FOUND, "gone", "--state", state)


def test_a_snapshot_is_explained_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = tmp_path / "snapshot"
    assert main(["state", "snapshot", str(snapshot), "--state", str(folder / "state")]) == 0
    capsys.readouterr()
    assert explained(capsys, "p1", "--state", snapshot)["verdict"] == "novel"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["https://nowhere.example/"], EXIT_SETTING, "add --state DIR, --pages FILE, or both"),
        (["https://nowhere.example/", "--state", "{}/state"], EXIT_NOT_FOUND, "is not in the log of this state"),
        (["https://nowhere.example/", "--pages", "{}/crawl.jsonl"], EXIT_NOT_FOUND, "is not in the files"),
        (["p1", "--state", "{}/nothing"], EXIT_STATE, "must hold a state"),
        (["p1", "--pages", "{}/nothing.jsonl"], EXIT_INPUT, "cannot be read"),
        (["p1", "--pages", "-"], EXIT_SETTING, "--pages must be files that can be read again"),
        (["{}/crawl.jsonl"], EXIT_SETTING, "must be a file with one page"),
        (["{}/v.jsonl", "--state", "{}/state"], EXIT_SETTING, "must be a file with one verdict line"),
        (["p1", "p1", "--pages", "{}/crawl.jsonl"], EXIT_SETTING, "OTHER must be another page than PAGE"),
        (["p1", "p9", "--state", "{}/state"], EXIT_NOT_FOUND, "OTHER is not indexed in this state"),
        (["p9", "--state", "{}/state", "--verdicts", "{}/v.jsonl"], EXIT_NOT_FOUND, "has no verdict of PAGE"),
        (["p1", "--state", "{}/state", "--verdicts", "{}/nothing"], EXIT_INPUT, "cannot be read"),
        (["p1", "--state", "{}/state", "--set", "scheme.min_containment=0.7"], EXIT_STATE, "scheme.min_containment"),
        (["p1", "--state", "{}/state", "--html", "{}/no/why.html"], EXIT_SETTING, "cannot be written"),
    ],
)
def test_bad_input_is_one_line_with_the_next_step(
    arguments: list[str], code: int, says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, code, *(argument.replace("{}", str(folder)) for argument in arguments))
    assert says in line


def test_the_command_does_not_load_unused_modules(folder: Path) -> None:
    # Explaining a page takes less than a second: each of these takes 0.02 s to 0.3 s, and a final collection 0.4 s.
    unwanted = ["scipy", "cffi", "aiokafka", "starlette", "prometheus_client", "jinja2", "pyarrow", "rich", "fastwarc"]
    ours = ("files", "sign.schemes.simhash")
    unwanted += [f"spotsieve.stream.{name}" for name in ours]
    program = f"""
import atexit, gc, sys
from spotsieve.stream.cli import main
assert main(["explain", {COPY!r}, "--state", {str(folder / "state")!r}]) == 0
print([name for name in {unwanted} if name in sys.modules])
atexit._run_exitfuncs()
print(gc.get_freeze_count() > 100_000)
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-2:] == ["[]", "True"]


def test_names_that_are_not_utf_8_are_explained(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (tmp_path / os.fsdecode(name) for name in (b"p\xff.html", b"q\xfe.html"))
    first.write_text(page(1)["body"], "utf-8")
    second.write_text(page(1)["body"], "utf-8")
    state, html, url = ("--state", folder / "state"), tmp_path / "why.html", os.fsdecode(b"https://a.example/\xff")
    assert explained(capsys, first, second, "--html", html)["verdict"] == "duplicate"
    assert "p\\xff.html" in html.read_text("utf-8")
    assert explained(capsys, first, "--url", url, *state)["verdict"] == "duplicate"
    for arguments in ((url, *state), (first, url, *state), (url, "--pages", folder / "crawl.jsonl")):
        assert "\\xff" in refused(capsys, EXIT_NOT_FOUND, *arguments)
    printed = refused(capsys, EXIT_NOT_FOUND, url, *state, "--verdicts", folder / "v.jsonl")
    assert "has no verdict of PAGE" in printed


def test_a_page_under_a_long_name_has_one_id_in_all_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, crawl, state, verdicts = "ü" * 1_500, tmp_path / "crawl.jsonl", tmp_path / "state", tmp_path / "v.jsonl"
    crawl.write_bytes(lines([page(1, name), page(1, "copy", "another template"), page(2)]))
    filter_json(capsys, crawl, "--state", state, "--verdicts", verdicts, "--cluster-ids")
    first, copy, other = read_json(verdicts)
    assert first["id"] == "ü" * 1_024
    assert (copy["duplicate_of"], copy["cluster"], first["cluster"]) == (first["id"],) * 3
    for source in ([str(verdicts)], ["--state", str(state)]):
        assert main(["clusters", *source, "--drop-all-copies"]) == 0
        assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [other["id"]]
    url = page(1, name)["url"]
    sources = ("--state", state), ("--pages", crawl), ("--state", state, "--pages", crawl, "--verdicts", verdicts)
    for named in (name, url, first["id"]):
        for where in sources:
            assert explained(capsys, named, *where)["page"]["id"].startswith(first["id"])
    (state / "log").rename(tmp_path / "log")
    for named in (name, url):
        assert main(["explain", named, "--state", str(state)]) == 0
    (tmp_path / "log").rename(state / "log")
    capsys.readouterr()
    assert main(["state", "forget", "--state", str(state), "--id", name, "--json"]) == 0
    assert [found["id"] for found in json.loads(capsys.readouterr().out)["found"]] == [first["id"]]


def test_the_capture_that_the_verdict_is_of_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl, state, verdicts = tmp_path / "crawl.jsonl", tmp_path / "state", tmp_path / "v.jsonl"
    url = page(1)["url"]
    captures = [page(1, "first"), page(2, "second"), page(2, "third", "another template")]
    crawl.write_bytes(lines([one | {"url": url} for one in captures]))
    filter_json(capsys, crawl, "--state", state, "--verdicts", verdicts)
    files, recorded = ("--pages", crawl), ("--verdicts", verdicts)
    for more in ((), files, (*files, *recorded)):
        assert explained(capsys, url, "--state", state, *more)["page"]["id"] == "third"
    assert "differs from the recorded" not in shown(capsys, url, "--state", state, *files, *recorded)
    printed = shown(capsys, url, *files, *recorded)
    assert "It is the verdict of another page with this name, third." in printed
    assert "differs from the recorded" not in printed
