"""Variants of a scheme without a setting: parts switched off or replaced, for the ablations."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from bench.quality import ours
from bench.quality.ablations import Ablation, Replacement
from bench.quality.cards import Points
from bench.quality.ours import JudgedSet
from bench.quality.rules import rules_changed
from bench.quality.scorecard_fit import points_replaced
from bench.quality.sets import LabelledSet
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge.slots import kinds_of
from spotsieve.stream.sign.features import scorecard
from spotsieve.stream.sign.features.scorecard import SECOND_CARD
from spotsieve.stream.sign.schemes import Probes, Scheme
from spotsieve.stream.sign.schemes.by_url import WrappedScheme
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

_KEEP_ALL = 1_000_000


def run_ablation(
    ablation: Ablation, labelled: LabelledSet, settings: Settings, refitted: Points | None = None
) -> JudgedSet:
    """Sign and judge a set under an ablation. settings: with its overrides; refitted: points without its groups"""
    scheme = scheme_of(ablation, settings)
    with points_of(ablation, refitted):
        records = ours.sign(labelled.pages, settings, scheme)
        return ours.judge(records, labelled.truth, settings, labelled.name, scheme)


@contextmanager
def judge_of(ablation: Ablation) -> Iterator[None]:
    """Judge records by the rules of an ablation while the block runs; compiling them takes a while."""
    with rules_changed(ablation.rules) if ablation.rules else nullcontext():
        yield


@contextmanager
def points_of(ablation: Ablation, refitted: Points | None = None) -> Iterator[None]:
    """Sign pages with the points of an ablation while the block runs."""
    points = refitted
    if ablation.instead is Replacement.EVERY_BLOCK:
        points = {**scorecard.frozen_points(), "second start": (_KEEP_ALL,)}
    elif ablation.instead is Replacement.FIRST_CARD_ALONE:
        points = first_card_alone(scorecard.frozen_points())
    with points_replaced(points) if points else nullcontext():
        yield


def first_card_alone(points: Points) -> Points:
    """A second card that returns the first card's sum, to half a logit, and nothing else."""
    zeros = {group: (0,) * size for group, size in SECOND_CARD.items()}
    return {**points, **zeros, "first card": tuple(32 * (step - 12) for step in range(SECOND_CARD["first card"]))}


def scheme_of(ablation: Ablation, settings: Settings) -> Scheme:
    """The scheme of the settings, changed by the ablation."""
    scheme = scheme_in_scope(settings)
    if ablation.keys_off:
        scheme = FewerKeys(scheme, ablation.keys_off)
    return NoTitles(scheme) if ablation.instead is Replacement.NO_TITLES else scheme


class FewerKeys(WrappedScheme):
    """A scheme without some kinds of keys."""

    def __init__(self, inner: Scheme, keys_off: Sequence[KeyKind]) -> None:
        super().__init__(inner)
        self._off = np.array(keys_off, np.uint8)

    def probe(self, signatures: Signatures) -> Probes:
        probes = self.inner.probe(signatures)
        stay = ~np.isin(kinds_of(probes.keys), self._off)
        bounds = np.concatenate([[0], np.cumsum(stay)])[probes.bounds]
        return Probes(
            probes.keys[stay], bounds, probes.inline[stay], probes.limit[stay], probes.decisive[stay], probes.cap[stay]
        )


class NoTitles(WrappedScheme):
    """A scheme that reads no title."""

    def sign(self, pages: Sequence[Page]) -> Signatures:
        signed = self.inner.sign(pages)
        return replace(signed, titles=signed.titles[:0], titles_bounds=np.zeros_like(signed.titles_bounds))


def signs_otherwise(settings: Settings, base: Settings, pages: Sequence[Page]) -> bool:
    """Whether the kernel works differently than under the base settings: its columns differ."""
    one, other = (scheme_in_scope(chosen).sign(pages) for chosen in (settings, base))
    columns = ("fingerprint", "feature_count", "features", "sketch", "blocks", "samples", "titles")
    return not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
