"""Finds the pairs of pages that a review can show, and draws a stratified sample of them.

The population contains every dropped page with its original and every near miss with its nearest page. A near miss is a
page that was not dropped, but that the scheme drops at an end of its threshold's range (Threshold.swept). Its nearest
page is the most similar earlier page that is emitted there, or the original of that page if it was dropped. So the
population contains the drops of every value in between, and `spotsieve calibrate` can estimate their quality.

Strata (Cochran, Sampling Techniques, 3rd edition 1977, chapter 5) are formed by verdict, reason, hosts, score, and
whether the page is lost by fresh text. Strata of lost pages come first in the review: a person wants to see these, and
an order by strata leaves the estimates unbiased. The number of pairs drawn from a stratum grows with the root of its
size, so that small strata are known nearly as well as large ones (power allocation, Bankier 1988). Within a stratum
every k-th pair is drawn in the order of hosts (systematic sampling, Cochran, chapter 8): each pair has the same chance,
and each host its share.

The reviewed verdicts come from a filter in memory, or from verdict lines of `spotsieve filter --verdicts` and
`spotsieve replay --into`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from spotsieve.state.log.record import decode
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.progress import OnPages
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Entry
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.base.verdict import Reason, Verdicts
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.verdict_lines import read_objects, verdict_files
from spotsieve.stream.research.evaluation.choices import Choice, over_its_threshold, single
from spotsieve.stream.research.evaluation.trial import SignedPages, Trial, signed_alike
from spotsieve.stream.research.labelling.page_texts import crawl_texts
from spotsieve.stream.research.models.term_counter import batches_of
from spotsieve.stream.research.scoring.fresh_text import (
    ABSENT,
    UNKNOWN,
    FreshText,
    PageGrams,
    fresh_words,
    is_lost,
    measure,
)

DROPPED, PASSED = "dropped", "passed"
BANDS = (0.1, 0.2, 0.5)
"""Widths of the bands of score. The narrowest width is used that leaves LEAST pairs for every stratum."""
LEAST = 2
"""The least pairs drawn from a stratum, if it has as many: one pair gives no variance."""


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The verdict of a page. original: the id of its original; None, with no score, if the page was not dropped"""

    original: str | None
    score: float | None
    reason: str


def read_verdicts(path: Path, scheme: str | None) -> dict[str, VerdictLine]:
    """The verdicts of a file, or of the directory of a backfill, by page id; for a repeated id the first verdict.

    scheme: the scheme of the settings; None for verdicts of any scheme
    Raises InputError for a file that cannot be read, a line that is not a verdict, and a verdict of another scheme.
    """
    verdicts: dict[str, VerdictLine] = {}
    found = ((file, *numbered) for file in verdict_files(path) for numbered in read_objects(file, "verdicts"))
    for file, number, line in found:
        here = f"{file} line {number}"
        page, original, score, reason = (line.get(name) for name in ("id", "duplicate_of", "score", "reason"))
        if (
            not isinstance(page, str)
            or not isinstance(reason, str)
            or not isinstance(original, str | None)
            or not isinstance(score, float | int | None)
            or "duplicate_of" not in line
            or (not original and line.get("verdict") == "duplicate")
        ):
            rule = "must be a verdict with id, duplicate_of, score and reason"
            then = "name the file that `spotsieve filter --verdicts` wrote; pages are given without --verdicts"
            raise InputError(here, rule, None, then)
        if scheme is not None and line.get("scheme") != scheme:
            rule = f"must be of the scheme {scheme} of the settings"
            then = "name the configuration of these verdicts: -c FILE"
            raise InputError(here, rule, line.get("scheme"), then)
        verdicts.setdefault(page, VerdictLine(original or None, score, reason))
    if not verdicts:
        then = "write verdicts with `spotsieve filter FILES --verdicts FILE`"
        raise InputError(str(path), "has no verdicts", None, then)
    return verdicts


class ReviewPair(NamedTuple):
    """A page, and the earlier page that is its original or nearly was.

    earlier, later: places of the two pages in the crawl
    drawn: DROPPED, or PASSED if the later page was not dropped
    reason: the reason of a dropped page; "" for PASSED
    one_host: whether both pages are of one host
    fresh, words: the number of words of the later page that are fresh against the earlier page, and of all its words
    """

    earlier: int
    later: int
    drawn: str
    score: float
    reason: str
    one_host: bool
    fresh: int = 0
    words: int = 0

    @property
    def lost(self) -> bool:
        """Whether the later page is lost by fresh text: it was dropped, and much of its text is fresh."""
        return self.drawn == DROPPED and is_lost(self.fresh, self.words)


