"""Owns the JSON of the HTTP port: what a request holds, what an answer holds, and the pages in between.

Writes the OpenAPI document of the HTTP port from the types that the port itself reads and writes.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

import pybase64
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic.config import JsonDict
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict  # pydantic takes no other below Python 3.12

import spotsieve
from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.local.library import CrawledPage, Verdict
from spotsieve.stream.sign.intake.fields import read_time

_STRICT = ConfigDict(extra="forbid", strict=True)
_ONE_BODY: JsonDict = {"oneOf": [{"required": ["body"]}, {"required": ["body_base64"]}]}
_A_NAME: JsonDict = {"anyOf": [{"required": ["id"]}, {"properties": {"url": {"minLength": 1}}}]}


@with_config(ConfigDict(extra="forbid", strict=True, json_schema_extra={"allOf": [_ONE_BODY, _A_NAME]}))
class PageRequest(TypedDict):
    """A page: its address, its body, and what else the crawler knows of it."""

    url: Annotated[str, Field(description='the address, whose host the verdict depends on; "" where there is none')]
    id: NotRequired[
        Annotated[
            Annotated[str, Field(min_length=1)] | int,
            Field(description="the crawler's own name of the page; without it, the url"),
        ]
    ]
    body: NotRequired[Annotated[str, Field(description="HTML or plain text")]]
    body_base64: NotRequired[
        Annotated[
            str,
            Field(
                description="the body's bytes in base64, in whatever character set they came",
                json_schema_extra={"contentEncoding": "base64"},
            ),
        ]
    ]
    content_type: NotRequired[Annotated[str | None, Field(description="the Content-Type header's value")]]
    status: NotRequired[Annotated[int | None, Field(description="the HTTP status")]]
    fetched_at: NotRequired[
        Annotated[
            str | int | float | None,
            Field(description="ISO 8601, or epoch seconds or milliseconds; without it: now"),
        ]
    ]
    rank: NotRequired[
        Annotated[
            str | int | float | bool | None,
            Field(description="a number or a date, by which policy.keep = highest or lowest chooses between copies"),
        ]
    ]


@with_config(_STRICT)
class PagesRequest(TypedDict):
    """Pages, whose verdicts come in the same order."""

    pages: list[PageRequest]


@with_config(_STRICT)
class VerdictResponse(TypedDict):
    """The verdict of a page, with the names of the lines of `spotsieve filter --verdicts`."""

    id: Annotated[str, Field(description="as it was given, as text")]
    url: str
    known: Annotated[
        bool, Field(description="whether the state has this page: it is a copy of one, or the very page of this id")
    ]
    verdict: Literal["novel", "duplicate", "unchecked"]
    reason: Annotated[str, Field(description="why, in the words of docs/guide.md: no_match, near, exact, ...")]
    duplicate_of: Annotated[str | None, Field(description="the id of the page that it is a copy of")]
    original_url: str | None
    score: Annotated[float | None, Field(description="similarity to that page, 0 to 1")]
    scheme: str
    replaces: NotRequired[
        Annotated[str, Field(description="the id of the page that this copy is kept in place of (policy.keep)")]
    ]
    replaced_url: NotRequired[str]


@with_config(_STRICT)
class VerdictsResponse(TypedDict):
    """The verdicts, in the order of the pages."""

    verdicts: list[VerdictResponse]


@with_config(_STRICT)
class ErrorResponse(TypedDict):
    """What is wrong, by which rule, and what to do next, in one line."""

    error: str


ONE = TypeAdapter(PageRequest)
MANY = TypeAdapter(PagesRequest)


def read_page(body: bytes) -> list[CrawledPage]:
    """The one page of a request. Raises PageError."""
    try:
        return [_crawled(ONE.validate_json(body), "")]
    except ValidationError as error:
        raise _page_error(error) from None


def read_pages(body: bytes) -> list[CrawledPage]:
    """The pages of a request. Raises PageError, which names the first one that is wrong by its number from 0."""
    try:
        asked = MANY.validate_json(body)
    except ValidationError as error:
        raise _page_error(error) from None
    return [_crawled(page, f"pages.{number}.") for number, page in enumerate(asked["pages"])]


def verdict_response(verdict: Verdict, scheme: str) -> VerdictResponse:
    """A verdict as the port gives it."""
    original, replaced = verdict.original, verdict.replaces
    fields: VerdictResponse = {
        "id": verdict.id,
        "url": verdict.url,
        "known": verdict.is_duplicate or verdict.reason == "first_attempt",
        "verdict": verdict.kind,
        "reason": verdict.reason,
        "duplicate_of": None if original is None else original.id,
        "original_url": None if original is None else original.url,
        "score": None if verdict.score is None else round(verdict.score, 6),
        "scheme": scheme,
    }
    if replaced is not None:
        fields |= {"replaces": replaced.id, "replaced_url": replaced.url}
    return fields


def error_response(error: object) -> ErrorResponse:
    """An error as the port gives it."""
    return {"error": escape_control_characters(str(error))}


def _crawled(page: PageRequest, place: str) -> CrawledPage:
    """Check what the types leave open, so that no page fails among those of others. place: where it stands"""
    coded = page.get("body_base64")
    if ("body" in page) == (coded is not None):
        rule = "or body_base64 must be there" if coded is None else "must not be there beside body_base64"
        raise PageError(RejectReason.NO_BODY, f"{place}body", rule, None, "send one of the two")
    try:
        body = page["body"] if coded is None else pybase64.b64decode(coded, validate=True)
    except ValueError:
        then = "send the bytes in base64, or text as `body`"
        raise PageError(RejectReason.BAD_BASE64, f"{place}body_base64", "must be base64", None, then) from None
    name = page.get("id", page["url"])
    if name == "":
        raise PageError(
            RejectReason.NO_URL,
            f"{place}id",
            "must be there where the url is empty",
            None,
            "name the page by one of the two",
        )
    read_time(page.get("fetched_at"), 0, f"{place}fetched_at")
    status, fetched_at, rank = page.get("status"), page.get("fetched_at"), page.get("rank")
    return CrawledPage(name, page["url"], body, page.get("content_type"), status, fetched_at, rank)


def _page_error(error: ValidationError) -> PageError:
    """The first thing that is wrong, without the value, which may be a page."""
    first: ErrorDetails = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, _named(first["loc"])))
    if first["type"] == "json_invalid":
        return PageError(RejectReason.NOT_JSON, "the request", f"must be JSON: {_plain(first['msg'])}", None, _SEE)
    rule = _OF_TYPES.get(place.rpartition(".")[2]) or _RULES.get(first["type"]) or _plain(first["msg"])
    return PageError(RejectReason.FIELD_TYPE, place or "the request", rule, None, _SEE)


_SEE = "GET /openapi.json says what a request holds"
_RULES = {"missing": "must be there", "extra_forbidden": "is no field of a page"}
_OF_TYPES = {
    "id": "must be text that is not empty, or a whole number",
    "fetched_at": "must be text, a number or null",
    "rank": "must be a number, a date as text, true, false or null",
}
"""Of the fields that have several types. pydantic's error names one of them only."""


