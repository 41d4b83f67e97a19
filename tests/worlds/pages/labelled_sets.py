"""Small labelled sets on disk for `spotsieve score`, and the command's errors."""

import gzip
import lzma
from pathlib import Path

import pytest

from spotsieve.stream.cli import main
from tests.worlds.filter_crawl import lines, page

LABELS = "id\tkind\np1\tsingleton\np2\tsingleton\ncopy\tcluster\nshort\tthin\n"
PAIRS = "id_a\tid_b\tsimilarity\tkind\np1\tcopy\t0.99\tcopy\n"


def write_labels(folder: Path, truth: str, pairs: str) -> Path:
    (folder / "truth.tsv.gz").write_bytes(gzip.compress(truth.encode()))
    (folder / "pairs.tsv.gz").write_bytes(gzip.compress(pairs.encode()))
    return folder


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    short = page(0, "short") | {"body": "<p>hello</p>"}
    pages = [page(1), page(2), page(1, "copy", "another template"), short]
    (folder / "pages.jsonl.xz").write_bytes(lzma.compress(lines(pages)))
    return write_labels(folder, LABELS, PAIRS)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["score", *map(str, arguments)])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert not shown.out
    return code, shown.err