@dataclass(frozen=True, slots=True)
class Population:
    """The pages of a crawl, and the pairs that can be reviewed.

    ids, urls: ids and URLs of all pages, in order
    pairs: at most one pair for each later page, in order
    fresh: the reviewed verdicts by fresh text
    absent: the number of dropped pages whose original is not in the crawl
    unjudged: the number of pages without a recorded verdict
    repeated: the number of pages with the id of an earlier page; they are in no pair
    """

    ids: list[str]
    urls: list[str]
    pairs: list[ReviewPair]
    fresh: FreshText
    absent: int = 0
    unjudged: int = 0
    repeated: int = 0


def find_population(
    inputs: Sequence[Input],
    settings: Settings,
    recorded: Mapping[str, VerdictLine] | None,
    on_pages: OnPages = lambda *_: None,
) -> Population:
    """The population of the files' text pages, judged in memory as configured and at the ends of the threshold's range.

    recorded: the reviewed verdicts by page id; None reviews the verdicts of a filter that starts with these pages
    Raises InputError for a file that cannot be read, and if no page has a verdict.
    """
    own, *ends = choices_at_ends(settings)
    signed = signed_crawl(inputs, own, keep=True, on_pages=on_pages)
    pages, verdicts = _verdicts_of(own, signed)
    places = first_places(page.id for page in pages)
    verdicts = verdicts if recorded is None else recorded
    ids, texts = crawl_texts(inputs, settings)
    if ids != [page.id for page in pages]:
        raise changed_input(inputs[-1].source)
    originals = recorded_originals(ids, verdicts)
    known = {place: verdicts[name] for name, place in places.items() if name in verdicts}
    dropped = {
        place: _dropped_pair(place, verdict, places, pages) for place, verdict in known.items() if verdict.original
    }
    pairs = {place: pair for place, pair in dropped.items() if pair is not None}
    for end in ends:
        if len(signed_alike([own, end])) > 1:
            signed = signed_crawl(inputs, end, keep=False)
        for place, pair in _near_misses(end, signed, pages, known.keys() - dropped.keys(), dropped):
            before = pairs.get(place)
            if before is None or pair.score > before.score:
                pairs[place] = pair
    return Population(
        ids,
        [page.url for page in pages],
        [_with_fresh_text(pairs[place], texts) for place in sorted(pairs)],
        measure(texts, originals),
        absent=sum(pair is None for pair in dropped.values()),
        unjudged=len(places) - len(known),
        repeated=len(pages) - len(places),
    )


def changed_input(source: str) -> InputError:
    """The error if a file does not have the same pages when it is read again."""
    return InputError(source, "has changed while it was read twice", None, "run again")


def choices_at_ends(settings: Settings) -> list[Choice]:
    """The settings as configured, and the scheme at the ends of its threshold's range that differ from them."""
    swept = over_its_threshold(settings, settings.scheme)
    return [single(settings, settings.scheme), *(choice for choice in (swept[0], swept[-1]) if not choice.own)]


def signed_crawl(
    inputs: Sequence[Input], choice: Choice, *, keep: bool, on_pages: OnPages = lambda *_: None
) -> SignedPages:
    """The text pages of the files, signed with the settings of a choice. Raises InputError if there are none."""

    def batches() -> Iterator[list[Page]]:
        pages = 0
        for batch, bytes_read in batches_of(inputs, choice.settings):
            pages += len(batch)
            yield batch
            on_pages(pages, 0, bytes_read)
        if not pages:
            raise InputError("FILES", "have no pages of text", None, "name the files of a crawl")

    return SignedPages(batches(), choice.settings, keep=keep)


def judge_pages(choice: Choice, signed: SignedPages) -> Iterator[tuple[int, Entry, Verdicts, int, bytes, Trial]]:
    """Judge signed pages with the settings of a choice, from an empty state.

    Yields for each page: its place, the page, the verdicts of its log record, its row in them, the record, and the
    filter after this record.
    """
    trial, place = Trial(choice.settings, signed.digest), 0
    for records, pages in signed:
        remaining = iter(pages)
        for record in records:
            verdicts = trial.apply(record)
            for row in range(len(verdicts)):
                yield place, next(remaining), verdicts, row, record, trial
                place += 1


