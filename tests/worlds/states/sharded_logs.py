"""Logs that shards judge beside one process: pages, limits that take effect, and a comparison of the verdicts."""

import random

import numpy as np

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.judge import KEEP_FIRST
from tests.worlds.pages.small_crawl import CRAWL
from tests.worlds.states.host_logs import SIZES
from tests.worlds.states.shards import OneProcess


def any_limits(dice: random.Random) -> tuple[IndexSettings, float]:
    """Caps and limits that take effect, with or without a deduplication window, and the policy for copies."""
    settings = IndexSettings.model_construct(
        bucket_cap=dice.choice([1, 2, 5, 256]),
        candidate_limit=dice.choice([1, 2, 3, 8, 64]),
        horizon_hours=dice.choice([0, 0, 3, 20, 60]) / 3600,
    )
    return settings, dice.choice([KEEP_FIRST, KEEP_FIRST, 1.0, 1.1, 2.5])


def assert_verdicts_equal(found: Verdicts, expected: Verdicts) -> None:
    """All verdicts, with their columns for reports and metrics."""
    for name in ("kind", "reason", "score", "found_by", "cut", "candidates"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    assert found.originals == expected.originals
    assert found.replaces == expected.replaces


def signed_log(dice: random.Random, one: OneProcess, signatures: Signatures) -> None:
    """Pages in records of any size; now and then some are forgotten."""
    at = 0
    while at < len(signatures):
        size = dice.choice(SIZES)
        one.sign(signatures.part(at, min(at + size, len(signatures))))
        at += size
        if dice.random() < 0.1:
            one.forget(dice)


def crawled(dice: random.Random) -> list[Page]:
    """The small crawl in any order, one page per second; some come again."""
    pages = [*CRAWL, *dice.sample(CRAWL, 20)]
    dice.shuffle(pages)
    numbered = [page._replace(offset=n, event_time_ms=n * 1000) for n, page in enumerate(pages)]
    return numbered + dice.sample(numbered, 10)
