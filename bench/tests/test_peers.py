"""The peers: texts, methods, whole filters over a small file, and the cost of a command."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bench.peers import methods
from bench.peers.__main__ import main
from bench.peers.batch import exact_hash
from bench.peers.cost import measure
from bench.peers.extractors import EXTRACTORS
from bench.peers.filters import PEERS, Peer
from bench.peers.methods import METHODS
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import article, lines, page

EDITED = "One more sentence stands at its end."


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Two articles, an equal copy of the first, an edited copy of the second, two short pages and an empty one."""
    bodies = [article(1), article(2), article(1), f"{article(2)} {EDITED}", "Hello world", "Good bye", ""]
    file = tmp_path / "pages.jsonl"
    made = [page(1, f"p{place}") for place in range(len(bodies))]
    plain = {"content_type": "text/plain; charset=utf-8"}
    file.write_bytes(lines([one | plain | {"body": body} for one, body in zip(made, bodies, strict=True)]))
    return file


def test_a_peer_drops_a_page_that_matches_an_indexed_one() -> None:
    class Equal:
        def __init__(self) -> None:
            self.indexed: dict[int, Any] = {}

        def find(self, sketch: Any) -> list[int]:
            return [place for place, other in self.indexed.items() if abs(other - sketch) <= 1]

        def add(self, place: int, sketch: Any) -> None:
            self.indexed[place] = sketch

    found = list(methods.stream_through([5, 6, 7, None, None, 6], Equal()))
    assert found == [None, 0, None, None, None, 0]


def test_shingles_of_a_short_text_are_the_text() -> None:
    assert methods.shingles("One two, THREE four five six") == {"one two three four five", "two three four five six"}
    assert methods.shingles("One two") == {"one two"}
    assert methods.shingles(" . ") == set()


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_finds_the_copies_of_a_file_and_keeps_pages_without_words(name: str, pages: Path) -> None:
    if missing := PEERS[name].missing:
        pytest.skip(f"`make public` installs {', '.join(missing)}")
    verdicts = dict(PEERS[name].run(pages))
    assert list(verdicts) == [f"p{place}" for place in range(7)]
    is_exact = name.startswith("exact")
    assert verdicts["p2"] == "p0"
    assert verdicts["p3"] == (None if is_exact else "p1")
    assert {place for place, original in verdicts.items() if original} == ({"p2"} if is_exact else {"p2", "p3"})


@pytest.mark.parametrize("name", EXTRACTORS)
def test_an_extractor_gives_the_article_of_a_page(name: str) -> None:
    package, make = EXTRACTORS[name]
    pytest.importorskip(package, reason="`make public` installs it")
    html = f"<html><head><style>.x{{}}</style></head><body><p>{article(1)}</p><script>hidden()</script></body></html>"
    text = make()(html)
    assert article(1).split()[:20] == text.split()[:20]
    assert "hidden" not in text


def test_the_command_writes_a_verdict_for_every_page(pages: Path, tmp_path: Path) -> None:
    out = tmp_path / "verdicts.jsonl"
    assert main(["exact hash (Polars)", str(pages), str(out)]) == 0
    written = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [(line["id"], line["duplicate_of"]) for line in written] == list(exact_hash(pages))


def test_an_unknown_peer_and_one_that_is_not_installed_are_refused(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = Peer(("no-such-package",), exact_hash)
    monkeypatch.setattr("bench.peers.__main__.PEERS", {"absent": absent})
    assert main(["absent", str(pages), "out"]) == 3
    assert "absent: not installed: no-such-package; run `make public`" in capsys.readouterr().err
    assert main(["other", str(pages), "out"]) == 2
    assert main([]) == 0
    assert "not installed: no-such-package" in capsys.readouterr().out


def test_every_package_of_a_peer_is_in_the_group_of_peers() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    group = " ".join(project["dependency-groups"]["peers"])
    needed = {package for peer in PEERS.values() for package in peer.packages} | set(METHODS)
    assert sorted(package for package in needed if f"{package}>=" not in group) == []


def test_the_cost_of_a_command_is_its_cpu_and_its_own_memory() -> None:
    allocated = bytearray(200 * 2**20)
    program = "x = bytearray(50 * 2**20); sum(range(3_000_000))"
    cost = measure([sys.executable, "-c", program])
    assert len(allocated) > 2**20
    assert 50 < cost.peak_mib < 150
    assert 0.02 < cost.cpu_s < 60


def test_a_command_that_fails_is_named_with_its_error() -> None:
    with pytest.raises(RuntimeError, match="it is broken"):
        measure([sys.executable, "-c", "raise SystemExit('it is broken')"])
