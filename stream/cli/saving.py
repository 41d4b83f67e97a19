"""Saves the newest pages of the input topic to a file, for `topics save` and `review --topic`."""

import contextlib
import sys
from typing import TYPE_CHECKING

from spotsieve.stream.text_safety import show

if TYPE_CHECKING:
    from spotsieve.stream.settings.model import Settings

NEWEST_PAGES = 10_000


def save_newest(settings: "Settings", file: str, most: int) -> None:
    """Save about `most` pages, and say how many. If it fails, nothing of the file stays.

    Raises SettingError, BrokerError, BrokerTrouble.
    """
    import asyncio  # --help takes a tenth of a second longer with it

    from spotsieve.stream.files.writer import OutputFile
    from spotsieve.stream.observe.logs import configure_logs
    from spotsieve.stream.progress import ProgressLine
    from spotsieve.stream.service.saving import save_pages

    configure_logs(settings.log, of_a_command=True)
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        out = OutputFile(file)
        try:
            saved = asyncio.run(save_pages(settings, out, most, line.say))
        except BaseException:
            out.discard()
            raise
        out.complete()
    show(f"{saved.pages:,} pages of {settings.topics.input} in {file}")
    if saved.others:
        show(f"  {saved.others:,} messages are left out: they are no text page")
