"""Turns the metrics of workers into tables, and shows them as plain text or as a live view.

Each table compares two scrapes of every worker: rates between them, and current values. `Watch` repeats the scrapes.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spotsieve.stream.base.terminal import escape_control_characters, show, table_lines
from spotsieve.stream.insight.top.scrape import NoResponse, Scrape, scrape_all

if TYPE_CHECKING:
    from rich.console import Group

STAGES = {"fetch": "fetch, or wait", "sign": "sign", "append": "append", "judge": "judge", "commit": "commit"}
"""The stage of the metrics -> its name here. An idle worker waits for pages nearly all the time."""
PAGES = "spotsieve_pages_total"
DEAD_LETTERS = "spotsieve_dead_letters_total"
HOST_PAGES = "spotsieve_host_pages_total"
HOST_DROPPED = "spotsieve_host_dropped_pages_total"
UNKNOWN = "-"
MAX_CELL = 48
"""Longer cells are cut, in characters: a host may have 253."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text. Every column but the first has numbers. none: text to show if there are no lines"""

    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    none: str = ""


@dataclass(frozen=True, slots=True)
class WorkerSample:
    """Two scrapes of a worker. They are the same one after its first response, and after a restart."""

    before: Scrape
    now: Scrape

    @property
    def seconds(self) -> float:
        """Seconds between the two; 0 if they are the same."""
        return self.now.at - self.before.at

    def gained(self, name: str, **labels: str) -> float:
        """The increase of a counter between the two."""
        return self.now.total(name, **labels) - self.before.total(name, **labels)

    def rate(self, name: str, **labels: str) -> float | None:
        """The increase of a counter per second; None if it is not known yet."""
        return self.gained(name, **labels) / self.seconds if self.seconds > 0 else None


def sample_worker(before: Scrape | None, now: Scrape) -> WorkerSample:
    """The two scrapes of a worker. A smaller counter means that the worker was restarted."""
    if before is None or any(now.total(name) < before.total(name) for name in (PAGES, DEAD_LETTERS)):
        return WorkerSample(now, now)
    return WorkerSample(before, now)


def tables(samples: Sequence[WorkerSample], silent: Sequence[str], max_hosts: int) -> list[Table]:
    """The tables of the service, its workers, its stages and its hosts.

    silent: URLs of workers without a response  max_hosts: number of hosts, those with the most dropped pages first
    """
    return [_service(samples, silent), _workers(samples, silent), _stages(samples), _hosts(samples, max_hosts)]


def _service(samples: Sequence[WorkerSample], silent: Sequence[str]) -> Table:
    pages, dropped = (_sum_rates(samples, PAGES), _sum_rates(samples, PAGES, verdict="duplicate"))
    ready = sum(one.now.total("spotsieve_ready") > 0 for one in samples)
    all_pages = sum(one.now.total(PAGES) for one in samples)
    all_dropped = sum(one.now.total(PAGES, verdict="duplicate") for one in samples)
    rejected = sum(one.now.total(DEAD_LETTERS) for one in samples)
    lines = (
        ("pages", _per_second(pages), _number(all_pages)),
        ("dropped", _share(dropped, pages), _share(all_dropped, all_pages)),
        ("rejected", _per_second(_sum_rates(samples, DEAD_LETTERS)), _number(rejected)),
        ("waiting", _number(sum(one.now.total("spotsieve_consumer_lag") for one in samples)), ""),
        ("workers ready", f"{ready} of {len(samples) + len(silent)}", ""),
    )
    return Table(("service", "now", "since the start"), lines)


def _workers(samples: Sequence[WorkerSample], silent: Sequence[str]) -> Table:
    lines = [_worker(one) for one in samples]
    lines += [(_address(url), "no reply", *[UNKNOWN] * 7) for url in silent]
    head = ("worker", "ready", "pages", "dropped", "waiting", "behind", "indexed", "disk free", "memory")
    return Table(head, tuple(lines))


def _worker(one: WorkerSample) -> tuple[str, ...]:
    now, pages = one.now, one.rate(PAGES)
    behind = now.total("spotsieve_log_end") - now.total("spotsieve_log_position")
    return (
        _address(now.url),
        "yes" if now.total("spotsieve_ready") else "no",
        _per_second(pages),
        _share(one.rate(PAGES, verdict="duplicate"), pages),
        _number(now.total("spotsieve_consumer_lag")),
        _number(max(0.0, behind)),
        _number(now.total("spotsieve_state_entries")),
        _share(now.total("spotsieve_disk_free_bytes"), now.total("spotsieve_disk_size_bytes")),
        f"{now.total('process_resident_memory_bytes') / 2**20:,.0f} MiB",
    )


def _stages(samples: Sequence[WorkerSample]) -> Table:
    name = "spotsieve_stage_duration_seconds"
    lines = []
    for stage, shown in STAGES.items():
        busy = [rate for one in samples if (rate := one.rate(f"{name}_sum", stage=stage)) is not None]
        spent = sum(one.gained(f"{name}_sum", stage=stage) for one in samples)
        number = sum(one.gained(f"{name}_count", stage=stage) for one in samples)
        lines.append(
            (
                shown,
                f"{100 * max(busy):.0f}%" if busy else UNKNOWN,
                f"{1000 * spent / number:,.1f} ms" if number else UNKNOWN,
                _per_second(_sum_rates(samples, f"{name}_count", stage=stage)),
            )
        )
    return Table(("stage", "busiest worker", "a micro-batch", "micro-batches"), tuple(lines))


