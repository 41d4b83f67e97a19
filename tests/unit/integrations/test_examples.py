"""Every example of examples/ runs as its first lines say, in a folder of its own."""

import shutil
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import REPOSITORY
from tests.fixtures.crawled_site import SITE, site
from tests.fixtures.filter_crawl import article, read, read_json, run_with, warc_record

__all__ = ["site"]
EXAMPLES = REPOSITORY / "examples"
TEXTS = [f"{article(1)}", f"{article(2)}", f"{article(1)} One sentence more."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the examples with a small crawl in crawl.parquet."""
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    crawl = pl.DataFrame({"url": [f"https://{name}.example/" for name in "abc"], "text": TEXTS})
    crawl.write_parquet(tmp_path / "crawl.parquet")
    return tmp_path


def run(folder: Path, *command: str) -> None:
    done = run_with(Path(sys.executable).parent, folder, *command)
    assert done.returncode == 0, done.stderr


def test_the_pandas_example_drops_copies(folder: Path) -> None:
    run(folder, "python", "pandas_frame.py", "crawl.parquet", "novel.parquet")
    assert pl.read_parquet(folder / "novel.parquet")["text"].to_list() == TEXTS[:2]


def test_the_polars_example_labels_copies(folder: Path) -> None:
    run(folder, "python", "polars_frame.py", "crawl.parquet", "labelled.parquet")
    labelled = pl.read_parquet(folder / "labelled.parquet")
    assert labelled["copy_of"].to_list() == [None, None, 0]
    assert [score is not None for score in labelled["score"]] == [False, False, True]


def test_the_parquet_example_keeps_the_rows_of_novel_pages(folder: Path) -> None:
    run(folder, "sh", "parquet_text.sh", "crawl.parquet", "novel.parquet")
    assert pl.read_parquet(folder / "novel.parquet")["text"].to_list() == TEXTS[:2]


def test_the_warc_example_replaces_copies_by_revisits(folder: Path) -> None:
    records = [
        warc_record(1, "https://a.example/"),
        warc_record(2, "https://b.example/"),
        warc_record(1, "https://c.example/"),
    ]
    (folder / "crawl.warc").write_bytes(b"".join(records))
    run(folder, "sh", "warc_revisits.sh", "crawl.warc", "smaller.warc.gz")
    smaller = read(folder / "smaller.warc.gz")
    assert (smaller.count(b"WARC-Type: response"), smaller.count(b"WARC-Type: revisit")) == (2, 1)
    assert b"WARC-Refers-To-Target-URI: https://a.example/" in smaller


def test_the_scrapy_example_yields_novel_pages_only(folder: Path, site: str) -> None:
    project = folder / "scrapy_project"
    run(project, "scrapy", "crawl", "site", "-a", f"url={site}", "-O", "items.jsonl", "-s", "CONCURRENT_REQUESTS=1")
    found = {one["url"].removeprefix(site) for one in read_json(project / "items.jsonl")}
    assert {"", "b"} < found
    # One of the two equal articles is followed; the links of the other are not.
    assert len(found & {"a", "copy"}) == len(found & {"from-a", "from-copy"}) == 1
    assert found < {name.removeprefix("/") for name in SITE}
    assert (project / "seen").is_dir()
