"""Counts the features that two pages share, where whole sets are compared, by merging two ascending runs."""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.jit import kernel
from spotsieve.stream.signature import CandidateColumns


def count_shared(pages: CandidateColumns, others: CandidateColumns) -> NDArray[np.int64]:
    """Row by row, features that both have: int64[c]. Features ascend within a row and are all different."""
    return np.asarray(_count_shared(pages.features, pages.spans, others.features, others.spans))


@kernel
def _count_shared(features, spans, other_features, other_spans):
    # features, other_features: uint64[...]  spans, other_spans: int64[c, 2]  ->  int64[c]
    shared = np.empty(len(spans), np.int64)
    for row in range(len(spans)):
        at, end = spans[row]
        other, other_end = other_spans[row]
        both = 0
        while at < end and other < other_end:
            one, two = features[at], other_features[other]
            both += one == two
            at += one <= two
            other += two <= one
        shared[row] = both
    return shared
