"""Measures `spotsieve filter` against two peers over the same file, by the CPU of the whole commands."""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import orjson

from bench.peers.cost import measure
from bench.peers.filters import OURS, PEERS, command_of
from bench.speed.pages import json_messages
from spotsieve.stream.base.errors import InputError
from tests.reference.lexbor import DATA, pages_of

PEER, LOWER_BOUND = "selectolax + rensa", "exact hash (Polars)"


def measure_peers(
    rounds: int = 5, pages: int = 2_000, progress: Callable[[str], None] = print
) -> dict[str, float | int | str]:
    """Medians of rounds in which all commands run in turn. The median CPU over one page is taken off, for the start.

    pages: the most pages of the labelled set news; generated ones without it
    {filter,peer,bound}_us: of a page  ratio: of the peer to the filter  bound_ratio: of the filter to the lower bound
    Raises InputError if a package of a peer is not installed.
    """
    if missing := [package for name in (PEER, LOWER_BOUND) for package in PEERS[name].missing]:
        raise InputError(PEER, f"needs {', '.join(missing)}, not installed", None, "run `make bench`")
    parts = {"filter": OURS, "peer": PEER, "bound": LOWER_BOUND}
    costs = defaultdict[tuple[str, Path], list[float]](list)
    with tempfile.TemporaryDirectory() as scratch:
        whole, one, out = (Path(scratch) / name for name in ("pages.jsonl", "page.jsonl", "verdicts.jsonl"))
        lines, source = _lines(pages)
        whole.write_bytes(b"".join(lines))
        one.write_bytes(lines[0])
        for _ in range(rounds):
            for part, name in parts.items():
                for file in (one, whole):
                    costs[part, file].append(measure(command_of(name, file, out)).cpu_s)
                progress(f"  {part}: {costs[part, whole][-1]:.2f} s, start {costs[part, one][-1]:.2f} s")
    medians = {place: statistics.median(found) for place, found in costs.items()}
    us = {part: max(medians[part, whole] - medians[part, one], 0.01) / len(lines) * 1e6 for part in parts}
    return {
        **{f"{part}_us": round(cost, 1) for part, cost in us.items()},
        "ratio": round(us["peer"] / us["filter"], 2),
        "bound_ratio": round(us["filter"] / us["bound"], 2),
        "pages": len(lines),
        "source": source,
    }


def _lines(pages: int) -> tuple[list[bytes], str]:
    """The lines of a file of pages, and their source."""
    if (DATA / "news" / "pages.jsonl.xz").exists():
        made = (
            {"id": name, "url": f"https://news.example/{name}", "body": page.decode()}
            for name, page in pages_of("news")
        )
        source = "pages of the labelled set news"
    else:
        made = ({"id": str(number), **orjson.loads(value)} for number, (_, value) in enumerate(json_messages(pages, 1)))
        source = "generated pages"
    return [orjson.dumps({"content_type": "text/html", **one}) + b"\n" for one in islice(made, pages)], source
