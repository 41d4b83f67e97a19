"""Writes an explanation as one self-contained HTML page, without scripts or outside resources; foreign text is escaped.

Jinja2 escapes whatever goes into the template.
"""

from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined

from spotsieve.stream.explain.explanation import Explanation, failed_thresholds, figure_text, key_name, threshold_text
from spotsieve.stream.explain.told import Fate, PairThreshold
from spotsieve.stream.text_safety import escape_control_characters

_FULL = 100.0


def html_page(explanation: Explanation) -> str:
    """The page."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_finalize, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(resources.files(__package__).joinpath("explanation.html").read_text("utf-8"))
    other = explanation.other
    sides = []
    if explanation.texts is not None:
        title = "The original" if other is not None and other.fate is Fate.ORIGINAL else "The page beside it"
        sides = [("The page", explanation.asked.url or explanation.asked.id, explanation.texts.page)]
        if other is not None and explanation.texts.other is not None:
            sides.append((title, other.entry.url or other.entry.id, explanation.texts.other))
    return template.render(
        explanation=explanation,
        told=explanation.compared.told,
        means=explanation.reason.meaning,
        sides=sides,
        other=other,
        key_name=lambda kind: key_name(kind, explanation.compared.scheme),
        failed_by=failed_thresholds,
        needs=threshold_text,
        shown=figure_text,
        part=_part,
        original=Fate.ORIGINAL,
    )


def _part(bar: PairThreshold) -> dict[str, float] | None:
    """How a bar is drawn: what there is and what is needed, in hundredths of its width; None for what is no amount."""
    most = max(bar.had, bar.needed) if bar.unit else 1.0
    if bar.unit == "yes" or most <= 0:
        return None
    had, needed = (min(max(value / most, 0.0), 1.0) * _FULL for value in (bar.had, bar.needed))
    return {"had": round(had, 1), "needed": round(needed, 1)}


def _finalize(value: Any) -> Any:
    """What may turn text around or move a cursor is escaped."""
    return escape_control_characters(value) if type(value) is str else value
