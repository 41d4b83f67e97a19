"""Compares the main text of `--text` with other extractors on the labelled sets that have main texts.

`python -m bench.quality.texts` writes docs/measured/text.md. It compares emitted HTML pages only, an even sample
of each set, since --text writes no others. Our scorecards are fitted to one set. On that set a second row has
scorecards that were fitted without the page's site and cluster (bench/quality/folds.py), for the pages that some
fold holds out.

A text is compared with the marked one as a bag of tokens, and as a bag of runs of four tokens, as in the article
extraction benchmark of Scrapinghub (2019). Tokens come from the filter's own scanner, which makes a token of each
character of a script without spaces.
"""

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.command import MEASURED, reports_errors
from bench.peers.extractors import EXTRACTORS
from bench.quality.cards import Points
from bench.quality.extracts import extract_all
from bench.quality.folds import FOLDS, make_folds
from bench.quality.markdown import table
from bench.quality.scorecard_fit import FITTED_ON, Fit, Material, points_replaced
from bench.quality.sets import DATA, LabelledSet, load_set
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.verdict import Kind, TemplateMarks, Verdicts, concatenate
from spotsieve.stream.local.engines import MemoryEngine
from spotsieve.stream.research.evaluation.report import measured_on
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.prepared_pages import text_of
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

SETS = ("news", "docs", "catalogue", "lists", "scripts")
PAGES = 300
EQUAL = 0.01
"""Values of F1 that differ by less are called about equal: the samples are small."""
FIT_EVERY = 6
"""One page in this many is fitted on, because a fit of all pages in every fold takes minutes."""
RUN = 4
REPORT = MEASURED / "text.md"
PUBLISHED, REFITTED = "spotsieve: main text", "spotsieve: main text, fitted without the site"
WITHOUT = "spotsieve: text without template text"
OURS = (PUBLISHED, WITHOUT)
OTHERS = ("trafilatura", "resiliparse", "jusText")


class Overlap(NamedTuple):
    """The overlap of two bags: precision and recall of the first against the second, which is the marked one."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


class PageScore(NamedTuple):
    """A text of one page against the marked text. runs: F1 of its runs of RUN tokens"""

    tokens: Overlap
    runs: float


class TextRow(NamedTuple):
    """The scores of one extractor on a set. cpu_ms: per page, None if it was not measured alone"""

    name: str
    scores: Sequence[PageScore]
    cpu_ms: float | None = None

    def mean(self, value: Callable[[PageScore], float]) -> float:
        """The mean of a value over the pages."""
        return statistics.fmean(map(value, self.scores))

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its table row."""
        return (
            self.name,
            f"{len(self.scores):,}",
            f"{self.mean(lambda one: one.tokens.precision):.3f}",
            f"{self.mean(lambda one: one.tokens.recall):.3f}",
            f"{self.f1:.3f}",
            f"{statistics.median(one.tokens.f1 for one in self.scores):.3f}",
            f"{self.mean(lambda one: one.runs):.3f}",
            "" if self.cpu_ms is None else f"{self.cpu_ms:.1f}",
        )

    @property
    def f1(self) -> float:
        """The mean F1 of the tokens."""
        return self.mean(lambda one: one.tokens.f1)


HEADER = ("extractor", "pages", "precision", "recall", "F1", "median F1", f"F1 of runs of {RUN}", "CPU ms a page")


def overlap(found: Iterable[Hashable], marked: Iterable[Hashable]) -> Overlap:
    """The overlap of two bags. Both are 1 if both bags are empty."""
    first, second = Counter(found), Counter(marked)
    both = (first & second).total()
    empty = float(not first and not second)
    return Overlap(both / first.total() if first else empty, both / second.total() if second else empty)


def tokens_of(text: str) -> list[str]:
    """The filter's tokens of a text."""
    return [token for block in blocks_of(text.encode("utf-8", "replace"), False) for token in block.tokens]


def score(found: str, marked: str) -> PageScore:
    """A found text against the marked one."""
    one, other = tokens_of(found), tokens_of(marked)
    return PageScore(overlap(one, other), overlap(_runs(one), _runs(other)).f1)


