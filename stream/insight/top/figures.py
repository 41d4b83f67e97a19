"""Two looks at the metrics of workers become tables of text: what came between them, and what is now. Pure.

Shows tables: as plain lines, or live on a terminal by rich.

Looks at the workers of a service again and again, and remembers what each said at the last look.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.terminal import escape_control_characters, show
from spotsieve.stream.insight.top.scrape import NoAnswer, Scrape, scrape_all

if TYPE_CHECKING:
    from rich.console import Group

STAGES = ("fetch", "sign", "append", "judge", "commit")
PAGES = "spotsieve_pages_total"
DEAD_LETTERS = "spotsieve_dead_letters_total"
HOST_PAGES = "spotsieve_host_pages_total"
HOST_DROPPED = "spotsieve_host_dropped_pages_total"
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """Lines of cells under a head; every column but the first is of numbers. none: said where there is no line"""

    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    none: str = ""


@dataclass(frozen=True, slots=True)
class WorkerSample:
    """A worker at two times. before and now are the same where it answered once only, or was started anew."""

    before: Scrape
    now: Scrape

    @property
    def seconds(self) -> float:
        """Between the two; 0 where there is one."""
        return self.now.at - self.before.at

    def gained(self, name: str, **labels: str) -> float:
        """How much a counter has grown between the two."""
        return self.now.total(name, **labels) - self.before.total(name, **labels)

    def rate(self, name: str, **labels: str) -> float | None:
        """How much a counter grows a second; None where that is not known yet."""
        return self.gained(name, **labels) / self.seconds if self.seconds > 0 else None


def sample_worker(before: Scrape | None, now: Scrape) -> WorkerSample:
    """Both looks at one worker; a counter that is smaller than it was says that the worker was started anew."""
    if before is None or any(now.total(name) < before.total(name) for name in (PAGES, DEAD_LETTERS)):
        return WorkerSample(now, now)
    return WorkerSample(before, now)


def tables(looks: Sequence[WorkerSample], silent: Sequence[str], most_hosts: int) -> list[Table]:
    """The service, its workers, its stages and its hosts.

    silent: URLs of workers that did not answer  most_hosts: so many with most dropped pages
    """
    return [_service(looks, silent), _workers(looks, silent), _stages(looks), _hosts(looks, most_hosts)]


def _service(looks: Sequence[WorkerSample], silent: Sequence[str]) -> Table:
    pages, dropped = (_sum_rates(looks, PAGES), _sum_rates(looks, PAGES, verdict="duplicate"))
    ready = sum(one.now.total("spotsieve_ready") > 0 for one in looks)
    all_pages = sum(one.now.total(PAGES) for one in looks)
    all_dropped = sum(one.now.total(PAGES, verdict="duplicate") for one in looks)
    rejected = sum(one.now.total(DEAD_LETTERS) for one in looks)
    lines = (
        ("pages", _per_second(pages), _number(all_pages)),
        ("dropped", _share(dropped, pages), _share(all_dropped, all_pages)),
        ("rejected", _per_second(_sum_rates(looks, DEAD_LETTERS)), _number(rejected)),
        ("waiting", _number(sum(one.now.total("spotsieve_consumer_lag") for one in looks)), ""),
        ("workers ready", f"{ready} of {len(looks) + len(silent)}", ""),
    )
    return Table(("service", "now", "since the start"), lines)


def _workers(looks: Sequence[WorkerSample], silent: Sequence[str]) -> Table:
    lines = [_worker(one) for one in looks]
    lines += [(_address(url), "no answer", *[NOTHING] * 7) for url in silent]
    head = ("worker", "ready", "pages", "dropped", "waiting", "behind", "knows", "disk free", "memory")
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


def _stages(looks: Sequence[WorkerSample]) -> Table:
    name = "spotsieve_stage_duration_seconds"
    lines = []
    for stage in STAGES:
        busy = [rate for one in looks if (rate := one.rate(f"{name}_sum", stage=stage)) is not None]
        spent = sum(one.gained(f"{name}_sum", stage=stage) for one in looks)
        number = sum(one.gained(f"{name}_count", stage=stage) for one in looks)
        lines.append(
            (
                stage,
                f"{100 * max(busy):.0f}%" if busy else NOTHING,
                f"{1000 * spent / number:,.1f} ms" if number else NOTHING,
                _per_second(_sum_rates(looks, f"{name}_count", stage=stage)),
            )
        )
    return Table(("stage", "busiest worker", "a micro-batch", "micro-batches"), tuple(lines))


def _hosts(looks: Sequence[WorkerSample], most: int) -> Table:
    pages, dropped = (_sums([one.now.by(name, "host") for one in looks]) for name in (HOST_PAGES, HOST_DROPPED))
    seconds = max((one.seconds for one in looks), default=0.0)
    # A host that was shown for the first time has no value before.
    gained: Counter[str] = Counter()
    for one in looks:
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
    head = ("host, by dropped pages", "dropped", "dropped in all", "pages", "share")
    return Table(head, lines, "no host has 100 pages yet")


def _sums(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for part in parts:
        for key, value in part.items():
            sums[key] = sums.get(key, 0.0) + value
    return sums


def _sum_rates(looks: Sequence[WorkerSample], name: str, **labels: str) -> float | None:
    """Over the workers of which a rate is known; None where it is of none."""
    known = [rate for one in looks if (rate := one.rate(name, **labels)) is not None]
    return sum(known) if known else None


def _number(value: float) -> str:
    """A count in at most 6 characters, so that a line of a worker fits 80 columns."""
    if value < 99_999.5:
        return f"{value:,.0f}"
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if value < 999.5 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value / 1e9:,.0f}G"


def _per_second(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.1f}/s" if value < 1000 else f"{_number(value)}/s"


def _share(part: float | None, whole: float | None) -> str:
    return f"{100 * part / whole:.1f}%" if part is not None and whole else NOTHING


def _address(url: str) -> str:
    return url.partition("://")[2].removesuffix("/metrics")


MOST_CELL = 48
"""Characters of a cell: a host may have 253."""


def lines_of(tables: Sequence[Table]) -> Iterator[str]:
    """The tables as lines, an empty one between two."""
    for number, table in enumerate(tables):
        if number:
            yield ""
        rows = [table.head, *(tuple(map(_cell, line)) for line in table.lines)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
        for row in rows:
            cells = [
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            yield "  ".join(cells).rstrip()
        if not table.lines:
            yield f"  {table.none}"


def show_plain(tables: Sequence[Table]) -> None:
    """Print the tables."""
    show(*lines_of(tables))


def show_live(next_tables: Callable[[], Sequence[Table]], every_seconds: float) -> None:
    """Show the tables on the whole terminal, again and again until Ctrl-C. Raises SettingError without the extra."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        raise SettingError(
            "spotsieve top",
            "needs the package rich for a live view",
            None,
            "pip install 'spotsieve[top]', or give --once",
        ) from None
    console = Console(highlight=False)
    live = Live(_drawn(next_tables()), console=console, screen=True, auto_refresh=False)
    # Not `with`: where Ctrl-C comes while it draws for the first time, the terminal would stay as it then is.
    try:
        live.start(refresh=True)
        while True:
            time.sleep(every_seconds)
            live.update(_drawn(next_tables()), refresh=True)
    finally:
        live.stop()