def judge_choices(
    inputs: Sequence[Input], choices: Sequence[Choice], pages: int, on_step: Callable[[str], None]
) -> Iterator[tuple[Choice, list[int | None]]]:
    """Each choice, and for each page of the files the place of its original; None for an emitted page.

    Choices that sign alike come together.

    pages: the number of pages when the files were read before
    on_step: called with a text before each choice is filtered
    Raises InputError for another number of pages, and if there is no page of text.
    """
    number = 0
    for group in signed_alike(choices):
        signed = signed_crawl(inputs, group[0], keep=len(group) > 1)
        for choice in group:
            number += 1
            on_step(f"filtering {number} of {len(choices)}, {choice.name}")
            yield choice, _judge_crawl(choice, signed, pages)


def _judge_crawl(choice: Choice, signed: SignedPages, pages: int) -> list[int | None]:
    originals, places = list[int | None](), dict[str, int]()
    for place, page, verdicts, row, _, _ in judge_pages(choice, signed):
        places[page.page_id] = place
        original = verdicts.originals[row]
        originals.append(None if original is None else places[original.page_id])
    if len(originals) != pages:
        raise InputError("FILES", "have changed while they were read twice", None, "run again")
    return originals


def first_places(ids: Iterable[str]) -> dict[str, int]:
    """The first place of each id."""
    places = dict[str, int]()
    for place, name in enumerate(ids):
        places.setdefault(name, place)
    return places


def recorded_originals(
    ids: Sequence[str], verdicts: Mapping[str, VerdictLine], flag: str = "--verdicts"
) -> list[int | None]:
    """The place of each page's original by recorded verdicts, as stream/research/scoring/fresh_text.py takes them.

    A page without a verdict, or with the id of an earlier page, has no known original. Raises InputError if no page has
    a verdict.

    ids: the ids of the pages in their order
    flag: the flag that names the file of the verdicts
    """
    places = first_places(ids)
    if verdicts.keys().isdisjoint(places):
        rule = f"has no verdict for any of the {len(places):,} pages in the files"
        raise InputError(flag, rule, None, "name the files of these verdicts, by the same names")
    originals = list[int | None]()
    for place, name in enumerate(ids):
        verdict = verdicts.get(name) if places[name] == place else None
        if verdict is None:
            originals.append(UNKNOWN)
        else:
            original = None if verdict.original is None else places.get(verdict.original, ABSENT)
            originals.append(ABSENT if original == place else original)  # Its original had the same id.
    return originals


def _verdicts_of(choice: Choice, signed: SignedPages) -> tuple[list[Entry], Mapping[str, VerdictLine]]:
    """The pages in order, and their verdicts by page id, as in a file of verdicts."""
    pages, lines = list[Entry](), dict[str, VerdictLine]()
    for _, page, verdicts, row, _, _ in judge_pages(choice, signed):
        pages.append(page)
        original, score = verdicts.originals[row], float(verdicts.score[row])
        reason = Reason(verdicts.reason[row]).label
        lines.setdefault(page.id, VerdictLine(original.id if original else None, score, reason))
    return pages, lines


def _with_fresh_text(pair: ReviewPair, texts: Sequence[PageGrams]) -> ReviewPair:
    later = texts[pair.later]
    return pair._replace(fresh=fresh_words(later, texts[pair.earlier]), words=later.words)


def _dropped_pair(
    place: int, drop: VerdictLine, places: Mapping[str, int], pages: Sequence[Entry]
) -> ReviewPair | None:
    """The pair of a dropped page and its original; None if the original is not in the crawl."""
    earlier = places.get(drop.original or "")
    if earlier is None or earlier == place:
        return None
    score = 1.0 if drop.score is None else drop.score
    return ReviewPair(earlier, place, DROPPED, score, drop.reason, _one_host(pages, earlier, place))


def _near_misses(
    end: Choice,
    signed: SignedPages,
    pages: Sequence[Entry],
    passed: AbstractSet[int],
    dropped: Mapping[int, ReviewPair | None],
) -> Iterator[tuple[int, ReviewPair]]:
    """The near misses at an end of the threshold's range, each with its place.

    passed: places of the pages that were not dropped; dropped: the pairs of the dropped pages by place
    """
    places = {page.page_id: place for place, page in enumerate(pages)}
    for place, _, verdicts, row, record, trial in judge_pages(end, signed):
        original = verdicts.originals[row]
        if original is None or place not in passed:
            continue
        (matches,) = trial.matches(decode(record).signatures.part(row, row + 1))
        near = [(match.score, -places[match.entry.page_id]) for match in matches if places[match.entry.page_id] < place]
        score, negated = max(near, default=(float(verdicts.score[row]), -places[original.page_id]))
        earlier = -negated
        if earlier in dropped:
            # A service judged in the order of its log. In the order of the files a copy may precede its original.
            drop = dropped[earlier]
            if drop is None or drop.earlier == place:
                continue
            earlier = drop.earlier
        yield place, ReviewPair(earlier, place, PASSED, score, "", _one_host(pages, earlier, place))


