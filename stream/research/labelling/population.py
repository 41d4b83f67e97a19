"""Finds the pairs that can be reviewed: every dropped page with its original, every near miss with its nearest page.

A near miss is a page that passed and that the scheme drops at an end of its threshold's range (Threshold.swept), where
it is loosest. Its nearest page is the most similar earlier page that is let through there, or the original of that one
if it was dropped. So what a setting in between drops is in the population, and `spotsieve calibrate` can tell what that
is worth.

Draws the pairs that are judged: strata by verdict, reason, hosts and score, and within a stratum spread over hosts.

Strata: Cochran, Sampling Techniques, 3rd edition 1977, chapter 5. The number drawn from a stratum grows with the root
of its size, so that small strata are known nearly as well as large ones (power allocation, Bankier 1988). Within a
stratum every k-th pair is taken of all pairs in the order of their hosts (systematic sampling, Cochran, chapter 8):
each pair has the same chance, and each host its share.

Reads verdict lines, as `spotsieve filter --verdicts` and `spotsieve replay --into` write them.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
from spotsieve.stream.files.verdict_lines import read_objects
from spotsieve.stream.research.evaluation.choices import Choice, over_its_threshold, single
from spotsieve.stream.research.evaluation.trial import SignedPages, Trial, signed_alike
from spotsieve.stream.research.models.term_counter import batches_of


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The verdict on a page. original: id of the page that it was dropped for; None and no score where it passed"""

    original: str | None
    score: float | None
    reason: str


def read_verdicts(path: Path, scheme: str) -> dict[str, VerdictLine]:
    """The verdicts of a file by the ids of their pages; of an id that comes twice the first.

    scheme: that of the settings. Raises InputError for a file that cannot be read, a line that is no verdict, or a
    verdict of another scheme.
    """
    found: dict[str, VerdictLine] = {}
    for number, line in read_objects(path, "verdicts"):
        here = f"{path} line {number}"
        page, original, score, reason = (line.get(name) for name in ("id", "duplicate_of", "score", "reason"))
        if (
            not isinstance(page, str)
            or not isinstance(reason, str)
            or not isinstance(original, str | None)
            or not isinstance(score, float | int | None)
            or "duplicate_of" not in line
        ):
            then = "give the file that `spotsieve filter --verdicts` wrote; pages come without a flag"
            raise InputError(here, "must be a verdict: id, duplicate_of, score and reason", None, then)
        if line.get("scheme") != scheme:
            rule = f"must be of the scheme {scheme}, as the settings are"
            then = "name the configuration that these verdicts are of: -c FILE"
            raise InputError(here, rule, line.get("scheme"), then)
        found.setdefault(page, VerdictLine(original, score, reason))
    if not found:
        raise InputError(str(path), "must hold verdicts, and is empty", None, "spotsieve filter FILES --verdicts FILE")
    return found


DROPPED, PASSED = "dropped", "passed"


class ReviewPair(NamedTuple):
    """A page and the earlier one that it was, or nearly was, dropped for. earlier, later: places among the pages

    drawn: DROPPED or PASSED  reason: of a dropped page, "" of one that passed  one_host: whether both are of one host
    """

    earlier: int
    later: int
    drawn: str
    score: float
    reason: str
    one_host: bool


@dataclass(frozen=True, slots=True)
class Population:
    """What was found. ids, urls: of all pages, in order  pairs: at most one for each page, in order

    absent: dropped pages whose original is not among the pages  unjudged: pages without a recorded verdict
    repeated: pages with the id of an earlier one; they are in no pair
    """

    ids: list[str]
    urls: list[str]
    pairs: list[ReviewPair]
    absent: int = 0
    unjudged: int = 0
    repeated: int = 0


