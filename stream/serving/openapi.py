"""Writes the OpenAPI document of the HTTP port from the types that the port itself reads and writes."""

from typing import Any

from pydantic import TypeAdapter

import spotsieve
from spotsieve.stream.serving.wire import MANY, ONE, ErrorResponse, VerdictResponse, VerdictsResponse
from spotsieve.stream.settings.edges import ServeSettings

JSON = "application/json"
REFUSALS = {
    400: "The request is no JSON.",
    408: "The request did not come in time (serve.body_seconds).",
    413: "The request is larger than serve.most_body_bytes, or has more than serve.most_pages pages.",
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
    about = f"A request may have {settings.most_body_bytes:,} bytes, and a batch {settings.most_pages:,} pages."
    _, definitions = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in _ADAPTERS.items()],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = definitions["$defs"]
    schemas["PagesRequest"]["properties"]["pages"]["maxItems"] = settings.most_pages
    paths: dict[str, Any] = {}
    for act in ("lookup", "add") if adds else ("lookup",):
        one, many = _ACTS[act]
        paths[f"/v1/{act}"] = {"post": _operation(act, one, "PageRequest", "VerdictResponse")}
        paths[f"/v1/{act}/batch"] = {"post": _operation(f"{act}Batch", many, "PagesRequest", "VerdictsResponse")}
    paths["/healthz"] = {"get": _plain("health", "200 unless only a new start helps.")}
    paths["/readyz"] = {"get": _plain("readiness", "200 while pages are answered for.")}
    paths["/metrics"] = {"get": _plain("metrics", "Metrics for Prometheus.")}
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


def _plain(name: str, about: str) -> dict[str, Any]:
    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    answers = {"200": {"description": "The answer.", **text}}
    if name != "metrics":
        answers["503"] = {"description": "What is wrong, a line each.", **text}
    return {"operationId": name, "summary": about, "responses": answers}


def _body(schema: str, about: str) -> dict[str, Any]:
    return {"description": about, **_content(schema)}


def _content(schema: str) -> dict[str, Any]:
    return {"content": {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
