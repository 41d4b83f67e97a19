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


@pytest.mark.parametrize("space", ["", " "])
def test_a_key_with_two_values_is_rejected_with_its_name(space: str) -> None:
    for key, value in (("body", '"y"'), ("url", '"v"'), ("status", "1"), ("id", '"b"')):
        page = f'{{"id": "a", "url"{space}: "u", "body": "x", "status": 200, "{key}"{space}: {value}}}'
        with pytest.raises(PageError) as one:
            read_page(page.encode())
        with pytest.raises(PageError) as many:
            read_pages(f'{{"pages": [{{"url": "u", "body": "x"}}, {page}]}}'.encode())
        assert (one.value.reason, one.value.name) == (RejectReason.FIELD_TYPE, key)
        assert (many.value.reason, many.value.name) == (RejectReason.FIELD_TYPE, f"pages.1.{key}")
    with pytest.raises(PageError, match="pages"):
        read_pages(b'{"pages": [], "pages": [{"url": "u", "body": "x"}]}')


def test_a_key_that_is_there_twice_with_one_value_is_read() -> None:
    assert read_page(b'{"url": "u", "url": "u", "body": "x"}') == [CrawledPage("u", "u", "x")]
    assert read_page(b'{"url": "u", "body": "\\"body\\": 1"}') == [CrawledPage("u", "u", '"body": 1')]