def find_population(
    inputs: Sequence[Input],
    settings: Settings,
    recorded: Mapping[str, VerdictLine] | None,
    on_pages: OnPages = lambda *_: None,
) -> Population:
    """Judge the text pages of the files in memory, as they are set and at the ends of the threshold's range.

    recorded: the verdicts that are reviewed, by page id; None: those of a filter that begins with these pages
    Raises InputError for a file that cannot be read, and where no page has a verdict.
    """
    own, *ends = choices_at_ends(settings)
    signed = signed_crawl(inputs, own, keep=True, on_pages=on_pages)
    pages, verdicts = _judge_crawl(own, signed)
    places = dict[str, int]()
    for place, page in enumerate(pages):
        places.setdefault(page.id, place)
    verdicts = verdicts if recorded is None else recorded
    known = {place: verdicts[name] for name, place in places.items() if name in verdicts}
    if not known:
        rule = f"must name pages of the files, and none of the {len(places):,} is named"
        raise InputError("--verdicts", rule, None, "give the pages that the verdicts are of, under the same names")
    dropped = {
        place: _dropped_pair(place, verdict, places, pages) for place, verdict in known.items() if verdict.original
    }
    found = {place: pair for place, pair in dropped.items() if pair is not None}
    for end in ends:
        if len(signed_alike([own, end])) > 1:
            signed = signed_crawl(inputs, end, keep=False)
        for place, pair in _near_misses(end, signed, pages, known.keys() - dropped.keys(), dropped):
            before = found.get(place)
            if before is None or pair.score > before.score:
                found[place] = pair
    return Population(
        [page.id for page in pages],
        [page.url for page in pages],
        [found[place] for place in sorted(found)],
        absent=sum(pair is None for pair in dropped.values()),
        unjudged=len(places) - len(known),
        repeated=len(pages) - len(places),
    )


def choices_at_ends(settings: Settings) -> list[Choice]:
    """The settings, and with them the scheme at both ends of its threshold's range, but for those that it has."""
    swept = over_its_threshold(settings, settings.scheme)
    return [single(settings, settings.scheme), *(choice for choice in (swept[0], swept[-1]) if not choice.own)]


def signed_crawl(
    inputs: Sequence[Input], choice: Choice, *, keep: bool, on_pages: OnPages = lambda *_: None
) -> SignedPages:
    """The text pages of files, signed by a choice. Raises InputError where there are none."""

    def batches() -> Iterator[list[Page]]:
        pages = 0
        for batch, bytes_read in batches_of(inputs, choice.settings):
            pages += len(batch)
            yield batch
            on_pages(pages, 0, bytes_read)
        if not pages:
            raise InputError("FILES", "must hold pages of text, and hold none", None, "give the files of a crawl")

    return SignedPages(batches(), choice.settings, keep=keep)


def judge_pages(choice: Choice, signed: SignedPages) -> Iterator[tuple[int, Entry, Verdicts, int, bytes, Trial]]:
    """Judge signed pages by a choice, from an empty state.

    Each page with its place, the verdicts of its record, its row there, the record, and the filter as it is after it.
    """
    trial, place = Trial(choice.settings, signed.digest), 0
    for records, pages in signed:
        remaining = iter(pages)
        for record in records:
            verdicts = trial.apply(record)
            for row in range(len(verdicts)):
                yield place, next(remaining), verdicts, row, record, trial
                place += 1


def _judge_crawl(choice: Choice, signed: SignedPages) -> tuple[list[Entry], Mapping[str, VerdictLine]]:
    """The pages in order, and the verdicts by their ids, as a verdict file would have them."""
    pages, found = list[Entry](), dict[str, VerdictLine]()
    for _, page, verdicts, row, _, _ in judge_pages(choice, signed):
        pages.append(page)
        original, score = verdicts.originals[row], float(verdicts.score[row])
        reason = Reason(verdicts.reason[row]).label
        found.setdefault(page.id, VerdictLine(original.id if original else None, score, reason))
    return pages, found


