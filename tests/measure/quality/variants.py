"""Variants of a scheme that no setting gives: parts switched off or replaced, for the ablations."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.features import scorecard
from spotsieve.stream.features.scorecard import SECOND_CARD
from spotsieve.stream.features.sieve import ReadBlock, blocks_of
from spotsieve.stream.judge.slots import kinds_of
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import OTHER_HOST, Confirmed, Probes, Scheme
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.schemes import SpotsieveSettings
from spotsieve.stream.signature import Compared, Signatures
from spotsieve.stream.verdict import FoundBy
from tests.measure.quality import ours
from tests.measure.quality.ablations import Ablation, Instead
from tests.measure.quality.cards import Points
from tests.measure.quality.ours import Judged
from tests.measure.quality.scorecard_fit import points_replaced
from tests.measure.quality.sets import LabelledSet

KEPT = "kept"
_KEEP_ALL = 1_000_000
_WORD_BITS = 21
_REPEAT = 0x9E3779B97F4A7C15
_EXACT_BITS = 2048
"""Bits of the sketch by which an exact Jaccard is handed to the scheme: it is rounded to 1 / 1024."""


def run_ablation(ablation: Ablation, labelled: LabelledSet, settings: Settings, refitted: Points | None) -> Judged:
    """Sign and judge a set under an ablation. settings: with its overrides; refitted: points without its groups"""
    scheme = scheme_of(ablation, labelled, settings)
    with points_of(ablation, refitted):
        signed = [without_ladder(page) for page in labelled.pages] if ablation.instead is Instead.NO_LADDER else None
        records = ours.sign(signed or labelled.pages, settings, scheme)
        return ours.judge(records, labelled.truth, settings, labelled.name, scheme)


@contextmanager
def points_of(ablation: Ablation, refitted: Points | None = None) -> Iterator[None]:
    """Within, pages are signed with the points that an ablation means."""
    points = refitted
    if ablation.instead is Instead.EVERY_BLOCK:
        points = {**scorecard.frozen_points(), "second start": (_KEEP_ALL,)}
    elif ablation.instead is Instead.FIRST_CARD_ALONE:
        points = first_card_alone(scorecard.frozen_points())
    with points_replaced(points) if points else nullcontext():
        yield


def first_card_alone(points: Points) -> Points:
    """A second card that gives back the first card's sum, to half a logit, and nothing else."""
    zeros = {group: (0,) * size for group, size in SECOND_CARD.items()}
    return {**points, **zeros, "first card": tuple(32 * (step - 12) for step in range(SECOND_CARD["first card"]))}


def without_ladder(page: Page) -> Page:
    """A page as plain text of the blocks that are kept by their own points."""
    if not page.judgeable or not page.body:
        return page
    kept = [block for block in blocks_of(page.body, page.markup) if block.reason == KEPT]
    text = " ".join(token for block in kept for token in block.tokens)
    return replace(page, body=text.encode() or b" ", markup=False)


def scheme_of(ablation: Ablation, labelled: LabelledSet, settings: Settings) -> Scheme:
    """The scheme that the settings name, with what the ablation changes about it."""
    if ablation.instead is Instead.EXACT_JACCARD and isinstance(settings.scheme, SpotsieveSettings):
        wide = settings.scheme.model_copy(update={"sketch_bits": _EXACT_BITS})
        inner = ours.scheme_under(settings.model_copy(update={"scheme": wide}))
        return ExactScheme(inner, labelled.pages, settings.scheme.shingle_words)
    scheme = ours.scheme_under(settings)
    if ablation.instead is Instead.NO_TEMPLATE:
        return NoTemplate(scheme)
    return FewerKeys(scheme, ablation.keys_off) if ablation.keys_off else scheme