def _drawn(tables: Sequence[Table]) -> "Group":
    from rich.console import Group
    from rich.table import Table as Drawn
    from rich.text import Text

    parts: list[Drawn | Text] = []
    for table in tables:
        drawn = Drawn(box=None, pad_edge=False, collapse_padding=True)
        for column, name in enumerate(table.head):
            drawn.add_column(Text(name), justify="right" if column else "left", no_wrap=True)
        for line in table.lines:
            # Text, not a string: rich would read [square brackets] of a host as its own markup.
            drawn.add_row(*(Text(_cell(cell), style=_style(cell)) for cell in line))
        parts += [drawn, Text(f"  {table.none}" if not table.lines else "")]
    return Group(*parts, Text("Ctrl-C ends", style="dim"))


def _cell(text: str) -> str:
    safe = escape_control_characters(text)
    return safe if len(safe) <= MOST_CELL else f"{safe[: MOST_CELL - 1]}…"


def _style(cell: str) -> str:
    return "bold red" if cell in ("no", "no answer") else ""


class Watch:
    """The workers at these URLs. A worker that does not answer any more is shown as such, and asked again."""

    def __init__(self, urls: Sequence[str], most_hosts: int) -> None:
        """most_hosts: so many hosts with most dropped pages are shown"""
        self._urls = urls
        self._most_hosts = most_hosts
        self._last: dict[str, Scrape] = {}

    def tables(self) -> list[Table]:
        """Look again; rates are known from the second look on. Raises NoAnswer where no worker has ever answered."""
        found = dict(zip(self._urls, scrape_all(self._urls), strict=True))
        answers = {url: one for url, one in found.items() if isinstance(one, Scrape)}
        failed = [one for one in found.values() if isinstance(one, NoAnswer)]
        if not answers and not self._last:
            raise failed[0]
        looks = [sample_worker(self._last.get(url), now) for url, now in answers.items()]
        self._last |= answers
        return tables(looks, [url for url in self._urls if url not in answers], self._most_hosts)
