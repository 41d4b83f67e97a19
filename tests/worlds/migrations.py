"""A crawl that is migrated from one log into another, and the state that judging it from scratch would make."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spotsieve.state.format.buckets import decode_keys
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, encode, encode_forget
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import Page, PageId
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.cli import main
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import policy_of
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.worlds.pages.crawls import crawl, edited

Told = tuple[str, Kind, str | None]
"""A page, its verdict, and its original or the page that it replaces."""
HOUR_MS = 3_600_000
BATCH = 23


def _pages() -> list[Page]:
    """A crawl of three hosts over ten hours, 40 % of it copies, a quarter edited, and some pages a second time."""
    made = [
        Page(
            "pages",
            number % 2,
            number // 2,
            f"https://host{number % 3}.example/{number}",
            (edited if number % 4 == 0 else str)(json.loads(message.value or b"{}")["body"]).encode(),
            markup=True,
            event_time_ms=number * HOUR_MS // 16,
        )
        for number, message in enumerate(crawl(160, copies_percent=40, seed=3).messages)
    ]
    return [*made[:90], *made[70:80], *made[90:]]


PAGES = _pages()


def filtered(directory: Path, settings: Settings) -> None:
    """A local log with pages, two of them forgotten midway."""
    with LocalEngine(directory, settings, scheme_in_scope(settings)) as local:
        for first in range(0, 92, BATCH):
            list(local.judge(PAGES[first : first + BATCH]))
    named = [word for number in (0, 3) for word in ("--id", page_id_text("pages", number % 2, number // 2))]
    assert main(["state", "forget", "--state", str(directory), *named]) == 0
    with LocalEngine(directory, settings, scheme_in_scope(settings)) as local:
        for first in range(92, len(PAGES), BATCH):
            list(local.judge(PAGES[first : first + BATCH]))


def records_of(directory: Path) -> list[tuple[int, bytes]]:
    with LocalLog(directory) as log:
        return list(log.read_from(0))


def remembered(state: State) -> dict[bytes, bytes]:
    """The whole content of a state except its log position, since another log has other records."""
    return {name: value for name, value in state.items() if not name.endswith(b"progress")}


class FromScratch:
    """The state and verdicts of the same pages under other settings, judged in the order of an old log.

    Pages are signed under these settings. Pages that the old log forgets are forgotten, by the numbers and keys of this
    state.
    """

    def __init__(self, settings: Settings) -> None:
        self.state = memory_state()
        self.scheme = scheme_in_scope(settings)
        digest = settings_digest(verdict_settings_text(settings))
        longer = policy_of(settings)
        self.engine = Engine(self.scheme, self.state, settings.index, digest, "scratch", longer)
        self.by_id = {(one.source, one.partition, one.offset): one for one in PAGES}

    def judge(self, log: Sequence[tuple[int, bytes]]) -> list[Told]:
        """Judge the log; returns the verdicts in its order."""
        found = []
        for _, value in log:
            record = decode(value)
            if record.forgotten:
                self.forget([page.page_id for page in record.forgotten])
            if not len(record.signatures):
                continue
            rows = zip(record.signatures.partition.tolist(), record.signatures.offset.tolist(), strict=True)
            signatures = self.scheme.sign([self.by_id["pages", *row] for row in rows])
            again = encode(signatures, bytes(16), 0, self.engine.settings_digest, record.committed)
            verdicts = self.engine.apply(again, self.state.position).verdicts
            for row in range(len(signatures)):
                page = page_id_text("pages", int(signatures.partition[row]), int(signatures.offset[row]))
                original = verdicts.originals[row] or verdicts.replaces[row]
                found.append((page, Kind(verdicts.kind[row]), original.page_id if original else None))
        return found

    def forget(self, page_ids: Sequence[PageId]) -> None:
        """Take pages out, wherever this state has filed them."""
        keys = decode_keys([key for key, _ in self.state.scan("buckets")])
        forgotten = list[ForgottenPage]()
        buckets = self.state.buckets(keys)
        key_of_posting = np.repeat(keys, np.diff(buckets.bounds))
        indexed = self.state.page_ids(np.arange(self.state.entry_count, dtype=np.uint64))
        for number, page_id in enumerate(indexed):
            if page_id is not None and page_id in set(page_ids):
                filed_under = key_of_posting[buckets.numbers == np.uint64(number)]
                forgotten.append(ForgottenPage(number, *page_id, tuple(filed_under.tolist())))
        if forgotten:
            record = encode_forget(forgotten, bytes(16), 0, self.engine.settings_digest)
            self.engine.apply(record, self.state.position)


def opened(directory: Path, settings: Settings) -> State:
    return disk_state(directory, verdict_settings_text(settings), LocalLog.name, settings.index)
