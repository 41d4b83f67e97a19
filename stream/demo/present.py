"""Writes the report of the demo as plain ASCII within 100 columns, or as JSON."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spotsieve.stream.base.page_text import SHINGLE
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.terminal import escape_control_characters, json_text
from spotsieve.stream.demo.articles import ArticleEdit
from spotsieve.stream.demo.crawl import RECRAWL, CrawlMessage, crawl_summary
from spotsieve.stream.demo.explain import DuplicateExample, default_scheme
from spotsieve.stream.demo.traffic import DemoOutcome, OutputMessages, article_count

COLUMNS = 98
INDENT = 13
SHOWN_URLS = 10
SHOWN_WORDS = 30
SHOWN_BOILERPLATE = 12


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The results of one run of the demo. seconds: from the filter's readiness to its last commit"""

    crawl: list[CrawlMessage]
    received: OutputMessages
    outcome: DemoOutcome
    explanations: list[DuplicateExample]
    seconds: float
    settings: Settings


def as_text(result: DemoResult) -> str:
    """The whole report."""
    parts = [_input(result), _output(result), _copies(result), _examples(result)]
    lines = [escape_control_characters(line) for part in parts for line in part]
    return "\n".join(lines)


def as_json(result: DemoResult) -> str:
    """The whole report as JSON."""
    outcome, received = result.outcome, result.received
    fields = {
        "messages_in": len(result.crawl),
        "articles": article_count(result.crawl),
        "messages_out": {name: len(records) for name, records in _topics(result)},
        "copies": {kind: {"found": outcome.found[kind], "missed": outcome.missed[kind]} for kind in _kinds(outcome)},
        "lost": outcome.lost,
        "not_exactly_once": outcome.strays,
        "seconds": round(result.seconds, 3),
        "pages_per_second": round(len(result.crawl) / result.seconds, 1),
        "examples": [
            {
                **explanation.report,
                "borderline": explanation.borderline,
                "difference": explanation.difference,
                "words": dict(zip(("page", "original"), explanation.words, strict=True)),
                "kept_words": dict(zip(("page", "original"), explanation.main_words, strict=True)),
                "shingles": dict(zip(("page", "shared"), explanation.shingles, strict=True)),
                "containment": round(explanation.containment, 4),
                "fresh_words": explanation.fresh_words,
                "shared_minima": explanation.shared_minhash,
                "longest_run_words": len(explanation.run),
            }
            for explanation in result.explanations
        ],
        "dead_letters": [_headers(record.headers).get("spotsieve-reason", "") for record in received.rejected],
        "good": outcome.good,
    }
    return json_text(fields, indent=2)


def to_look_at(written: Sequence[Path]) -> str:
    """Where the HTML pages of the examples are. written: the files; none if the package for them is missing"""
    if not written:
        return '\nTo see both texts side by side, install the extra "report" and run the demo again.'
    lines = [f"  {path.resolve().as_uri()}" for path in written]
    return "\n".join(["", "The examples above, with both texts side by side", *lines])


def next_steps(command: str, *, kept: bool) -> str:
    """The next commands to try. command: how the user calls spotsieve  kept: whether the demo keeps running"""
    steps = [
        ("demo --keep", "keep broker and filter running"),
        ("config example > spotsieve.toml", "write all settings to a file"),
        ("topics create -c spotsieve.toml", "create topics on your own broker"),
        ("run -c spotsieve.toml", "filter your own crawl"),
        ("filter pages.jsonl --out novel.jsonl", "filter files, without a broker"),
    ]
    width = len(command) + max(len(step) for step, _ in steps) + 2
    lines = [f"  {f'{command} {step}':<{width}} {about}" for step, about in steps[kept:]]
    return "\n".join(["", "Next steps", *lines])


def still_running(settings: Settings, metrics_url: str) -> str:
    """What keeps running with --keep, and how to look at it."""
    servers, topics = settings.kafka.bootstrap_servers, settings.topics
    message = '{"url": "https://me.example/", "body": "<p>a page of mine"}'
    return "\n".join(
        [
            "",
            f"The broker at {servers} and the filter keep running until Ctrl-C.",
            f"  curl {metrics_url}/metrics",
            f"  kcat -b {servers} -t {topics.novel} -C -o beginning -e -f '%k %h\\n'",
            f"  kcat -b {servers} -t {topics.duplicates} -C -o beginning -e",
            f"  echo '{message}' | kcat -b {servers} -t {topics.input} -P",
        ]
    )


def _input(result: DemoResult) -> Iterator[str]:
    crawl = result.crawl
    templates = len({sent.template for sent in crawl if sent.template})
    yield ""
    yield f"Input: {len(crawl)} messages on topic {result.settings.topics.input!r}"
    yield from _wrapped(
        f"{article_count(crawl)} articles in {templates} site templates. Many articles share a template (similar, no "
        "copies), and many articles appear in several templates (copies).",
        "  ",
    )
    rows = crawl_summary(crawl)
    for what, number in rows:
        yield f"  {what:<72} {number:>5}"


def _output(result: DemoResult) -> Iterator[str]:
    yield ""
    yield "Output"
    yield f"  {'topic':<40} {'messages':>8}"
    for name, records in _topics(result):
        yield f"  {name:<40} {len(records):>8}"
    novel = result.received.novel
    verdicts = Counter(_headers(record.headers).get("spotsieve-verdict", "tombstone") for record in novel)
    kinds = ", ".join(f"{number} {name}" for name, number in verdicts.most_common())
    yield f"  of {result.settings.topics.novel}: {kinds}"
    for record in result.received.rejected:
        yield from _labelled("rejected", _headers(record.headers).get("spotsieve-error", ""))
    yield f"  {len(result.crawl)} messages in {result.seconds:.2f} s, from ready to the last commit, including the time"
    yield "  to join the group. To measure the speed, run `make bench`."


