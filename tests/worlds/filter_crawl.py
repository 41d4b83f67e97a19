"""Fixtures of the tests of `spotsieve filter`: generated pages, and running the command."""

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.cli import main
from spotsieve.stream.files.compression import read_chunks

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
WORDS = ("river", "mill", "keeper", "bridge", "harvest", "lantern", "council", "market", "village", "winter", "orchard")
LITTLE = ("the", "a", "an", "of", "to", "in", "and", "was", "is", "were", "been", "for")


def article(seed: int) -> str:
    """About 25 sentences that are unique to the seed, with the small words at which spots begin."""
    rng = random.Random(seed)
    return " ".join(
        " ".join(f"{rng.choice(LITTLE)} {rng.choice(WORDS)} {rng.choice(WORDS)}{rng.randrange(100)}" for _ in range(6))
        + "."
        for _ in range(25)
    )


def page(seed: int, name: str = "", note: str = "") -> dict[str, Any]:
    return {
        "id": name or f"p{seed}",
        "url": f"https://example.com/{name or seed}",
        "fetched_at": "2024-03-01T00:00:10Z",
        "content_type": "text/html; charset=utf-8",
        "body": f"<html><!-- {note} --><body><p>{article(seed)}</p></body></html>",
    }


def page_in_a_site(seed: int) -> str:
    """An article with a menu of links above it."""
    paragraphs = "</p><p>".join(f"{sentence}." for sentence in article(seed).split(". "))
    menu = "".join(f"<li><a href='/{n}'>Menu word{n} of site{seed}</a></li>" for n in range(20))
    return f"<html><body><ul>{menu}</ul><div><p>{paragraphs}</p></div></body></html>"


def lines(pages: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in pages)


def read(path: Path) -> bytes:
    with path.open("rb") as file:
        return b"".join(read_chunks(file, str(path)))


def read_json(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(path).splitlines()]


def filter_json(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    """Run the command in this process; returns its summary."""
    assert main(["filter", "--json", *map(str, arguments)]) == code
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    return summary


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["filter", *map(str, arguments)])
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return code, error


def write_crawl(path: Path) -> None:
    """Five pages: a novel one, another, a near copy of the first, one too short to judge, and its exact copy."""
    copy = page(1, "copy")
    copy["body"] = copy["body"].replace("<p>", "<p>A line of the editor's own, as they like to put above it. ")
    short = page(0, "short") | {"body": "<p>hello</p>"}
    path.write_bytes(lines([page(1), page(2), copy, short, short | {"id": "short2"}]))


def warc_record(seed: int, url: str, kind: str = "response") -> bytes:
    body = page(seed)["body"].encode()
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(
        body, mtime=0
    )
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-03-01T00:00:10Z\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def spotsieve(*arguments: object, **options: Any) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "spotsieve.stream", "filter", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )
