"""Finds the pairs that can be reviewed: every dropped page with its original, every near miss with its nearest page.

A near miss is a page that passed and that the scheme drops at an end of its threshold's range (Threshold.swept), where
it is loosest. Its nearest page is the most similar earlier page that is let through there, or the original of that one
if it was dropped. So what a setting in between drops is in the population, and `spotsieve calibrate` can tell what that
is worth.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from spotsieve.state.log.record import decode
from spotsieve.stream.errors import InputError
from spotsieve.stream.evaluation.choices import Choice, over_its_threshold, single
from spotsieve.stream.evaluation.judging import SignedPages, signed_alike
from spotsieve.stream.evaluation.trial import Trial
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.hosts import host_of
from spotsieve.stream.labelling.review.recorded import VerdictLine
from spotsieve.stream.models.counting import batches_of
from spotsieve.stream.page import Page
from spotsieve.stream.progress import OnPages
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.signature import Entry
from spotsieve.stream.verdict import Reason, Verdicts

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
