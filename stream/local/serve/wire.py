"""JSON of the HTTP port: the types of requests and responses, their conversion from and to pages and verdicts, and the
OpenAPI document, which is derived from the same types.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import pybase64
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic.config import JsonDict
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict  # pydantic takes no other below Python 3.12

import spotsieve
from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.local.library import CrawledPage, Verdict
from spotsieve.stream.sign.intake.fields import read_time, whole_number

_STRICT = ConfigDict(extra="forbid", strict=True)
_ONE_BODY: JsonDict = {"oneOf": [{"required": ["body"]}, {"required": ["body_base64"]}]}
_WHOLE = BeforeValidator(whole_number)
"""404.0 counts as 404, and NaN, as data frames hold missing values, as null."""
_A_NAME: JsonDict = {"anyOf": [{"required": ["id"]}, {"properties": {"url": {"minLength": 1}}}]}


@with_config(ConfigDict(extra="forbid", strict=True, json_schema_extra={"allOf": [_ONE_BODY, _A_NAME]}))
class PageRequest(TypedDict):
    """A page: its URL, its body, and what else the crawler knows about it."""

    url: Annotated[str, Field(description='the URL, whose host affects the verdict; "" for none')]
    id: NotRequired[
        Annotated[
            Annotated[str, Field(min_length=1)] | int,
            _WHOLE,
            Field(description="the crawler's own id of the page; without it, the url"),
        ]
    ]
    body: NotRequired[
        Annotated[
            str | Annotated[list[str], Field(min_length=1, fail_fast=True)],
            Field(description="HTML or plain text; a list is joined by line ends"),
        ]
    ]
    body_base64: NotRequired[
        Annotated[
            str,
            Field(
                description="the bytes of the body in base64, in their original character set",
                json_schema_extra={"contentEncoding": "base64"},
            ),
        ]
    ]
    content_type: NotRequired[Annotated[str | None, _WHOLE, Field(description="value of the Content-Type header")]]
    status: NotRequired[Annotated[int | None, _WHOLE, Field(description="the HTTP status")]]
    fetched_at: NotRequired[
        Annotated[
            str | int | float | None,
            Field(description="fetch time as ISO 8601, or epoch seconds or milliseconds; without it, now"),
        ]
    ]
    rank: NotRequired[
        Annotated[
            str | int | float | bool | None,
            Field(description="a number or a date by which policy.keep = highest or lowest chooses between copies"),
        ]
    ]


@with_config(_STRICT)
class PagesRequest(TypedDict):
    """Pages. Their verdicts are in the same order."""

    pages: Annotated[list[PageRequest], Field(fail_fast=True)]


@with_config(_STRICT)
class VerdictResponse(TypedDict):
    """The verdict of a page, with the field names of `spotsieve filter --verdicts`."""

    id: Annotated[str, Field(description="the id of the request, as text")]
    url: str
    known: Annotated[
        bool, Field(description="whether the state knows this page: a page that it is a copy of, or the page itself")
    ]
    verdict: Literal["novel", "duplicate", "unchecked"]
    reason: Annotated[str, Field(description="the reason, as docs/guide.md lists them: no_match, near, exact, ...")]
    duplicate_of: Annotated[str | None, Field(description="id of the page that it is a copy of")]
    original_url: str | None
    score: Annotated[float | None, Field(description="similarity to that page, 0 to 1")]
    scheme: str
    replaces: NotRequired[Annotated[str, Field(description="id of the page that this copy replaces (policy.keep)")]]
    replaced_url: NotRequired[str]


@with_config(_STRICT)
class VerdictsResponse(TypedDict):
    """The verdicts, in the order of the pages."""

    verdicts: list[VerdictResponse]


@with_config(_STRICT)
class ErrorResponse(TypedDict):
    """The fault, the violated rule and the next step, in one line."""

    error: str


ONE = TypeAdapter(PageRequest)
MANY = TypeAdapter(PagesRequest)


class BatchTooLargeError(Exception):
    """A request has more pages or values than it may have."""


def read_page(body: bytes, max_pages: int) -> list[CrawledPage]:
    """The page of a request, as a list of one. Raises PageError, BatchTooLargeError."""
    try:
        _check_size(body, max_pages)
        return [_crawled(ONE.validate_json(body), "")]
    except ValidationError as error:
        raise _page_error(error) from None


def read_pages(body: bytes, max_pages: int) -> list[CrawledPage]:
    """The pages of a request, at most max_pages.

    Raises PageError, which names the first wrong page by its number from 0, and BatchTooLargeError.
    """
    try:
        _check_size(body, max_pages)
        request = MANY.validate_json(body)
    except ValidationError as error:
        raise _page_error(error) from None
    return [_crawled(page, f"pages.{number}.") for number, page in enumerate(request["pages"])]


def verdict_response(verdict: Verdict, scheme: str) -> VerdictResponse:
    """The response for a verdict. scheme: its name"""
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
    """The response for an error."""
    return {"error": escape_control_characters(str(error))}


MOST_VALUES = 1_000_000
"""Most JSON values of a request. A page has up to 8; a body may be a list of lines."""
_FIELDS = 16
"""Most fields of a page, with room for an error that names an unknown one."""
_BLOCK = 2**20


def _check_size(body: bytes, max_pages: int) -> None:
    """Count objects, fields and values of a request before they are built. Raises BatchTooLargeError.

    A value of three bytes may take a hundred as an object, and an error for each of a million wrong fields far more.
    """
    most = {b"{": max_pages + 1, b":": _FIELDS * (max_pages + 1), b",": MOST_VALUES}
    # Texts have these characters too, so these are upper bounds. Most requests are below the limits by far.
    if all(body.count(mark) <= limit for mark, limit in most.items()):
        return
    counted, inside = dict.fromkeys(most, 0), False
    plain = np.frombuffer(body.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    for start in range(0, len(plain), _BLOCK):
        block = plain[start : start + _BLOCK]
        in_text = np.logical_xor.accumulate(block == ord('"')) ^ inside
        inside = bool(in_text[-1])
        outside = block[~in_text]
        for mark, limit in most.items():
            counted[mark] += int(np.count_nonzero(outside == ord(mark)))
            if counted[mark] <= limit:
                continue
            if mark == b"{":
                rule = f"a batch must have at most {max_pages:,} pages (serve.max_pages)"
                raise BatchTooLargeError(f"{rule}; send several batches")
            raise BatchTooLargeError(
                f"a request must have at most {_FIELDS} fields a page and {MOST_VALUES:,} values; "
                "GET /openapi.json describes requests"
            )


def _crawled(page: PageRequest, place: str) -> CrawledPage:
    """The page of a request, checked beyond its types, so that it cannot fail in a batch with pages of others.

    place: prefix of its fields in errors
    """
    encoded = page.get("body_base64")
    if ("body" in page) == (encoded is not None):
        rule = "or body_base64 is missing" if encoded is None else "must not be sent together with body_base64"
        raise PageError(RejectReason.NO_BODY, f"{place}body", rule, None, "send one of the two")
    try:
        body = page["body"] if encoded is None else pybase64.b64decode(encoded, validate=True)
    except ValueError:
        then = "send the bytes in base64, or text as `body`"
        raise PageError(RejectReason.BAD_BASE64, f"{place}body_base64", "must be base64", None, then) from None
    name = page.get("id", page["url"])
    if name == "":
        raise PageError(
            RejectReason.NO_URL,
            f"{place}id",
            "is missing, and the url is empty",
            None,
            "send one of the two",
        )
    read_time(page.get("fetched_at"), 0, f"{place}fetched_at")
    status, fetched_at, rank = page.get("status"), page.get("fetched_at"), page.get("rank")
    return CrawledPage(name, page["url"], body, page.get("content_type"), status, fetched_at, rank)


def _page_error(error: ValidationError) -> PageError:
    """The first fault of a request, without the value, which may be a page."""
    first: ErrorDetails = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, _named(first["loc"])))
    if first["type"] == "json_invalid":
        return PageError(RejectReason.NOT_JSON, "the request", f"must be JSON: {_plain(first['msg'])}", None, _SEE)
    rule = _OF_TYPES.get(place.rpartition(".")[2]) or _RULES.get(first["type"]) or _plain(first["msg"])
    return PageError(RejectReason.FIELD_TYPE, place or "the request", rule, None, _SEE)


_SEE = "GET /openapi.json describes requests"
_RULES = {"missing": "is missing", "extra_forbidden": "is not a field of a page"}
_OF_TYPES = {
    "body": "must be text or a list of texts that is not empty",
    "id": "must be text that is not empty, or a whole number",
    "fetched_at": "must be text, a number or null",
    "rank": "must be a number, a date as text, true, false or null",
}
"""Rules of fields with several types, of which pydantic's error names only one."""


