"""What is measured for docs/papers.md: resemblances and distances against the obvious way."""

import numpy as np

from stream.page import Page
from tests.papers.yuan import distances, resemblances, shingle_sets
from tests.reference.shingles import shingles_of, words_of
from tests.unit.spotsieve_pages import STORIES, newspaper, page


def some_pages() -> list[Page]:
    texts = [STORIES["English", 1], STORIES["English", 2], STORIES["French", 1], STORIES["English", 1][:2], []]
    return [page(number, "", newspaper(text)) for number, text in enumerate(texts)]


def test_resemblances_of_all_pairs_are_shared_over_all_shingles() -> None:
    pages = some_pages()
    found = resemblances(shingle_sets(pages, 3))
    sets = [set(shingles_of(words_of(one.body, True), 3, 3)) for one in pages]
    for one, left in enumerate(sets):
        for other, right in enumerate(sets[:one]):
            assert abs(found[one, other] - len(left & right) / len(left | right)) < 1e-6
    assert 0.3 < found[0, 3] < 1


def test_distances_of_all_pairs_count_differing_bits() -> None:
    sketch = np.array([[0, 2**63], [7, 2**63], [0, 0]], np.uint64)
    assert distances(sketch).tolist() == [[0, 3, 1], [3, 0, 4], [1, 4, 0]]
