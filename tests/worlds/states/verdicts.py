"""Verdicts in the form that tests compare: by offsets of the originals rather than by page ids."""

from collections.abc import Iterator

import numpy as np

from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.judge import PLAIN, Policy, judge
from spotsieve.stream.sign.schemes import Scheme

Outcome = tuple[Kind, Reason, int | None, float | None]


def outcomes_of(verdicts: Verdicts) -> Iterator[Outcome]:
    """kind, reason, the offset of the original or of the page that a novel page supersedes, and score of each page."""
    for row, (copied, replaced) in enumerate(zip(verdicts.originals, verdicts.replaces, strict=True)):
        original = copied or replaced
        score = float(verdicts.score[row])
        yield (
            Kind(verdicts.kind[row]),
            Reason(verdicts.reason[row]),
            original.offset if original else None,
            None if np.isnan(score) else score,
        )


def indexed(scheme: Scheme, state: State, signed: Signatures, cap: int = 256, policy: Policy = PLAIN) -> list[Outcome]:
    """Signatures as one record, judged and indexed."""
    verdicts, index_update = judge(signed, scheme, state, cap, IndexSettings().candidate_limit, policy)
    state.file(index_update, state.position + 1, 0)
    return list(outcomes_of(verdicts))
