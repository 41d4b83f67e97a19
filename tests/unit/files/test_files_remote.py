"""URLs are inputs and outputs through fsspec: streamed, named without secrets, and every trouble is one line."""

import functools
import gzip
import http.server
import json
import re
import shlex
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.cli import main
from spotsieve.stream.files import check_inputs
from spotsieve.stream.files.remote import RemoteFile, is_url, shown_url
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import filter_json, lines, page, read_json, refused, warc_record, write_crawl


class Handler(http.server.SimpleHTTPRequestHandler):
    """A folder over HTTP. Paths under /plain/ have no Content-Length and no ranges; /broken/ ends in the middle."""

    def do_GET(self) -> None:
        if self.path.startswith("/broken/"):
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b'{"url": "u", "body"')
            return
        if not self.path.startswith("/plain/"):
            super().do_GET()
            return
        name = self.path.partition("?")[0].removeprefix("/plain/")
        data = (Path(self.directory) / name).read_bytes()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self) -> None:
        if self.path.startswith("/broken/"):
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.send_header("Accept-Ranges", "none")
            self.end_headers()
        elif self.path.startswith("/plain/"):
            self.send_response(200)
            self.end_headers()
        else:
            super().do_HEAD()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a server, and the folder that it serves."""
    folder = tmp_path_factory.mktemp("served")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    write_crawl(folder / "crawl.jsonl")
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def memory() -> Iterator[Any]:
    """Fsspec's file system in memory, empty before and after."""
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def test_a_url_gives_the_verdicts_of_the_file_and_outputs_are_named_when_complete(
    tmp_path: Path, memory: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path, at_home, verdicts = tmp_path / "crawl.jsonl", tmp_path / "n.jsonl", tmp_path / "v.jsonl"
    write_crawl(path)
    memory.pipe("/in/crawl.jsonl", path.read_bytes())
    filter_json(capsys, path, "--out", at_home)
    flags = ["--out", "memory://out/novel.jsonl.gz", "--verdicts", verdicts, "--state", tmp_path / "state"]
    summary = filter_json(capsys, "memory://in/crawl.jsonl", *flags)
    assert (summary["pages"], summary["duplicate"], summary["bytes_read"]) == (5, 2, path.stat().st_size)
    assert memory.find("/out") == ["/out/novel.jsonl.gz"], "no NAME.partial is left"
    with fsspec.open("memory://out/novel.jsonl.gz", compression="gzip") as file:
        assert file.read() == at_home.read_bytes()
    again = filter_json(capsys, "memory://in/crawl.jsonl", "--state", tmp_path / "state")
    assert again["reasons"]["first_attempt"] == 2, "the same URL is the same source"
    code, error = refused(capsys, "memory://in/crawl.jsonl", "--out", "memory://out/novel.jsonl.gz")
    assert (code, "must be a new file" in error) == (2, True)
    assert main(["query", "--state", str(tmp_path / "state"), "memory://in/crawl.jsonl", "--json"]) == 0


def test_ids_begin_with_the_url_and_a_pattern_names_its_files_in_order(memory: Any, tmp_path: Path) -> None:
    for name in ("b", "a"):
        memory.pipe(f"/in/{name}.jsonl", lines([{"url": "u", "body": name}]))
    assert [file.source for file in check_inputs(["memory://in/*.jsonl"])] == [
        "memory://in/a.jsonl",
        "memory://in/b.jsonl",
    ]
    assert [file.size for file in check_inputs(["memory://in/a.jsonl"] * 2)] == [26]
    local = tmp_path / "a.jsonl"
    local.write_bytes(b"{}")
    assert check_inputs([f"file://{local}"]) == check_inputs([str(local)])


@pytest.mark.usefixtures("memory")
def test_an_input_that_a_pattern_names_is_not_written_over(memory: Any, capsys: pytest.CaptureFixture[str]) -> None:
    memory.pipe("/in/a.jsonl", lines([page(1)]))
    code, error = refused(capsys, "memory://in/*.jsonl", "--out", "memory://in/a.jsonl", "--force")
    assert (code, "--out must not go to the same place as" in error) == (2, True)
    assert memory.cat("/in/a.jsonl") == lines([page(1)])


def test_an_output_that_is_a_directory_is_refused_and_nothing_is_moved_into_it(
    memory: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.pipe("/out/older.jsonl", b"{}")
    crawl = tmp_path / "crawl.jsonl"
    crawl.write_bytes(lines([page(1)]))
    for name in ("memory://out/", "memory://out", f"{tmp_path}/new/"):
        code, error = refused(capsys, crawl, "--out", name)
        assert (code, "must be a file, and" in error, "add the name of a file" in error) == (2, True, True)
    assert memory.find("/out") == ["/out/older.jsonl"]
    assert {path.name for path in tmp_path.iterdir()} == {"crawl.jsonl"}


def test_urls_that_differ_in_their_query_alone_are_refused(
    served: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    address, folder = served
    (folder / "a.jsonl").write_bytes(lines([page(1)]))
    code, error = refused(capsys, f"{address}/a.jsonl?of=1", f"{address}/a.jsonl?of=2")
    assert (code, "is the name of two inputs" in error) == (3, True)
    assert "of=" not in error


def test_files_in_an_archive_are_read_by_name_and_by_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tmp_path / "crawl.zip", "w") as archive:
        for number in range(2):
            archive.writestr(f"{number}.jsonl", lines([page(number)]))
    for name, pages in (("0.jsonl", 1), ("*.jsonl", 2)):
        assert filter_json(capsys, f"zip://{name}::file://{tmp_path / 'crawl.zip'}")["pages"] == pages


def test_a_driver_that_connects_before_a_file_is_opened_tells_of_it_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for given in ([f"ftp://127.0.0.1:{port}/x.jsonl"], ["-", "--out", f"ftp://me:word@127.0.0.1:{port}/x.jsonl"]):
        code, error = refused(capsys, *given)
        assert (code, "cannot be reached: ConnectionRefusedError" in error) == (3 if len(given) == 1 else 2, True)
        assert "word" not in error


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://me:word@h/a/b.warc.gz?X-Amz-Signature=1#x") == "https://h/a/b.warc.gz"
    assert [is_url(name) for name in ("s3://b/a", "file:///a", "a:/b", "/a/b", "-", "c:a")] == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["", "plain/"])
def test_http_is_read_with_ranges_and_without(
    served: tuple[str, Path], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, folder = served
    verdicts = tmp_path / "v.jsonl"
    summary = filter_json(capsys, f"{address}/{kind}crawl.jsonl?token=x", "--verdicts", verdicts)
    assert (summary["pages"], summary["bytes_read"]) == (5, (folder / "crawl.jsonl").stat().st_size)
    assert [line["duplicate_of"] for line in read_json(verdicts)] == [None, None, "p1", None, "short"]


def test_parquet_is_read_and_written_through_urls(
    served: tuple[str, Path], memory: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    address, folder = served
    rows = pa.table({name: [page(1)[name], page(2)[name]] for name in ("url", "body")})
    parquet.write_table(rows, folder / "crawl.parquet")
    memory.pipe("/in/crawl.parquet", (folder / "crawl.parquet").read_bytes())
    assert filter_json(capsys, "memory://in/crawl.parquet", "--out", "memory://out/a.parquet")["novel"] == 2
    with fsspec.open("memory://out/a.parquet") as file:
        assert parquet.read_table(file).equals(rows)
    code, error = refused(capsys, f"{address}/plain/crawl.parquet")
    assert (code, "cannot be read at any position" in error) == (3, True), "this server has no ranges"


WRONG = {
    "not there": ("memory://in/none.jsonl", 3, "memory://in/none.jsonl cannot be read: there is no such file"),
    "no match": ("memory://in/*.warc", 3, "matches no file; check the pattern"),
    "no protocol": ("nowhere://a", 3, "nowhere://a cannot be opened: ValueError: Protocol not known: nowhere"),
    "no driver": ("s3://me:word@bucket/a.jsonl", 3, "s3://bucket/a.jsonl is a URL and needs a driver of fsspec"),
    "no server": ("http://127.0.0.1:1/a.jsonl?token=x", 3, "http://127.0.0.1:1/a.jsonl cannot be read: Client"),
}


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("case", WRONG)
def test_a_url_that_cannot_be_read_is_one_line(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for driver in ("s3fs", "boto3"):
        monkeypatch.setitem(sys.modules, driver, None)
    url, code, words = WRONG[case]
    found, error = refused(capsys, url)
    assert (found, words in error) == (code, True), error
    assert "token" not in error
    assert "word@" not in error
    assert len(error.strip().splitlines()) == 1
    if case == "no driver":
        assert "pip install 's3fs'" in error


def test_a_server_that_ends_in_the_middle_and_one_that_takes_nothing(
    served: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, _ = served
    crawl = tmp_path / "crawl.jsonl"
    crawl.write_bytes(lines([page(1)]))
    summary = filter_json(capsys, f"{address}/broken/a.jsonl", crawl, code=3)
    assert summary["pages"] == 1, "the next file is read"
    assert "/broken/a.jsonl cannot be read: " in summary["errors"][0]
    code, error = refused(capsys, f"{address}/none.jsonl")
    assert (code, "cannot be read: there is no such file" in error) == (3, True)
    code, error = refused(capsys, crawl, "--out", f"{address}/novel.jsonl")
    assert (code, "cannot be written: its driver does not support this" in error) == (2, True)


def test_an_upload_that_fails_ends_with_what_to_do(
    tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = tmp_path / "crawl.jsonl"
    crawl.write_bytes(lines([page(1)]))

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("slow down,\nplease")

    monkeypatch.setattr(type(memory), "mv", refuse)
    code, error = refused(capsys, crawl, "--out", "memory://out/novel.jsonl")
    assert code == 4
    assert "memory://out/novel.jsonl cannot be written: RuntimeError: slow down, please; check the server" in error
    assert memory.find("/out") == ["/out/novel.jsonl.partial"]


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError, match=r"s3://b/a is a URL and needs fsspec; pip install 'spotsieve\[remote\]'"):
        RemoteFile("s3://b/a", InputError)


def test_the_commands_of_the_document_run(
    tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """URLs of the document stand for places in memory, `zcat FILE |` for the file itself, and `> FILE` for --out."""
    rows = [{"url": f"https://e.com/{seed}", "body": page(seed)["body"]} for seed in range(3)]
    columns = pa.table({name: [row[name] for row in rows] for name in ("url", "body")})
    packed = gzip.compress(warc_record(1, "https://e.com/1"))
    (tmp_path / "pages.jsonl.gz").write_bytes(gzip.compress(lines(rows)))
    for name in ("pages.jsonl", "today.jsonl"):
        (tmp_path / name).write_bytes(lines(rows))
    for name in ("crawl-1.warc.gz", "crawl.warc.gz"):
        (tmp_path / name).write_bytes(packed)
    memory.pipe("/crawl/2024-05/a.warc.gz", packed)
    parquet.write_table(columns.rename_columns(["url", "html"]), tmp_path / "crawl.parquet")
    with memory.open("/example.org/crawl.parquet", "wb") as file:
        parquet.write_table(columns, file)
    text = (REPOSITORY / "docs" / "files.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if "spotsieve filter" in line]
    assert len(commands) == 8
    monkeypatch.chdir(tmp_path)
    for state, *salt in (["yesterday"], ["archive-snapshot", "--salt-from", "yesterday"]):
        assert main(["filter", "pages.jsonl.gz", "--out", "earlier.jsonl", "--state", state, *salt, "--force"]) == 0
    for command in commands:
        line = command.replace("zcat pages.jsonl.gz | spotsieve filter -", "spotsieve filter pages.jsonl.gz")
        line = line.replace(" > ", " --out ")
        words = shlex.split(re.sub(r"s3://|https://", "memory://", line))[1:]
        local = [
            [str(path) for path in Path().glob(word)] if "*" in word and "://" not in word else [word] for word in words
        ]
        code = main([word for found in local for word in found] + ["--force"])
        assert code == 0, (command, capsys.readouterr().err)
    assert (tmp_path / "new.jsonl").read_bytes() == b"", "yesterday has the pages of today"
    assert memory.exists("/crawl/novel/2024-05.warc.gz")
    assert parquet.read_table(tmp_path / "novel.parquet").num_rows == 3


def test_the_time_of_a_file_is_the_servers(served: tuple[str, Path], memory: Any) -> None:
    address, folder = served
    modified = int((folder / "crawl.jsonl").stat().st_mtime) * 1000
    assert RemoteFile(f"{address}/crawl.jsonl", InputError).written_ms() == modified
    memory.pipe("/a", json.dumps({}).encode())
    created = memory.info("/a")["created"].timestamp()
    assert RemoteFile("memory://a", InputError).written_ms() == int(created * 1000)
