"""Fixtures of the tests of the default scheme: pages of stories in templates, and their verdicts without a broker."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import IN_NEED
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.features.languages import path_names
from spotsieve.stream.sign.schemes.registry import scheme_of
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

SCHEME = SpotsieveScheme(SpotsieveSettings())
ENTRIES = [line.split(" ", 3) for line in (Path(__file__).parent / "stories.txt").read_text("utf-8").splitlines()]
STORIES = {(language, int(number)): text.split(" | ") for path, language, number, text in ENTRIES if path != "#"}
PATHS = {language: path for path, language, _, _ in ENTRIES if path != "#"}
LINKS = "Home,World,Business,Sport,Culture,Weather,Travel,Sign in,Subscribe,About us,Contact,Terms,Privacy".split(",")


class Verdict(NamedTuple):
    """A page's verdict; original: the number of the page it is a copy of, else None."""

    kind: Kind
    reason: Reason
    original: int | None
    score: float


def page(number: int, url: str, body: str | bytes, *, markup: bool = True, judgeable: bool = True) -> Page:
    raw = body.encode() if isinstance(body, str) else body
    return Page("pages", 0, number, url, raw, markup, 0, judgeable=judgeable)


def judged(pages: Sequence[Page], settings: SpotsieveSettings | None = None, batch: int = 1) -> list[Verdict]:
    """Pages of consecutive offsets, in records of `batch`, over a state in memory."""
    scheme, state = scheme_of(settings or SpotsieveSettings()), memory_state()
    found: list[Verdict] = []
    for first in range(0, len(pages), batch):
        verdicts, index_update = judge(scheme.sign(pages[first : first + batch]), scheme, state, 256, 64)
        state.file(index_update, first + batch, 0)
        rows = zip(verdicts.kind, verdicts.reason, verdicts.originals, verdicts.score, strict=True)
        found += [
            Verdict(Kind(kind), Reason(reason), original.offset if original else None, float(score))
            for kind, reason, original, score in rows
        ]
    return found


def language_of(page: Page) -> str:
    return path_names()[int(SCHEME.sign([page]).language[0]) & ~IN_NEED]


def newspaper(paragraphs: Sequence[str], title: str = "Today") -> str:
    """A site with a menu on top, share buttons, teasers and a footer of links."""
    menu = "".join(f"<li><a href='/{place}'>{name}</a></li>" for place, name in enumerate(LINKS))
    story = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return (
        f"<!doctype html><html><head><title>{title}</title><style>p{{margin:0}}</style></head><body><header><nav><ul>"
        f"{menu}</ul></nav></header><main><article><h1>{title}</h1><div class='share'><a>Tweet</a><a>Mail</a></div>"
        f"{story}</article></main><footer><ul>{menu}</ul><p>All rights reserved</p></footer></body></html>"
    )


def portal(paragraphs: Sequence[str], title: str = "News") -> str:
    """Another site: tables, a column of links beside the text, forms."""
    links = "<br>".join(f"<a href='/s/{place}'>{name} news of the day</a>" for place, name in enumerate(LINKS * 2))
    story = "".join(f"<div class='par'>{paragraph}</div>" for paragraph in paragraphs)
    return (
        f"<html><body><form action='/q'><input><button>Search</button></form><table><tr><td>{links}</td><td>"
        f"<h2>{title}</h2><script>var a = '<p>no text';</script>{story}<hr><a href='/next'>Next story</a></td></tr>"
        "</table><div>Cookie settings</div></body></html>"
    )


def shop(name: str, number: int, text: str, list_name: str = "Also bought") -> str:
    """A page of a shop: a unique sentence in a wordy template."""
    menu = "".join(f"<li><a href='/{place}'>{link}</a></li>" for place, link in enumerate(LINKS))
    return (
        f"<html><head><title>{name} - The Corner Shop</title></head><body><ul>{menu}</ul><h1>{name}</h1>"
        f"<p>{text}</p><p>Order number {number * 37 + 4}</p><p>Price {number * 5 + 19}.50</p>"
        "<p>Usually ships within two or three working days, and you may send it back "
        "within thirty days if it is not what you hoped for, at no cost to you and with no questions asked by us.</p>"
        "<p>How useful was this page to you? Tell us, and we will put right what was wrong with it.</p>"
        f"<h2>{list_name}</h2><ul>{menu}</ul><p>All rights reserved</p></body></html>"
    )