def _dropped_pair(
    place: int, drop: VerdictLine, places: Mapping[str, int], pages: Sequence[Entry]
) -> ReviewPair | None:
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
            # A service judged in the order of its log: in that of the files a copy may come before its original.
            drop = dropped[earlier]
            if drop is None or drop.earlier == place:
                continue
            earlier = drop.earlier
        yield place, ReviewPair(earlier, place, PASSED, score, "", _one_host(pages, earlier, place))


def _one_host(pages: Sequence[Entry], earlier: int, later: int) -> bool:
    return host_of(pages[earlier].url) == host_of(pages[later].url)


BANDS = (0.1, 0.2, 0.5)
"""Widths of the bands of score: the narrowest is taken that leaves LEAST pairs for every stratum."""
LEAST = 2
"""Pairs of a stratum, if it has them: of one alone no variance can be told."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """One class of pairs. pages: how many pairs it has  drawn: those that are judged"""

    name: str
    pages: int
    drawn: tuple[ReviewPair, ...]


def draw(population: Population, wanted: int, seed: int) -> list[Stratum]:
    """The strata of a population and the pairs drawn; the same ones for the same population and seed.

    wanted: pairs in all; fewer are drawn where there are fewer
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
    """All drawn pairs in the order in which they are shown: mixed, and every beginning has its part of each stratum."""
    random = Random(f"{seed} order")
    keyed = list[tuple[float, int, Stratum, ReviewPair]]()
    for stratum in strata:
        pairs = random.sample(stratum.drawn, len(stratum.drawn))
        start = random.random()
        keyed += [((place + start) / len(pairs), len(keyed) + place, stratum, pair) for place, pair in enumerate(pairs)]
    return [(stratum, pair) for _, _, stratum, pair in sorted(keyed, key=lambda row: row[:2])]


def allocate(sizes: Sequence[int], wanted: int) -> list[int]:
    """How many to draw from strata of these sizes: LEAST or all of each, the rest by the roots of the sizes."""
    taken = [min(size, LEAST) for size in sizes]
    left = wanted - sum(taken)
    while left < 0:  # more strata than pairs: those with most give way, the smallest first
        give = min(range(len(sizes)), key=lambda place: (-taken[place], sizes[place], place))
        taken[give] -= 1
        left += 1
    while left > 0:
        most = max(range(len(sizes)), key=lambda place: _due(sizes[place], taken[place]), default=None)
        if most is None or taken[most] == sizes[most]:
            break
        taken[most] += 1
        left -= 1
    return taken


def _due(size: int, taken: int) -> float:
    """What the next pair of a stratum is worth, by Huntington and Hill's method of equal proportions."""
    return math.sqrt(size) / math.sqrt(max(taken, 1) * (taken + 1)) if taken < size else -1.0


def _divided(pairs: Sequence[ReviewPair], width: float) -> dict[str, list[ReviewPair]]:
    """The pairs by the names of their strata, in the order of the names."""
    members = defaultdict[str, list[ReviewPair]](list)
    for pair in pairs:
        members[_name(pair, width)].append(pair)
    return dict(sorted(members.items()))


def _name(pair: ReviewPair, width: float) -> str:
    bands = round(1 / width)
    band = min(int(pair.score * bands + 1e-9), bands - 1)
    hosts = "one host" if pair.one_host else "two hosts"
    reason = f" {pair.reason}" if pair.drawn == DROPPED else ""
    return f"{pair.drawn}{reason}, {hosts}, {band / bands:g} to {(band + 1) / bands:g}"


def _systematic(
    population: Population, pairs: Sequence[ReviewPair], size: int, random: Random
) -> tuple[ReviewPair, ...]:
    ordered = sorted(pairs, key=lambda pair: (host_of(population.urls[pair.later]), pair.score, pair.later))
    start, step = random.random(), len(pairs) / max(size, 1)
    return tuple(ordered[min(int((place + start) * step), len(pairs) - 1)] for place in range(size))
