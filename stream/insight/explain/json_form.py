"""Writes an explanation as JSON. docs/guide.md lists the fields."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spotsieve.stream.insight.explain.explanation import CandidatePage, Explanation, HostFacts, key_name

if TYPE_CHECKING:
    from spotsieve.stream.insight.explain.texts import TextPair


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The whole explanation for machines. docs/guide.md lists the fields."""
    trace, original = explanation.context.trace, explanation.original
    scheme = explanation.context.scheme
    replaced = trace.verdicts.replaces[0] if trace else None
    return {
        "page": asdict(explanation.subject),
        "verdict": explanation.kind,
        "reason": explanation.reason.label,
        "meaning": explanation.reason.meaning,
        "score": None if explanation.score is None else round(explanation.score, 6),
        **_part_fields(explanation.other),
        "duplicate_of": original.id if original else None,
        "original_url": original.url if original else None,
        "replaces": replaced.id if replaced else None,
        "scheme": scheme,
        "state": explanation.context.directory or None,
        "known_pages": explanation.context.pages,
        "candidate_limit": trace.limit if trace else None,
        "recorded": asdict(explanation.recorded) if explanation.recorded else None,
        "keys": [
            {"kind": key_name(kind, scheme), **counts._asdict()}
            for kind, counts in (trace.lookups.items() if trace else ())
        ],
        "host": _host_fields(explanation.host),
        "compared_with": _candidate_fields(explanation.other, scheme) if explanation.other else None,
        "nearest": [_candidate_fields(page, scheme) for page in explanation.nearest],
        "texts": _text_fields(explanation.texts),
        "entry": explanation.facts or None,
        "notes": list(explanation.notes),
    }


def _part_fields(page: CandidatePage | None) -> dict[str, Any]:
    """The two numbers that decide, and the part of the page in which they were measured."""
    part = None if page is None else page.part
    return {
        "containment": None if part is None else round(part.containment.value, 6),
        "fresh_words": None if part is None else round(part.fresh_words.value, 1),
        "part": None if part is None else part.name,
    }


def _host_fields(host: HostFacts | None) -> dict[str, Any] | None:
    if host is None:
        return None
    counts = Counter(role.name.lower() for role in host.blocks.roles)
    return {
        "pages": host.pages,
        "limit": host.limit,
        "distinctive_words": host.distinctive_words,
        "main_words": host.main_words,
        "rare_title_words": host.rare_title_words,
        "blocks": len(host.blocks.roles),
        "template_blocks": counts["template"],
        "common_blocks": counts["common"],
    }


def _candidate_fields(page: CandidatePage, scheme: str) -> dict[str, Any]:
    return {
        "id": page.entry.id,
        "url": page.entry.url,
        "entry": page.number,
        "fate": page.fate.value,
        "accepted": page.accepted,
        "reason": page.reason.label if page.accepted else None,
        "score": round(page.score, 6),
        **_part_fields(page),
        "keys": {key_name(kind, scheme): count for kind, count in page.keys.items()},
        "decided_by": [key_name(kind, scheme) for kind in page.proof],
        "figures": {name: round(value, 6) for name, value in page.figures.items()},
        "criteria": [
            {
                "name": criterion.name,
                "reached": criterion.reached,
                "thresholds": [
                    asdict(threshold) | {"reached": threshold.reached, "shortfall": round(threshold.shortfall, 6)}
                    for threshold in criterion.thresholds
                ],
            }
            for criterion in page.criteria
        ],
    }


def _text_fields(texts: "TextPair | None") -> dict[str, Any] | None:
    if texts is None:
        return None
    figures = {"containment": texts.containment, "fresh_words": texts.fresh_words, "jaccard": texts.jaccard}
    return asdict(texts) | {name: value and round(value, 6) for name, value in figures.items()}
