"""Writes a review as one HTML file that loads nothing, and in which no page's text can become markup or a script.

    data  = {"review": head, "pairs": [pair]}, JSON in a <script> of a type that is not run
    head  = {"id", "scheme", "settings": digest, "seed", "pages", "strata": [{"name", "pages", "drawn"}]}
    pair  = {"id_a", "id_b", "stratum": place among the strata, "drawn", "score", "reason", "sides": [earlier, later]}

The export is JSON Lines: {"review": head}, then for each judged pair {"id_a", "id_b", "label": copy | different |
skipped, "stratum": name, "drawn", "score", "reason"}. stream/labelling/labels.py reads it.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources

import orjson
import xxhash

from spotsieve.stream.errors import InputError
from spotsieve.stream.evaluation.choices import single
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.labelling.review.passages import Side, side_by_side
from spotsieve.stream.labelling.review.population import Population, ReviewPair
from spotsieve.stream.labelling.review.strata import Stratum, in_order
from spotsieve.stream.models.counting import batches_of
from spotsieve.stream.page import Page
from spotsieve.stream.settings.model import Settings

_UNSAFE = str.maketrans({code: f"\\u{code:04x}" for code in (*b"<>&", 0x2028, 0x2029)})
"""With these escaped no JSON ends its <script>, begins a comment there, or is read as markup."""


def review_page(
    inputs: Sequence[Input], settings: Settings, population: Population, strata: Sequence[Stratum], seed: int
) -> bytes:
    """The HTML file. The files are read again for the pages that are shown. Raises InputError if they have changed."""
    ordered = in_order(strata, seed)
    pages = _shown_pages(inputs, settings, {place for _, pair in ordered for place in (pair.earlier, pair.later)})
    for place, page in pages.items():
        if population.urls[place] != page.url:
            raise InputError(page.source, "must stay as it is while it is read twice", None, "run again")
    places = {stratum.name: number for number, stratum in enumerate(strata)}
    pairs = [_pair_json(pair, places[stratum.name], population, pages) for stratum, pair in ordered]
    head = {
        "scheme": settings.scheme.name,
        "settings": single(settings, settings.scheme).digest,
        "seed": seed,
        "pages": len(population.ids),
        "strata": [{"name": one.name, "pages": one.pages, "drawn": len(one.drawn)} for one in strata],
    }
    drawn = orjson.dumps([head, [(pair["id_a"], pair["id_b"]) for pair in pairs]])
    head["id"] = xxhash.xxh3_128_hexdigest(drawn)
    return _filled(orjson.dumps({"review": head, "pairs": pairs}).decode()).encode()


def _shown_pages(inputs: Sequence[Input], settings: Settings, wanted: set[int]) -> dict[int, Page]:
    found, place = dict[int, Page](), 0
    for batch, _ in batches_of(inputs, settings):
        for page in batch:
            if place in wanted:
                found[place] = page
            place += 1
    missing = len(wanted) - len(found)
    if missing:
        raise InputError(inputs[-1].source, "must stay as it is while it is read twice", None, "run again")
    return found


def _pair_json(pair: ReviewPair, stratum: int, population: Population, pages: Mapping[int, Page]) -> dict[str, object]:
    return {
        "id_a": population.ids[pair.earlier],
        "id_b": population.ids[pair.later],
        "stratum": stratum,
        "drawn": pair.drawn,
        "score": round(pair.score, 6),
        "reason": pair.reason,
        "sides": [_side_json(side) for side in side_by_side(pages[pair.earlier], pages[pair.later])],
    }


def _side_json(side: Side) -> dict[str, object]:
    lines = [(int(kept), parts) for kept, parts in side.lines]
    return {"url": side.url, "title": side.title, "words": side.words, "cut": side.cut, "lines": lines}


def _filled(data: str) -> str:
    """The template with style, script and data. Only style and script of these digests are applied and run."""
    here = resources.files(__package__)
    script, style = (here.joinpath(name).read_text("utf-8") for name in ("review.js", "review.css"))
    values = {
        "script": script,
        "style": style,
        "script_digest": _digest(script),
        "style_digest": _digest(style),
        "data": data.translate(_UNSAFE),
    }
    head, *rest = here.joinpath("review.html").read_text("utf-8").split("{{")
    parts = [head]
    for piece in rest:
        name, _, text = piece.partition("}}")
        parts += (values[name], text)
    return "".join(parts)


def _digest(text: str) -> str:
    """What a Content-Security-Policy names an inline script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