def _copies(result: DemoResult) -> Iterator[str]:
    outcome = result.outcome
    found, missed = outcome.found.total(), outcome.missed.total()
    yield ""
    yield f"Planted copies: {found} of {found + missed} dropped"
    yield f"  {'how the copy differs from its original':<46} {'dropped':>8} {'missed':>8}"
    for kind in _kinds(outcome):
        yield f"  {kind:<46} {outcome.found[kind]:>8} {outcome.missed[kind]:>8}"
    yield from _wrapped(
        "Each copy is compared with the novel page of its article: the page that came first, which may itself be an "
        "edited one.",
        "  ",
    )
    scheme = default_scheme(result.settings)
    yield from _wrapped(
        "The filter compares the main text of pages, without menus, teasers and footers. A page is a duplicate if one "
        f"earlier page contains at least {scheme.min_containment:g} of its distinctive text, which excludes the "
        f"template text of its host, and few of its words are fresh. Containment is the share of {SHINGLE}-word "
        "shingles, estimated from samples. This crawl is synthetic; `spotsieve score` measures labelled sets of real "
        "pages.",
        "  ",
    )
    if outcome.lost:
        yield f"  NOVEL PAGES LOST: {len(outcome.lost)}"
        yield from (f"    {url}" for url in outcome.lost[:SHOWN_URLS])
    else:
        yield "  No novel page was lost: every dropped page has the article of its original."
    if outcome.strays:
        yield f"  MESSAGES NOT SEEN EXACTLY ONCE: {len(outcome.strays)}"
        yield from (f"    {url}" for url in outcome.strays[:SHOWN_URLS])
    else:
        yield "  Every message came out exactly once."


def _examples(result: DemoResult) -> Iterator[str]:
    for number, explanation in enumerate(result.explanations, 1):
        yield ""
        scheme = default_scheme(result.settings)
        case = "borderline" if explanation.borderline else "clear-cut"
        yield f"Why it was dropped, example {number} ({case}): {explanation.difference}"
        if explanation.borderline:
            yield from _wrapped(_about_borderline(explanation, scheme), "  ")
        yield from _example(explanation, scheme)


def _about_borderline(explanation: DuplicateExample, scheme: SpotsieveSettings) -> str:
    score, needed, exact = explanation.report["score"], scheme.min_containment, explanation.containment
    compared = "is below the threshold: other samples could have emitted the page" if exact < needed else "agrees"
    return (
        f"Of all dropped pages, the original of this one contains the least of it: {score:.2f} by samples, and "
        f"{needed:g} is needed. Over all shingles of its main text it is {exact:.2f}, which {compared}. A threshold "
        f"above {score:.2f} emits it, unless another page contains more of it."
    )


def _example(explanation: DuplicateExample, scheme: SpotsieveSettings) -> Iterator[str]:
    report, (own, shared) = explanation.report, explanation.shingles
    yield from _labelled("dropped", report["page"]["url"])
    yield from _labelled("original", report["duplicate_of"]["url"])
    verdict = {name: report[name] for name in ("scheme", "score", "reason")}
    yield from _labelled(
        "verdict",
        f"{json_text(verdict)} for {report['page']['id']}, duplicate of {report['duplicate_of']['id']}",
    )
    words, main = explanation.words, explanation.main_words
    yield from _labelled(
        "main text", f"{main[0]} of {words[0]} words on the page, {main[1]} of {words[1]} on the original"
    )
    for number, block in enumerate(explanation.boilerplate):
        yield from _labelled("" if number else "excluded", f'"{_cut(block.split(), SHOWN_BOILERPLATE)}"')
    yield from _labelled(
        "shingles",
        f"{own} different ones in the main text, {shared} of them on the original, such as "
        + ", ".join(f'"{shingle}"' for shingle in explanation.shared_shingles),
    )
    yield from _labelled(
        "contained",
        f"{shared} / {own} = {explanation.containment:.2f} of the main text; by samples and without template text "
        f"{report['score']:.2f}; needs {scheme.min_containment:g}",
    )
    yield from _labelled("fresh", f"{explanation.fresh_words} words, in runs of ten and more")
    yield from _labelled("found by", f"{explanation.shared_minhash} of {scheme.minima} MinHash values")
    yield from _labelled("page bytes", explanation.sources[0])
    yield from _labelled("original's", explanation.sources[1])
    yield from _labelled(
        "same words", f"{len(explanation.run)} in a row of the main text: " + _cut(explanation.run, SHOWN_WORDS)
    )


def _cut(words: Sequence[str], most: int) -> str:
    return " ".join(words[:most]) + (" ..." if len(words) > most else "")


def _kinds(outcome: DemoOutcome) -> list[str]:
    kinds = [RECRAWL, *(edit.value for edit in ArticleEdit)]
    return [kind for kind in kinds if outcome.found[kind] + outcome.missed[kind]]


def _topics(result: DemoResult) -> list[tuple[str, Sequence[object]]]:
    topics, received = result.settings.topics, result.received
    return [
        (topics.novel, received.novel),
        (topics.duplicates, received.duplicates),
        (topics.rejected, received.rejected),
    ]


def _headers(headers: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    return {name: value.decode("utf-8", "replace") for name, value in headers}


def _labelled(label: str, text: str) -> list[str]:
    return _wrapped(text, f"  {label:<{INDENT - 2}}", " " * INDENT)


def _wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    indent = first if rest is None else rest
    return textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
