"""Compares the search of a scheme with brute force. A case is one page, judged against all pages before it."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.judge import judge
from spotsieve.stream.research.evaluation.planning import build_models
from spotsieve.stream.research.evaluation.trial import read_pages
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import TERMS, scheme_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.reference.acceptance import CLAIMS, Accepts, originals_of

MOST = 65_536
"""Limit of a bucket and of a page's candidates. Search guarantees to lose nothing only while neither is full."""
SMALLEST_STORE, LARGEST_STORE = 20, 800
"""Pages of a random store. Many small stores contain more odd cases than one large store."""
SEED = 1_000


@dataclass(frozen=True, slots=True)
class CaseCounts:
    """Counts of a comparison.

    cases: judged pages  copies: pages that brute force calls copies  differing: pages for which search and brute force
    find different originals
    """

    cases: int
    copies: int
    differing: int


def random_cases(name: str, least: int) -> CaseCounts:
    """Random signatures in stores of all sizes, under the scheme's defaults, until `least` cases are compared."""
    claim, scheme, total, seed = CLAIMS[name], scheme_of(settings_named(name)), CaseCounts(0, 0, 0), SEED
    while total.cases < least:
        size = int(np.random.default_rng(seed).integers(SMALLEST_STORE, LARGEST_STORE + 1))
        found = compare(claim.make(size, seed), scheme, claim.accepts)
        total = CaseCounts(total.cases + found.cases, total.copies + found.copies, total.differing + found.differing)
        seed += 1
    return total


def on_set(name: str, folder: Path) -> CaseCounts:
    """Every page of a labelled set, under the scheme's defaults. Models are built from the set itself."""
    settings = settings_named(name)
    if name in TERMS:
        with tempfile.TemporaryDirectory() as scratch:
            bare = settings.model_copy(update={"idf_model": "", "idf_digest": ""})
            (model,) = build_models(folder, Settings(), [bare], Path(scratch), lambda *_: None)
            scheme = scheme_of(bare.model_copy(update={"idf_model": model.path, "idf_digest": model.digest}))
    else:
        scheme = scheme_of(settings)
    return compare(scheme.sign(list(read_pages(folder, Settings()))), scheme, CLAIMS[name].accepts)


def compare(signed: Signatures, scheme: Scheme, accepts: Accepts) -> CaseCounts:
    """Judge signatures into an empty store, and by brute force."""
    verdicts, _ = judge(signed, scheme, memory_state(), MOST, MOST)
    found = np.array([original.offset if original else -1 for original in verdicts.originals])
    # Verdicts name an original by its page id, brute force by its row.
    expected = originals_of(signed, accepts)
    expected = np.where(expected < 0, -1, signed.offset[expected])
    return CaseCounts(len(signed), int((expected >= 0).sum()), int((found != expected).sum()))