class _Wrapped:
    """A scheme that leaves what it does not change to another one."""

    def __init__(self, inner: Scheme) -> None:
        self.inner = inner
        self.name = inner.name
        self.compares_features = inner.compares_features
        self.candidate_limit = inner.candidate_limit

    def sign(self, pages: Sequence[Page]) -> Signatures:
        return self.inner.sign(pages)

    def probe(self, signatures: Signatures) -> Probes:
        return self.inner.probe(signatures)

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        return self.inner.confirm(pages, others)

    def template_limits(self, pages: Compared) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.inner.template_limits(pages)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        return self.inner.score(distance)


class FewerKeys(_Wrapped):
    """A scheme without some kinds of keys."""

    def __init__(self, inner: Scheme, keys_off: Sequence[FoundBy]) -> None:
        super().__init__(inner)
        self._off = np.array(keys_off, np.uint8)

    def probe(self, signatures: Signatures) -> Probes:
        probes = self.inner.probe(signatures)
        stay = ~np.isin(kinds_of(probes.keys), self._off)
        bounds = np.concatenate([[0], np.cumsum(stay)])[probes.bounds]
        return Probes(
            probes.keys[stay], bounds, probes.inline[stay], probes.limit[stay], probes.decisive[stay], probes.cap[stay]
        )


class NoTemplate(_Wrapped):
    """A scheme for which no page has anything of a template."""

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        found = self.inner.confirm(pages, others)
        return found._replace(shared=np.full_like(found.shared, OTHER_HOST))

    def template_limits(self, pages: Compared) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros(len(pages), np.int64), np.zeros(len(pages), np.int64)


class ExactScheme(_Wrapped):
    """A scheme that compares whole multisets of shingles: a page's sketch is its number in the set."""

    def __init__(self, inner: Scheme, pages: Sequence[Page], shingle_words: int) -> None:
        super().__init__(inner)
        numbers: dict[str, int] = {}
        self._place = {page.label: place for place, page in enumerate(pages)}
        self._features = [
            features_of(blocks_of(page.body, page.markup) if page.judgeable else [], shingle_words, numbers)
            for page in pages
        ]

    def sign(self, pages: Sequence[Page]) -> Signatures:
        places = np.array([self._place[page.label] for page in pages], np.uint64)
        return replace(self.inner.sign(pages), sketch=places[:, None])

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        pairs = zip(pages.sketch[:, 0].tolist(), others.sketch[:, 0].tolist(), strict=True)
        exact = np.array([jaccard(self._features[one], self._features[other]) for one, other in pairs])
        differing = np.round((1 - exact) / 2 * _EXACT_BITS).astype(np.int64)
        bits = np.packbits(np.arange(_EXACT_BITS) < differing[:, None], axis=1).view(np.uint64)
        return self.inner.confirm(replace(pages, sketch=bits), replace(others, sketch=np.zeros_like(bits)))


def features_of(blocks: Sequence[ReadBlock], shingle_words: int, numbers: dict[str, int]) -> NDArray[np.uint64]:
    """The multiset of a page's shingles as different numbers, ascending. numbers: of words, grows"""
    words = [numbers.setdefault(token, len(numbers)) for block in blocks if block.kept for token in block.tokens]
    count = len(words) - shingle_words + 1
    if count < 1:
        return np.zeros(0, np.uint64)
    shingles = np.zeros(count, np.uint64)
    for place in range(shingle_words):
        shingles = (shingles << np.uint64(_WORD_BITS)) ^ np.array(words[place : place + count], np.uint64)
    shingles.sort()
    _, first, counts = np.unique(shingles, return_index=True, return_counts=True)
    repeats = (np.arange(count) - np.repeat(first, counts)).astype(np.uint64)
    return np.unique(shingles + repeats * np.uint64(_REPEAT))


def jaccard(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> float:
    """Of two multisets as `features_of` gives them."""
    both = len(np.intersect1d(one, other, assume_unique=True))
    return both / max(len(one) + len(other) - both, 1)


def signs_otherwise(settings: Settings, base: Settings, pages: Sequence[Page]) -> bool:
    """Whether the kernel does something else than under the base: its columns differ."""
    one, other = (ours.scheme_under(chosen).sign(pages) for chosen in (settings, base))
    columns = ("fingerprint", "feature_count", "features", "sketch")
    return not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
