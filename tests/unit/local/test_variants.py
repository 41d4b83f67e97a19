"""`policy.variants` as a user sees it: sizes and prices of one product are copies, or each is novel."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.filter_crawl import article, filter_json, lines, page, refused

KEEP = ("--set", "policy.variants=keep")


def product(name: str, inches: int, price: int, text: int = 3) -> dict[str, Any]:
    """A page of one shop: a text that all sizes share, a size and a price."""
    story = " ".join(article(text).split()[:60])
    body = f"<title>Shelf {text}</title><p>{story}, {inches} inches wide, at {price} pounds.</p>"
    return page(text, name) | {"url": f"https://shop.example/{name}", "body": body}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Five products, another size of the last one, and its page once more in other bytes."""
    last = product("again", 24, 119, text=6)
    last["body"] += "<!-- as of Monday -->"
    others = [product(f"p{text}", 20 + text, 99 + text, text) for text in (1, 2, 3, 4)]
    path = tmp_path / "shop.jsonl"
    path.write_bytes(lines([*others, product("small", 24, 119, text=6), product("large", 36, 159, text=6), last]))
    return path


def test_sizes_of_one_product_are_copies_by_default(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = filter_json(capsys, shop)
    assert (summary["novel"], summary["duplicate"]) == (5, 2)


def test_where_variants_are_kept_a_size_goes_out_and_the_same_page_does_not(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = filter_json(capsys, shop, *KEEP)
    assert (summary["novel"], summary["duplicate"]) == (6, 1)


def test_a_scheme_that_cannot_tell_variants_refuses_to_keep_them(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, message = refused(capsys, shop, *KEEP, "--scheme", "minhash")
    assert code == 2
    assert "policy.variants must be drop for the scheme minhash" in message
