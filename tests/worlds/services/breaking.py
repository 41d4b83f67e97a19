"""A service with a defect: one step raises an error on every page that contains a certain word.

    python -m tests.worlds.services.breaking STEP OPTION...

runs `spotsieve run OPTION...`; STEP is decode, sign or judge, or resolve for a resolver.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import Signatures, SignatureStatus
from tests.worlds.services.killed_at import owner_of

STEPS = ("decode", "sign", "judge")
WORD = "zebrafinch"
"""The word in the body and in the URL of a page that breaks the step."""


class Defect(RuntimeError):
    """An unforeseen error."""


def breaking_decode(step: Callable[..., Any]) -> Callable[..., Any]:
    """Decoder.decode, which raises on such a message."""

    @functools.wraps(step)
    def decode(decoder: Any, message: Any) -> Any:
        if WORD.encode() in message.value:
            raise Defect("decode")
        return step(decoder, message)

    return decode


def breaking_sign(step: Callable[..., Any]) -> Callable[..., Any]:
    """A scheme's sign, which raises on a micro-batch with such a page."""

    @functools.wraps(step)
    def sign(scheme: Any, pages: Sequence[Page]) -> Any:
        if any(WORD in page.url for page in pages):
            raise Defect("sign")
        return step(scheme, pages)

    return sign


def breaking_judge(step: Callable[..., Any]) -> Callable[..., Any]:
    """The judge's key lookup, which raises on a record with such a page; an isolated page has no keys."""

    @functools.wraps(step)
    def probe(scheme: Any, signatures: Signatures) -> Any:
        found = step(scheme, signatures)
        having = found.bounds[1:] > found.bounds[:-1]
        if any(WORD.encode() in url for url, some in zip(signatures.urls, having, strict=True) if some):
            raise Defect("judge")
        return found

    return probe


def breaking_resolve(step: Callable[..., Any]) -> Callable[..., Any]:
    """The resolver's last step, which raises on a round with such a page; an isolated page counts as empty."""

    @functools.wraps(step)
    def resolve(round_: Any, *arguments: Any) -> Any:
        pages = zip(round_.signatures.urls, round_.signatures.status.tolist(), strict=True)
        if any(WORD.encode() in url and status != SignatureStatus.EMPTY for url, status in pages):
            raise Defect("resolve")
        return step(round_, *arguments)

    return resolve


PLACES = {
    "decode": ("spotsieve.stream.sign.intake.decoder:Decoder.decode", breaking_decode),
    "sign": ("spotsieve.stream.sign.schemes.spotsieve:SpotsieveScheme.sign", breaking_sign),
    "judge": ("spotsieve.stream.sign.schemes.spotsieve:SpotsieveScheme.probe", breaking_judge),
    "resolve": ("spotsieve.stream.service.roles.resolver.work:merge_resolutions", breaking_resolve),
}


def main(arguments: list[str]) -> int:
    """Patch the step, then run `spotsieve run`; returns its exit code."""
    from spotsieve.stream.cli import main as spotsieve

    name, *options = arguments
    function, breaking = PLACES[name]
    owner, step = owner_of(function)
    setattr(owner, step, breaking(getattr(owner, step)))
    return spotsieve(["run", *options])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
