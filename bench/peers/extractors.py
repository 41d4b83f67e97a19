"""Extractors of public packages: the main content of an HTML page, or all of its visible text."""

import logging
from collections.abc import Callable, Mapping


def trafilatura() -> Callable[[str], str]:
    """trafilatura.extract with its defaults, comments left out."""
    from trafilatura import extract

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)

    def main_content(html: str) -> str:
        return extract(html, include_comments=False) or ""

    return main_content


def resiliparse() -> Callable[[str], str]:
    """The extract_plain_text of resiliparse, main content only."""
    from resiliparse.extract.html2text import extract_plain_text

    def main_content(html: str) -> str:
        return str(extract_plain_text(html, main_content=True))

    return main_content


def whole_page() -> Callable[[str], str]:
    """The extract_plain_text of resiliparse over the whole visible page."""
    from resiliparse.extract.html2text import extract_plain_text

    def visible_text(html: str) -> str:
        return str(extract_plain_text(html, main_content=False))

    return visible_text


def selectolax() -> Callable[[str], str]:
    """The text of the whole visible page by lexbor (selectolax), without scripts and styles."""
    from selectolax.lexbor import LexborHTMLParser

    def visible_text(html: str) -> str:
        tree = LexborHTMLParser(html)
        tree.strip_tags(["script", "style", "noscript", "template"])
        return tree.body.text(separator=" ") if tree.body else ""

    return visible_text


def justext() -> Callable[[str], str]:
    """JusText with the stop words of all its languages together, since the language of a page is not known."""
    from justext import get_stoplist, get_stoplists
    from justext import justext as paragraphs_of
    from lxml.etree import LxmlError

    words = frozenset().union(*map(get_stoplist, get_stoplists()))

    def main_content(html: str) -> str:
        try:
            paragraphs = paragraphs_of(html.encode(), words, encoding="utf-8") if html.strip() else []
        except (LxmlError, ValueError):
            return ""
        return "\n".join(paragraph.text for paragraph in paragraphs if not paragraph.is_boilerplate)

    return main_content


EXTRACTORS: Mapping[str, tuple[str, Callable[[], Callable[[str], str]]]] = {
    "trafilatura": ("trafilatura", trafilatura),
    "resiliparse": ("resiliparse", resiliparse),
    "jusText": ("justext", justext),
    "visible text": ("resiliparse", whole_page),
    "selectolax": ("selectolax", selectolax),
}
"""Each with the package that provides it."""
