"""No scheme takes longer than 2 ms to sign a page of 20 KB."""

import pytest

from bench.speed.report import SIGNING_US
from bench.speed.signing import signing_pages, signing_us
from spotsieve.stream.base.page import Page
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.fixtures.pages.scheme_settings import settings_named


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    return signing_pages(24)


@pytest.mark.parametrize("name", SCHEMES)
def test_no_scheme_takes_longer_than_two_milliseconds_of_cpu_to_sign_a_page_of_20_kb(
    pages: list[Page], name: str
) -> None:
    assert signing_us(scheme_of(settings_named(name)), pages, 4) < SIGNING_US
