"""Finds the pairs that can be reviewed: every dropped page with its original, every near miss with its nearest page.

A near miss is a page that passed and that the scheme drops at an end of its threshold's range (Threshold.swept), where
it is loosest. Its nearest page is the most similar earlier page that is let through there. So what a setting in between
drops is in the population, and `spotsieve calibrate` can tell what that is worth.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spotsieve.state.log.record import decode
from spotsieve.stream.errors import InputError
from spotsieve.stream.evaluation.choices import Choice, over_its_threshold, single
from spotsieve.stream.evaluation.judging import SignedPages, signed_alike
from spotsieve.stream.evaluation.trial import Trial
from spotsieve.stream.files.reader import Input
from spotsieve.stream.hosts import host_of
from spotsieve.stream.labelling.review.recorded import Recorded
from spotsieve.stream.models.counting import batches_of
from spotsieve.stream.page import Page
from spotsieve.stream.progress import OnPages
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.signature import Entry
from spotsieve.stream.verdict import Reason, Verdicts

DROPPED, PASSED = "dropped", "passed"


class Pair(NamedTuple):
    """A page and the earlier one that it was, or nearly was, dropped for. earlier, later: places among the pages

    drawn: DROPPED or PASSED  reason: of a dropped page, "" of one that passed  one_host: whether both are of one host
    """

    earlier: int
    later: int
    drawn: str
    score: float
    reason: str
    one_host: bool


@dataclass(slots=True)
class Population:
    """What was found. ids, urls: of all pages, in order  pairs: at most one for each page, in order

    absent: dropped pages whose original is not among the pages  unjudged: pages without a recorded verdict
    repeated: pages with the id of an earlier one; they are in no pair
    """

    ids: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    absent: int = 0
    unjudged: int = 0
    repeated: int = 0


def find_population(
    inputs: Sequence[Input], settings: Settings, recorded: Mapping[str, Recorded] | None, on_pages: OnPages
) -> Population:
    """Judge the text pages of the files in memory, as they are set and at the ends of the threshold's range.

    recorded: the verdicts that are reviewed, by page id; None: those of a filter that begins with these pages
    Raises InputError for a file that cannot be read, and where no page has a verdict.
    """
    own, *ends = choices_at_ends(settings)
    signed = signed_crawl(inputs, own, keep=True, on_pages=on_pages)
    pages, drops = list[Entry](), dict[int, Recorded]()
    for place, page, verdicts, row, _, _ in walk(own, signed):
        pages.append(page)
        original = verdicts.originals[row]
        if recorded is None and original is not None:
            reason = Reason(verdicts.reason[row]).label
            drops[place] = Recorded(original.id, float(verdicts.score[row]), reason)
    places = dict[str, int]()
    for place, page in enumerate(pages):
        places.setdefault(page.id, place)
    population = Population([page.id for page in pages], [page.url for page in pages])
    population.repeated = len(pages) - len(places)
    if recorded is not None:
        drops = {places[name]: line for name, line in recorded.items() if name in places and line.original is not None}
        population.unjudged = len(places.keys() - recorded.keys())
        if population.unjudged == len(places):
            then = "give the pages that the verdicts are of, under the same names"
            raise InputError(
                "--verdicts", f"must name pages of the files, and none of the {len(places):,} is named", None, then
            )
    passed = {place for name, place in places.items() if place not in drops and (recorded is None or name in recorded)}
    found = {place: _dropped(place, drop, places, pages) for place, drop in drops.items()}
    population.absent = sum(pair is None for pair in found.values())
    for end in ends:
        signed = signed if signed_alike([own, end])[1:] == [] else signed_crawl(inputs, end, keep=False)
        for place, pair in _near_misses(end, signed, pages, passed):
            before = found.get(place)
            if before is None or pair.score > before.score:
                found[place] = pair
    population.pairs = [pair for _, pair in sorted(found.items()) if pair is not None]
    return population


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


def walk(choice: Choice, signed: SignedPages) -> Iterator[tuple[int, Entry, Verdicts, int, bytes, Trial]]:
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


def _dropped(place: int, drop: Recorded, places: Mapping[str, int], pages: Sequence[Entry]) -> Pair | None:
    earlier = places.get(drop.original or "")
    if earlier is None or earlier == place:
        return None
    score = 1.0 if drop.score is None else drop.score
    return Pair(earlier, place, DROPPED, score, drop.reason, _one_host(pages, earlier, place))


def _near_misses(
    end: Choice, signed: SignedPages, pages: Sequence[Entry], passed: set[int]
) -> Iterator[tuple[int, Pair]]:
    places = {page.page_id: place for place, page in enumerate(pages)}
    for place, _, verdicts, row, record, trial in walk(end, signed):
        original = verdicts.originals[row]
        if original is None or place not in passed:
            continue
        (matches,) = trial.matches(decode(record).signatures.part(row, row + 1))
        near = [(match.score, -places[match.entry.page_id]) for match in matches if places[match.entry.page_id] < place]
        score, earlier = max(near, default=(float(verdicts.score[row]), -places[original.page_id]))
        yield place, Pair(-earlier, place, PASSED, score, "", _one_host(pages, -earlier, place))


def _one_host(pages: Sequence[Entry], earlier: int, later: int) -> bool:
    return host_of(pages[earlier].url) == host_of(pages[later].url)