def _named(places: Sequence[Any]) -> list[Any]:
    """The location up to the field's name, without the types that pydantic tried, which follow it."""
    location: list[Any] = []
    for place in places:
        location.append(place)
        if place in PageRequest.__annotations__:
            break
    return location


def _plain(text: str) -> str:
    return text.removeprefix("Input ").removeprefix("Invalid JSON: ").removeprefix("String ")


JSON = "application/json"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that need no token, because probes have none."""
REFUSALS = {
    400: "The request is not JSON.",
    403: "Host or Origin is not a name of the port (serve.allowed_hosts).",
    408: "The request did not arrive in time (serve.body_seconds).",
    413: "The request is larger than serve.max_body_bytes, or has more than serve.max_pages pages.",
    415: "The request is not application/json, or is compressed.",
    422: "The request holds an invalid page. Nothing was judged.",
    500: "An internal error of Spotsieve.",
    431: "Request line and headers are longer than serve.head_bytes, or more than serve.max_headers.",
    503: "Too many requests are in progress, the service starts or stops, or the state failed. See Retry-After.",
}
_NO_TOKEN = "The request has no token (serve.token_file)."
_TOKEN = "token"
"""Name of the security scheme."""
_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "PageRequest": ONE,
    "PagesRequest": MANY,
    "VerdictResponse": TypeAdapter(VerdictResponse),
    "VerdictsResponse": TypeAdapter(VerdictsResponse),
    "ErrorResponse": TypeAdapter(ErrorResponse),
}
_ACTS = {
    "lookup": (
        "Look up a page without adding it.",
        "Look up pages without adding them or comparing them with each other.",
    ),
    "add": (
        "Judge a page, and add it unless it is a copy. The same id with the same body gets the same verdict again.",
        "Judge pages in order, and add those that are not copies.",
    ),
}


def openapi_document(settings: ServeSettings, adds: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the port. adds: whether pages can be added"""
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
    paths["/metrics"] = {"get": _plain_schema("metrics", "Metrics for Prometheus.")}
    paths["/healthz"] = {"get": _plain_schema("health", "200 unless the service must be restarted.")}
    paths["/readyz"] = {"get": _plain_schema("readiness", "200 while the service accepts requests for verdicts.")}
    components: dict[str, Any] = {"schemas": schemas}
    if settings.token.get_secret_value():
        components["securitySchemes"] = {_TOKEN: {"type": "http", "scheme": "bearer"}}
        secured = (operations for path, operations in paths.items() if path not in OPEN_PATHS)
        for operation in chain.from_iterable(operations.values() for operations in secured):
            operation["security"] = [{_TOKEN: []}]
            operation["responses"]["401"] = _body("ErrorResponse", _NO_TOKEN)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Spotsieve", "version": spotsieve.__version__, "description": about},
        "paths": paths,
        "components": components,
    }


def _operation(name: str, about: str, request: str, response: str) -> dict[str, Any]:
    refusals = {str(status): _body("ErrorResponse", why) for status, why in REFUSALS.items()}
    return {
        "operationId": name,
        "summary": about,
        "requestBody": {"required": True, **_content(request)},
        "responses": {
            "200": _body(response, "The verdict." if response == "VerdictResponse" else "The verdicts."),
            **refusals,
        },
    }


def _plain_schema(name: str, about: str) -> dict[str, Any]:
    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    answers = {"200": {"description": "The response.", **text}}
    answers |= {str(status): _body("ErrorResponse", REFUSALS[status]) for status in (403, 431)}
    if name != "metrics":
        answers["503"] = {"description": "The fault.", **text}
    return {"operationId": name, "summary": about, "responses": answers}


def _body(schema: str, about: str) -> dict[str, Any]:
    return {"description": about, **_content(schema)}


def _content(schema: str) -> dict[str, Any]:
    return {"content": {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
