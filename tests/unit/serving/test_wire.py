"""Requests of the HTTP port become pages, or an error that names the field."""

import pytest

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.local.library import CrawledPage
from spotsieve.stream.local.serve.wire import read_page, read_pages


def test_numbers_without_a_fraction_are_whole() -> None:
    page = CrawledPage(7, "u", "x", None, 404)
    assert read_page(b'{"id": 7.0, "url": "u", "body": "x", "status": 404.0}', 10) == [page]
    assert read_pages(b'{"pages": [{"id": 7.0, "url": "u", "body": "x", "status": 404.0}]}', 10) == [page]


@pytest.mark.parametrize("name", ["status", "content_type"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_finite_are_null(name: str, number: str) -> None:
    assert read_page(f'{{"url": "u", "body": "x", "{name}": {number}}}'.encode(), 10) == [CrawledPage("u", "u", "x")]


@pytest.mark.parametrize(
    ("name", "value"), [("status", "404.5"), ("status", "true"), ("status", '"404"'), ("id", "7.5")]
)
def test_any_other_number_is_rejected_with_the_name_of_the_field(name: str, value: str) -> None:
    with pytest.raises(PageError) as caught:
        read_page(f'{{"url": "u", "body": "x", "{name}": {value}}}'.encode(), 10)
    assert (caught.value.reason, caught.value.name) == (RejectReason.FIELD_TYPE, name)


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_a_fetch_time_that_is_not_finite_rejects_no_page(number: str) -> None:
    (page,) = read_page(f'{{"url": "u", "body": "x", "fetched_at": {number}, "rank": {number}}}'.encode(), 10)
    assert (page.id, page.body) == ("u", "x")
