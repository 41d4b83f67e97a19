"""The OpenAPI document is what the port does: generated requests, right and wrong, get the responses it describes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.local.serve.wire import openapi_document
from tests.fixtures.http_port import JSON, HttpPort, http_port

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
POSTS = ["/v1/lookup", "/v1/lookup/batch", "/v1/add", "/v1/add/batch"]
GETS = ["/healthz", "/readyz", "/metrics"]
WRONG, RIGHT = GenerationMode.NEGATIVE, GenerationMode.POSITIVE


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpPort]:
    with http_port(tmp_path_factory.mktemp("port") / "state", "--add") as port:
        yield port


def test_the_document_names_every_path(port: HttpPort) -> None:
    status, document = port.ask("/openapi.json")
    assert (status, document) == (200, openapi_document(ServeSettings(), adds=True))
    assert sorted(document["paths"]) == sorted(POSTS + GETS)
    assert [path for path in openapi_document(ServeSettings(), adds=False)["paths"] if "add" in path] == []


def test_the_document_of_a_port_with_a_token_lets_a_generated_client_send_it(tmp_path: Path) -> None:
    token = "a-token-of-more-than-16-characters"
    secured = openapi_document(ServeSettings(token=token), adds=True)
    assert secured["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert "securitySchemes" not in openapi_document(ServeSettings(), adds=True)["components"]
    with http_port(tmp_path / "state", "--add", "--set", f"serve.token={token}") as port:
        for path, operations in secured["paths"].items():
            for method, operation in operations.items():
                body = None if method == "get" else {"url": "https://a.example/", "body": "<p>Some text."}
                status, document = port.ask(path, body, method=method.upper())
                assert (status == 401) == ("security" in operation) == (path not in {"/healthz", "/readyz"}), path
                assert str(status) in operation["responses"]
                assert "error" in document or status == 200
                assert port.ask(path, body, {**JSON, "Host": "evil.example"}, method.upper())[0] == 403
                assert "403" in operation["responses"]
                login = {**JSON, "Authorization": f"Bearer {token}"}
                assert port.ask(path, {"pages": [body]} if "batch" in path else body, login, method.upper())[0] == 200


@pytest.mark.parametrize(
    ("path", "mode"), [*((path, mode) for path in POSTS for mode in (RIGHT, WRONG)), *((path, RIGHT) for path in GETS)]
)
def test_generated_requests_get_the_answers_that_are_described(port: HttpPort, path: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(openapi_document(ServeSettings(), adds=True))
    operation = schema[path]["POST" if path in POSTS else "GET"]
    responses = set[int]()

    @settings(
        max_examples=20 if path in POSTS else 2,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def send(case: Case[Any]) -> None:
        response = case.call_and_validate(base_url=f"http://127.0.0.1:{port.number}", checks=CHECKS)
        responses.add(response.status_code)

    send()
    if mode is WRONG:
        assert responses <= {400, 413, 415, 422}, "nothing that is described as wrong is judged"
    else:
        # A time, or base64, is text to the document, and may still be none.
        assert 200 in responses
        assert responses <= {200, 422}
