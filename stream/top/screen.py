"""Shows tables: as plain lines, or live on a terminal by rich."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from spotsieve.stream.errors import SettingError
from spotsieve.stream.text_safety import escape_control_characters, show
from spotsieve.stream.top.figures import Table

if TYPE_CHECKING:
    from rich.console import Group

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
