"""Our side of the comparison: signs a set once with a scheme, and judges it any number of times."""

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.quality.sets import LabelledSet
from spotsieve.state.log.local import RECORD_BYTES
from spotsieve.state.log.record import encode, split
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import policy_of
from spotsieve.stream.research.scoring import Scores, Truth, check_verdicts, score
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

BATCH_PAGES = 512
ANY_SETTINGS = bytes(16)
"""The settings digest of records that are judged under other thresholds than those of signing."""
_WRITER = bytes(16)


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """The verdicts of a set. originals: the place of each page's original, or None; reasons: counts by label

    found_by: for each page KeyKind, 0 where it is no duplicate
    """

    scores: Scores
    originals: tuple[int | None, ...]
    reasons: Counter[str]
    found_by: tuple[int, ...]

    @property
    def f1(self) -> float:
        """Page F1, 0 without duplicates."""
        return self.scores.pages.retrieval.f1 or 0.0

    @property
    def lost(self) -> int:
        """Novel pages dropped."""
        return self.scores.pages.lost_count


def settings_with(overrides: Mapping[str, object], config: Path | None = None) -> Settings:
    """The settings of a file (none: the defaults) with overrides by dotted names. Raises SettingError."""
    return load_settings(config, {}, overrides)


def sign(pages: Sequence[Page], settings: Settings, scheme: Scheme | None = None) -> list[bytes]:
    """Log records of the pages, for `judge` under these settings or others that change only the judging.

    scheme: for measurements, another one than the settings name
    """
    scheme = scheme or scheme_in_scope(settings)
    parts = (part for batch in in_batches(pages) for part in split(scheme.sign(batch), RECORD_BYTES))
    return [encode(part, _WRITER, number, ANY_SETTINGS) for number, part in enumerate(parts)]


def judge(
    records: Sequence[bytes], truth: Truth, settings: Settings, name: str = "", scheme: Scheme | None = None
) -> JudgedSet:
    """Judge signed pages in an empty state. records: of the truth's pages, in its order; scheme: the one of `sign`"""
    engine = Engine(
        scheme or scheme_in_scope(settings),
        memory_state(),
        settings.index,
        ANY_SETTINGS,
        "memory",
        policy_of(settings),
    )
    links: list[str | None] = []
    reasons: Counter[str] = Counter()
    found_by: list[int] = []
    for offset, record in enumerate(records):
        verdicts = engine.apply(record, offset).verdicts
        links.extend(original.id if original else None for original in verdicts.originals)
        reasons.update(Reason(reason).label for reason in verdicts.reason.tolist())
        found_by.extend(verdicts.found_by.tolist())
    originals = check_verdicts(truth, zip(truth.ids, links, strict=True), name)
    return JudgedSet(score(truth, originals), originals, reasons, tuple(found_by))


def run(labelled: LabelledSet, settings: Settings, scheme: Scheme | None = None) -> JudgedSet:
    """Sign and judge a set."""
    return judge(sign(labelled.pages, settings, scheme), labelled.truth, settings, labelled.name, scheme)


def signing_speed(labelled: LabelledSet, settings: Settings, rounds: int) -> float:
    """10^6 bytes of raw body per second, to complete signatures in batches of 512 pages, on one core.

    CPU seconds of this thread, the median of `rounds` passes over the whole set.
    """
    scheme = scheme_in_scope(settings)
    batches = list(in_batches(labelled.pages))
    speeds = []
    for _ in range(rounds + 1):
        before = time.thread_time()
        for batch in batches:
            scheme.sign(batch)
        speeds.append(labelled.megabytes / (time.thread_time() - before))
    return statistics.median(speeds[1:])  # The first pass warms caches.


def in_batches(pages: Sequence[Page]) -> Iterator[Sequence[Page]]:
    """Micro-batches of 512 pages."""
    for first in range(0, len(pages), BATCH_PAGES):
        yield pages[first : first + BATCH_PAGES]
