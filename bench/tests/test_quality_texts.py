"""The comparison of main texts: overlaps of bags, and what the document says of them."""

import pytest

from bench.quality.texts import (
    OTHERS,
    PUBLISHED,
    REFITTED,
    WITHOUT,
    Overlap,
    PageScore,
    TextRow,
    overlap,
    score,
    verdict_on,
)


def test_an_overlap_counts_repeats() -> None:
    found = overlap("a a b c".split(), "a b b d".split())
    assert found == (2 / 4, 2 / 4)
    assert found.f1 == pytest.approx(0.5)


def test_empty_texts_agree_with_empty_texts_only() -> None:
    assert overlap([], []).f1 == 1.0
    assert overlap([], ["a"]) == (0.0, 0.0)
    assert overlap(["a"], []).f1 == 0.0


def test_runs_notice_the_order_and_tokens_do_not() -> None:
    same = score("One two, three four FIVE.", "one two three four five")
    assert (same.tokens.f1, same.runs) == (1.0, 1.0)
    turned = score("five four three two one", "one two three four five")
    assert (turned.tokens.f1, turned.runs) == (1.0, 0.0)
    assert score("one two", "one two").runs == 1.0


def row(name: str, f1: float) -> TextRow:
    return TextRow(name, [PageScore(Overlap(f1, f1), f1)])


def test_the_scorecards_without_the_site_are_compared_with_the_others() -> None:
    others = [row(name, f1) for name, f1 in zip(OTHERS, (0.9, 0.8, 0.7), strict=True)]
    report = verdict_on([row(PUBLISHED, 0.95), row(REFITTED, 0.85), row(WITHOUT, 0.6), *others])
    assert report == (
        "By mean F1 our main text (0.850) is better than resiliparse (0.800), jusText (0.700), and worse than "
        "trafilatura (0.900). By mean F1 our text without template text (0.600) is worse than trafilatura (0.900), "
        "resiliparse (0.800), jusText (0.700)."
    )
    assert "(0.950) is better than trafilatura" in verdict_on([row(PUBLISHED, 0.95), row(WITHOUT, 0.6), *others])