def _named(places: Sequence[Any]) -> list[Any]:
    """Leave out the types that pydantic tried, which stand behind the field's name in capitals or brackets."""
    found: list[Any] = []
    for place in places:
        found.append(place)
        if place in PageRequest.__annotations__:
            break
    return found


def _plain(text: str) -> str:
    return text.removeprefix("Input ").removeprefix("Invalid JSON: ").removeprefix("String ")


JSON = "application/json"
REFUSALS = {
    400: "The request is no JSON.",
    408: "The request did not come in time (serve.body_seconds).",
    413: "The request is larger than serve.max_body_bytes, or has more than serve.max_pages pages.",
    415: "The request is not application/json, or is compressed.",
    422: "The request holds something that is no page. Nothing was judged.",
    500: "A defect of Spotsieve's own.",
    503: "Too much is in hand, the service stops, or the state fails. Ask again after Retry-After seconds.",
}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "PageRequest": ONE,
    "PagesRequest": MANY,
    "VerdictResponse": TypeAdapter(VerdictResponse),
    "VerdictsResponse": TypeAdapter(VerdictsResponse),
    "ErrorResponse": TypeAdapter(ErrorResponse),
}
_ACTS = {
    "lookup": ("Is this page known? Nothing is remembered.", "Are these pages known? They do not meet each other."),
    "add": (
        "Judge a page, and remember it if it is no copy. The same id with the same body again gets the same verdict.",
        "Judge pages in their order, and remember those that are no copies.",
    ),
}


def document(settings: ServeSettings, adds: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document. adds: whether pages can be added"""
    about = f"A request may have {settings.max_body_bytes:,} bytes, and a batch {settings.max_pages:,} pages."
    _, definitions = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in _ADAPTERS.items()],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = definitions["$defs"]
    schemas["PagesRequest"]["properties"]["pages"]["maxItems"] = settings.max_pages
    paths: dict[str, Any] = {}
    for act in ("lookup", "add") if adds else ("lookup",):
        one, many = _ACTS[act]
        paths[f"/v1/{act}"] = {"post": _operation(act, one, "PageRequest", "VerdictResponse")}
        paths[f"/v1/{act}/batch"] = {"post": _operation(f"{act}Batch", many, "PagesRequest", "VerdictsResponse")}
    paths["/healthz"] = {"get": _plain_schema("health", "200 unless only a new start helps.")}
    paths["/readyz"] = {"get": _plain_schema("readiness", "200 while pages are answered for.")}
    paths["/metrics"] = {"get": _plain_schema("metrics", "Metrics for Prometheus.")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Spotsieve", "version": spotsieve.__version__, "description": about},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(name: str, about: str, asked: str, told: str) -> dict[str, Any]:
    refusals = {str(status): _body("ErrorResponse", why) for status, why in REFUSALS.items()}
    return {
        "operationId": name,
        "summary": about,
        "requestBody": {"required": True, **_content(asked)},
        "responses": {"200": _body(told, "The verdict." if told == "VerdictResponse" else "The verdicts."), **refusals},
    }


def _plain_schema(name: str, about: str) -> dict[str, Any]:
    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    answers = {"200": {"description": "The answer.", **text}}
    if name != "metrics":
        answers["503"] = {"description": "What is wrong, a line each.", **text}
    return {"operationId": name, "summary": about, "responses": answers}


def _body(schema: str, about: str) -> dict[str, Any]:
    return {"description": about, **_content(schema)}


def _content(schema: str) -> dict[str, Any]:
    return {"content": {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
