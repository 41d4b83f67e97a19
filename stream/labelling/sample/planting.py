"""Plants copies of a sample's pages: edited by a known size, and half of them in the template of another page."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from urllib.parse import urlsplit, urlunsplit

from spotsieve.stream.labelling.sample.edits import PlantedEdit, edited
from spotsieve.stream.labelling.sample.own_text import OwnPage, id_of
from spotsieve.stream.labelling.sample.templates import write_into

FEWEST_COPIED_WORDS = 40
"""A page with less own text gets no copy: an edit of it would be a handful of words."""
PAGE, SELF = "page", ""


@dataclass(frozen=True, slots=True)
class SetPage:
    """A page of the set. name: its id  kind: PAGE, or the edit  of: place of the original, or its own place

    texts: its own text, by paragraphs  template: the id of the page whose template it stands in, SELF for its own
    """

    name: str
    url: str
    body: str
    markup: bool
    time_ms: int
    kind: str
    of: int
    texts: Sequence[str]
    template: str


def plant(pages: Sequence[OwnPage], share: float, seed: int) -> list[SetPage]:
    """The pages, with copies of a share of them at later places; the same ones for the same seed."""
    random = Random(seed)
    stream = [(float(place), _as_it_is(place, page)) for place, page in enumerate(pages)]
    fit = [place for place, page in enumerate(pages) if page.words >= FEWEST_COPIED_WORDS]
    wanted = min(len(fit), max(1, round(len(pages) * share))) if share else 0
    kinds, numbers = list(PlantedEdit), count(1)
    for place in sorted(random.sample(fit, wanted)):
        first = random.randrange(len(kinds))
        # The next kind is tried where a page has no number, or too few paragraphs, for this one.
        for kind in kinds[first:] + kinds[:first]:
            copy = _copy(pages, place, kind, random, numbers)
            if copy is not None:
                stream.append((random.uniform(place + 0.5, len(pages)), copy))
                break
    return [page for _, page in sorted(stream, key=lambda one: one[0])]


def _as_it_is(place: int, page: OwnPage) -> SetPage:
    found = page.page
    return SetPage(
        id_of(found), found.url, page.shown.source, found.markup, found.event_time_ms, PAGE, place, page.texts, SELF
    )


def _copy(
    pages: Sequence[OwnPage], place: int, kind: PlantedEdit, random: Random, numbers: "count[int]"
) -> SetPage | None:
    original = pages[place]
    other = _other(pages, place, random)
    texts = edited(original.texts, kind, other.texts if other else (), random)
    if texts is None:
        return None
    target = original
    if kind is not PlantedEdit.NUMBERS and other is not None and other.page.markup == original.page.markup:
        target = random.choice([original, other])
    at_home = target is original
    body = write_into(target, texts, None if at_home else original.shown.title)
    number = next(numbers)
    url = original.page.url if kind is PlantedEdit.NUMBERS else _address(original.page.url, target.page.url, number)
    template = SELF if at_home else id_of(target.page)
    name = f"{id_of(original.page)}#{kind}"
    return SetPage(name, url, body, original.page.markup, original.page.event_time_ms, kind, place, texts, template)


def _other(pages: Sequence[OwnPage], place: int, random: Random) -> OwnPage | None:
    """Another page with another text, of another host if a few tries find one; None if there is none at all."""
    found = None
    for _ in range(20):
        tried = pages[random.randrange(len(pages))]
        if tried.digest != pages[place].digest:
            found = tried
            if tried.host != pages[place].host:
                break
    return found


def _address(original: str, target: str, number: int) -> str:
    """A new address on the target's host."""
    here, there = urlsplit(original), urlsplit(target)
    return urlunsplit((there.scheme, there.netloc, f"/planted-{number}{here.path}", here.query, ""))
