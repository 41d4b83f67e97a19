"""HTTP status and media type decide which pages are judged; what they mean, and where messages hold them."""

import json
from decimal import Decimal

import pytest

from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.sign.intake import Acceptance, Decoder, Message
from spotsieve.stream.sign.intake.decoder import read_status


def filtered(status: int | None, content_type: str | None = None, **settings: object) -> FilterReason:
    return Acceptance(InputSettings.model_validate(settings)).filtered(status, content_type)


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (200, FilterReason.NOT),
        (203, FilterReason.NOT),
        (None, FilterReason.NOT),
        (301, FilterReason.REDIRECT),
        (304, FilterReason.REDIRECT),
        (404, FilterReason.HTTP_STATUS),
        (500, FilterReason.HTTP_STATUS),
    ],
)
def test_by_default_pages_of_2xx_and_of_unknown_status_are_judged(status: int | None, found: FilterReason) -> None:
    assert filtered(status) is found
    assert filtered(status, accepted_statuses=()) is FilterReason.NOT


def test_single_statuses_can_be_named() -> None:
    assert filtered(404, accepted_statuses=("200", "404")) is FilterReason.NOT
    assert filtered(206, accepted_statuses=("200", "404")) is FilterReason.HTTP_STATUS


def test_a_media_type_is_named_whole_or_by_its_family() -> None:
    types = {"accepted_types": ("text/*", "application/xhtml+xml")}
    for accepted in (
        "text/html; charset=utf-8",
        "TEXT/Plain",
        "application/xhtml+xml",
        "text/html charset=utf-8",
        None,
        "",
    ):
        assert filtered(200, accepted, **types) is FilterReason.NOT
    for refused in ("application/json", "texts/html", "image/png", "text/html, image/png", "html"):
        assert filtered(200, refused, **types) is FilterReason.MEDIA_TYPE


@pytest.mark.parametrize(
    ("value", "status"),
    [
        *(
            (value, 404)
            for value in (404, 404.0, Decimal("404.00"), "404", "404.0", " 404 Not Found", ["404"], [404.0])
        ),
        *((value, None) for value in ("done", 7, True, 404.5, "404.5", "404x", float("nan"), float("inf"), 1e300, "")),
    ],
)
def test_a_field_is_a_status_only_where_it_holds_one(value: object, status: int | None) -> None:
    assert read_status(value) == status


def decoded(message: dict[str, object], **settings: object) -> Page:
    value = json.dumps({"url": "https://e.com/", "body": "<p>gone</p>", **message}).encode()
    return Decoder(InputSettings.model_validate(settings)).decode(Message(None, value, (), "t", 0, 0, 0))


def test_messages_hold_the_status_where_the_settings_say() -> None:
    page = decoded({"status": 404})
    assert (page.filtered, page.judgeable, page.body) == (FilterReason.HTTP_STATUS, False, b"<p>gone</p>")
    assert decoded({"status": 404}, fields={"status": "response.code"}).filtered is FilterReason.NOT
    nested = decoded({"response": {"code": 302}}, fields={"status": "response.code"})
    assert nested.filtered is FilterReason.REDIRECT
    cluster = decoded({"response_url": "https://e.com/", "status_code": 500}, preset="scrapy-cluster")
    assert cluster.filtered is FilterReason.HTTP_STATUS


def test_raw_html_has_its_status_in_a_header() -> None:
    decoder = Decoder(InputSettings(format="html", status_header="HTTP-Status"))
    headers = [("http-status", b"404"), ("content-type", b"text/html")]
    page = decoder.decode(Message(b"https://e.com/", b"<p>gone</p>", headers, "t", 0, 0, 0))
    assert page.filtered is FilterReason.HTTP_STATUS