def _one_host(pages: Sequence[Entry], earlier: int, later: int) -> bool:
    return host_of(pages[earlier].url) == host_of(pages[later].url)


@dataclass(frozen=True, slots=True)
class Stratum:
    """One stratum. pages: the number of its pairs, one for each later page; drawn: the pairs that are reviewed"""

    name: str
    pages: int
    drawn: tuple[ReviewPair, ...]


def draw(population: Population, wanted: int, seed: int) -> list[Stratum]:
    """The strata of a population with the drawn pairs. The same population and seed give the same pairs.

    wanted: the total number of pairs to draw; fewer are drawn if the population has fewer
    """
    for width in BANDS:
        members = _divided(population.pairs, width)
        if LEAST * len(members) <= wanted:
            break
    sizes = allocate([len(pairs) for pairs in members.values()], wanted)
    return [
        Stratum(name, len(pairs), _systematic(population, pairs, size, Random(f"{seed} {name}")))
        for (name, pairs), size in zip(members.items(), sizes, strict=True)
    ]


def in_order(strata: Sequence[Stratum], seed: int) -> list[tuple[Stratum, ReviewPair]]:
    """All drawn pairs in the order of the review: first the strata of lost pages, then the others.

    Both are shuffled, so that every beginning has its share of each stratum.
    """
    lost = [stratum for stratum in strata if any(pair.lost for pair in stratum.drawn)]
    others = [stratum for stratum in strata if stratum not in lost]
    return [*_shuffled(lost, Random(f"{seed} lost")), *_shuffled(others, Random(f"{seed} order"))]


def _shuffled(strata: Sequence[Stratum], random: Random) -> list[tuple[Stratum, ReviewPair]]:
    keyed = list[tuple[float, int, Stratum, ReviewPair]]()
    for stratum in strata:
        pairs = random.sample(stratum.drawn, len(stratum.drawn))
        start = random.random()
        keyed += [((place + start) / len(pairs), len(keyed) + place, stratum, pair) for place, pair in enumerate(pairs)]
    return [(stratum, pair) for _, _, stratum, pair in sorted(keyed, key=lambda row: row[:2])]


def allocate(sizes: Sequence[int], wanted: int) -> list[int]:
    """The number of pairs to draw from each stratum: LEAST (or all) of each, and the rest by the roots of the sizes."""
    counts = [min(size, LEAST) for size in sizes]
    left = wanted - sum(counts)
    while left < 0:  # Too many strata: take a pair from a stratum with the most pairs, the smallest stratum first.
        reduced = min(range(len(sizes)), key=lambda place: (-counts[place], sizes[place], place))
        counts[reduced] -= 1
        left += 1
    while left > 0:
        next_ = max(range(len(sizes)), key=lambda place: _priority(sizes[place], counts[place]), default=None)
        if next_ is None or counts[next_] == sizes[next_]:
            break
        counts[next_] += 1
        left -= 1
    return counts


def _priority(size: int, count: int) -> float:
    """The priority of a stratum for the next pair, by Huntington and Hill's method of equal proportions."""
    return math.sqrt(size) / math.sqrt(max(count, 1) * (count + 1)) if count < size else -1.0


def _divided(pairs: Sequence[ReviewPair], width: float) -> dict[str, list[ReviewPair]]:
    """The pairs by the names of their strata, sorted by name. width: the width of the bands of score"""
    members = defaultdict[str, list[ReviewPair]](list)
    for pair in pairs:
        members[_name(pair, width)].append(pair)
    return dict(sorted(members.items()))


def _name(pair: ReviewPair, width: float) -> str:
    bands = round(1 / width)
    band = min(int(pair.score * bands + 1e-9), bands - 1)
    hosts = "one host" if pair.one_host else "two hosts"
    reason = f" {pair.reason}" if pair.drawn == DROPPED else ""
    fresh = ", lost by fresh text" if pair.lost else ""
    return f"{pair.drawn}{reason}, {hosts}, {band / bands:g} to {(band + 1) / bands:g}{fresh}"


def _systematic(
    population: Population, pairs: Sequence[ReviewPair], size: int, random: Random
) -> tuple[ReviewPair, ...]:
    ordered = sorted(pairs, key=lambda pair: (host_of(population.urls[pair.later]), pair.score, pair.later))
    start, step = random.random(), len(pairs) / max(size, 1)
    return tuple(ordered[min(int((place + start) * step), len(pairs) - 1)] for place in range(size))