def _runs(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    size = min(RUN, len(tokens))
    return [tuple(tokens[place : place + size]) for place in range(len(tokens) - size + 1)] if tokens else []


def judged(pages: Sequence[Page], scheme: Scheme) -> Verdicts:
    """The verdicts of a stream of pages with the template text of novel pages."""
    settings = Settings()
    engine = MemoryEngine(settings, scheme, with_marks=True)
    size, parts = settings.service.batch_pages, list[Verdicts]()
    for start in range(0, len(pages), size):
        parts += engine.judge_signed(engine.engine.scheme.sign(pages[start : start + size]))
    engine.close()
    return concatenate(parts)


def compare(labelled: LabelledSet, most: int, refit: bool) -> list[TextRow]:
    """All extractors on a sample of the emitted pages of a set. refit: whether to fit scorecards without the site"""
    scheme = scheme_in_scope(Settings())
    verdicts = judged(labelled.pages, scheme)
    marks = verdicts.marks
    assert marks is not None
    folds = make_folds(labelled.hosts, labelled.clusters, FOLDS, 0) if refit else []
    held_out = {place for fold in folds for place in fold.held_out} if refit else set(range(len(labelled.pages)))
    places = [
        place
        for place, page in enumerate(labelled.pages)
        if page.markup and place in held_out and verdicts.kind[place] == Kind.NOVEL and _marked(labelled, page)
    ]
    places = places[:: max(1, len(places) // most)][:most]
    rows = [_ours(labelled, places, scheme, marks, number, name) for number, name in enumerate(OURS)]
    if refit:
        sample = range(0, len(labelled.pages), FIT_EVERY)
        material = Material(labelled.part(sample))
        scores = dict[int, PageScore]()
        for fold in folds:
            training = set(fold.training)
            points = Fit(material.of([row for row, place in enumerate(sample) if place in training])).points()
            part = [place for place in places if place in set(fold.held_out)]
            scores |= zip(part, _ours(labelled, part, scheme, marks, 0, REFITTED, points).scores, strict=True)
        rows.insert(1, TextRow(REFITTED, [scores[place] for place in places]))
    documents = [labelled.documents[place] for place in places]
    for name in OTHERS:
        extract = extract_all(documents, EXTRACTORS[name][1])
        pairs = zip(extract.texts, places, strict=True)
        scores_of = [score(text, _marked_at(labelled, place)) for text, place in pairs]
        rows.append(TextRow(name, scores_of, 1000 * extract.cpu_s / len(places)))
    return rows


def _ours(
    labelled: LabelledSet,
    places: Sequence[int],
    scheme: Scheme,
    marks: TemplateMarks,
    number: int,
    name: str,
    points: Points | None = None,
) -> TextRow:
    """Our texts of some pages. number: 0 for the main text, 1 without template text  points: other scorecards"""
    with points_replaced(points) if points else nullcontext():
        began = time.thread_time()
        texts = [text_of(labelled.pages[place], scheme, _known(marks, place))[number] for place in places]
        cpu_s = time.thread_time() - began
    scores = [score(text, _marked_at(labelled, place)) for text, place in zip(texts, places, strict=True)]
    return TextRow(name, scores, None if points else 1000 * cpu_s / len(places))


def _known(marks: TemplateMarks, place: int) -> NDArray[np.bool_]:
    found = marks.of_page(place)
    assert found is not None, "the engine marks novel pages"
    return found


def _marked(labelled: LabelledSet, page: Page) -> str:
    return labelled.main_texts.get(page.label, "")


def _marked_at(labelled: LabelledSet, place: int) -> str:
    return _marked(labelled, labelled.pages[place])


def as_markdown(results: Mapping[str, Sequence[TextRow]], command: str) -> str:
    """The document."""
    parts = [ABOUT, f"Measured on {', '.join(measured_on(datetime.now(UTC)))}, with `{command}`."]
    for name, rows in results.items():
        parts += [f"## {name}", MARKED[name], table(HEADER, [row.cells for row in rows]), verdict_on(rows)]
    return "\n\n".join(parts) + "\n"


def verdict_on(rows: Sequence[TextRow]) -> str:
    """A sentence for each of our texts: who is better. Refitted scorecards stand for ours, if there are any."""
    main = next((row for row in rows if row.name == REFITTED), rows[0])
    others = sorted((row for row in rows if row.name in OTHERS), key=lambda row: -row.f1)
    sentences = list[str]()
    for label, ours in (("main text", main), ("text without template text", _named(rows, WITHOUT))):
        relations: dict[str, list[str]] = {"better than": [], "about as good as": [], "worse than": []}
        for row in others:
            equal = abs(row.f1 - ours.f1) < EQUAL
            relation = "about as good as" if equal else "better than" if ours.f1 > row.f1 else "worse than"
            relations[relation].append(f"{row.name} ({row.f1:.3f})")
        parts = [f"{relation} {', '.join(names)}" for relation, names in relations.items() if names]
        sentences.append(f"By mean F1 our {label} ({ours.f1:.3f}) is {', and '.join(parts)}.")
    return " ".join(sentences)


def _named(rows: Sequence[TextRow], name: str) -> TextRow:
    return next(row for row in rows if row.name == name)


ABOUT = """# The text of `--text`, and other extractors

How much of the text that `--text` writes ([Files](../files.md#the-text-of-a-page)) is the text that people, or a
site's own markup, mark as the main text? Other extractors get the same pages with their defaults: trafilatura without
comments, resiliparse with `main_content`, and jusText with the stop words of all its languages.

```sh
make text
```

Each row is a mean over an even sample of the emitted HTML pages of a labelled set. Precision, recall and F1
compare the tokens of a page as bags. The last F1 compares runs of four tokens, as the article extraction benchmark
of Scrapinghub does; Bevendorff et al. (SIGIR 2023) compare such measures. The scorecards of the product are fitted
to news. On that set, the row that counts was fitted to a sixth of the pages, without the page's site and
without copies of its article. The scorecards know nothing of the other sets. Other programs ran on the
machine, so CPU times are upper bounds."""
MARKED = {
    "news": "Articles of many sites. The marked text is the article.",
    "docs": "Manuals. The marked text is the element of the content.",
    "catalogue": "Product cards, parcels, directories. The marked text is the lines on few pages of a site, so an "
    "extractor that sees one page cannot know it.",
    "lists": "Messages of a mailing list's archive. The marked text is subject and body.",
    "scripts": "Long pages in Thai in generated furniture.",
}


@reports_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the document or print it. Returns the exit code."""
    parser = argparse.ArgumentParser("python -m bench.quality.texts", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, help="only these, to standard output")
    parser.add_argument("--pages", type=int, default=PAGES, metavar="N", help=f"at most N pages of a set ({PAGES})")
    options = parser.parse_args(arguments)
    results = {name: compare(load_set(DATA / name), options.pages, refit=name == FITTED_ON) for name in options.sets}
    shown = sys.argv[1:] if arguments is None else arguments
    text = as_markdown(results, " ".join(["python -m bench.quality.texts", *shown]))
    if tuple(options.sets) == SETS:
        REPORT.write_text(text, "utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
