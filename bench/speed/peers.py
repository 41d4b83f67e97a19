"""Measures `spotsieve filter` against two peers over the same file, by the CPU of the whole commands."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import orjson

from bench.peers.filters import OURS, PEERS, CommandRuns, run_in_turn
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
    lines, source = _lines(pages)

    def on_run(name: str, runs: CommandRuns, _out: Path) -> None:
        progress(f"  {name}: {runs.wholes[-1].cpu_s:.2f} s, start {runs.starts[-1].cpu_s:.2f} s")

    runs = run_in_turn(parts.values(), lines, rounds, on_run)
    work_s = {part: max(runs[name].cpu_s - runs[name].start_s, 0.01) for part, name in parts.items()}
    us = {part: seconds / len(lines) * 1e6 for part, seconds in work_s.items()}
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