def _hosts(samples: Sequence[WorkerSample], most: int) -> Table:
    pages, dropped = (_sums([one.now.by(name, "host") for one in samples]) for name in (HOST_PAGES, HOST_DROPPED))
    seconds = max((one.seconds for one in samples), default=0.0)
    # A host that appears for the first time has no previous value.
    gained: Counter[str] = Counter()
    for one in samples:
        before = one.before.by(HOST_DROPPED, "host")
        for host, value in one.now.by(HOST_DROPPED, "host").items():
            gained[host] += max(0, int(value - before.get(host, value)))
    worst = sorted(pages, key=lambda host: (-dropped.get(host, 0), host))[:most]
    lines = tuple(
        (
            host,
            _per_second(gained[host] / seconds if seconds > 0 else None),
            _number(dropped.get(host, 0)),
            _number(pages[host]),
            _share(dropped.get(host, 0), pages[host]),
        )
        for host in worst
    )
    head = ("host, by dropped pages", "dropped", "total dropped", "pages", "share")
    return Table(head, lines, "no host has 100 pages yet")


def _sums(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for part in parts:
        for key, value in part.items():
            sums[key] = sums.get(key, 0.0) + value
    return sums


def _sum_rates(samples: Sequence[WorkerSample], name: str, **labels: str) -> float | None:
    """The sum over the workers with a known rate; None if no rate is known."""
    known = [rate for one in samples if (rate := one.rate(name, **labels)) is not None]
    return sum(known) if known else None


def _number(value: float) -> str:
    """A count in at most 6 characters, so that the line of a worker fits into 80 columns."""
    if value < 99_999.5:
        return f"{value:,.0f}"
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if value < 999.5 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value / 1e9:,.0f}G"


def _per_second(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}/s" if value < 1000 else f"{_number(value)}/s"


def _share(part: float | None, whole: float | None) -> str:
    return f"{100 * part / whole:.1f}%" if part is not None and whole else UNKNOWN


def _address(url: str) -> str:
    return url.partition("://")[2].removesuffix("/metrics")


def lines_of(tables: Sequence[Table]) -> Iterator[str]:
    """The tables as lines, with an empty line between two tables."""
    for number, table in enumerate(tables):
        if number:
            yield ""
        yield from table_lines([table.head, *(tuple(map(_cell, line)) for line in table.lines)])
        if not table.lines:
            yield f"  {table.none}"


def show_plain(tables: Sequence[Table]) -> None:
    """Print the tables."""
    show(*lines_of(tables))


def show_live(next_tables: Callable[[], Sequence[Table]], every_seconds: float) -> None:
    """Show the tables full screen, refreshed until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    live = Live(_renderable(next_tables()), console=console, screen=True, auto_refresh=False)
    # Not `with`: Ctrl-C during the first refresh would leave the terminal in full-screen mode.
    try:
        live.start(refresh=True)
        while True:
            time.sleep(every_seconds)
            live.update(_renderable(next_tables()), refresh=True)
    finally:
        live.stop()


def _renderable(tables: Sequence[Table]) -> "Group":
    from rich.console import Group
    from rich.table import Table as Drawn
    from rich.text import Text

    parts: list[Drawn | Text] = []
    for table in tables:
        drawn = Drawn(box=None, pad_edge=False, collapse_padding=True)
        for column, name in enumerate(table.head):
            drawn.add_column(Text(name), justify="right" if column else "left", no_wrap=True)
        for line in table.lines:
            # Text, not a string: rich would parse [square brackets] in a host name as markup.
            drawn.add_row(*(Text(_cell(cell), style=_style(cell)) for cell in line))
        parts += [drawn, Text(f"  {table.none}" if not table.lines else "")]
    return Group(*parts, Text("Press Ctrl-C to quit", style="dim"))


def _cell(text: str) -> str:
    safe = escape_control_characters(text)
    return safe if len(safe) <= MAX_CELL else f"{safe[: MAX_CELL - 1]}…"


def _style(cell: str) -> str:
    return "bold red" if cell in ("no", "no reply") else ""


class Watch:
    """Scrapes the workers at these URLs. A worker that stops responding is shown as such, and scraped again."""

    def __init__(self, urls: Sequence[str], max_hosts: int) -> None:
        """max_hosts: number of hosts in the table of hosts"""
        self._urls = urls
        self._max_hosts = max_hosts
        self._last: dict[str, Scrape] = {}

    def tables(self) -> list[Table]:
        """Scrape all workers; rates are known from the second time on. Raises NoResponse if none has ever responded."""
        results = dict(zip(self._urls, scrape_all(self._urls), strict=True))
        scrapes = {url: one for url, one in results.items() if isinstance(one, Scrape)}
        errors = [one for one in results.values() if isinstance(one, NoResponse)]
        if not scrapes and not self._last:
            raise errors[0]
        samples = [sample_worker(self._last.get(url), now) for url, now in scrapes.items()]
        self._last |= scrapes
        return tables(samples, [url for url in self._urls if url not in scrapes], self._max_hosts)
