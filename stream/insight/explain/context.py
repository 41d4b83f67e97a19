"""Asks why: it finds a page in a state, has it judged and told about, and puts the explanation together.

Explains pages of files without a state: those before a page are judged in memory first, as the filter would.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from spotsieve.state.horizon import Clock, step_of
from spotsieve.state.index import LiveView, StateView
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import NotFoundError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings, Settings
from spotsieve.stream.base.signature import Entry, Signatures, SignatureStatus, page_id_text
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import pages_of
from spotsieve.stream.insight.explain.explanation import (
    CandidatePage,
    ComparisonContext,
    Explanation,
    JudgeTrace,
    SubjectFacts,
    time_text,
)
from spotsieve.stream.insight.explain.page_lookup import (
    StateEntry,
    count_forgotten,
    find_in_entries,
    find_in_log,
    has_name,
)
from spotsieve.stream.insight.explain.trace import trace_page
from spotsieve.stream.judge import policy_of
from spotsieve.stream.local.engines import MemoryEngine
from spotsieve.stream.sign.schemes import Scheme

if TYPE_CHECKING:
    from spotsieve.stream.insight.explain.page_lookup import RecordedVerdict
    from spotsieve.stream.insight.explain.texts import TextPair

_MOST_NAMED = 5
_HOUR_MS = 3_600_000
_LEFT = "it left with the horizon"


@dataclass(frozen=True, slots=True)
class ExplainSubject:
    """A page that is asked about. page: its bytes, if they are at hand  known_from: where it was found"""

    signatures: Signatures
    page: Page | None
    known_from: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """What a page is explained by. directory: of the state, "" for pages in memory  pages: that it knows

    fingerprints: of its entries, as far as they are at hand
    """

    settings: Settings
    scheme: Scheme
    view: StateView
    clock: Clock
    directory: str
    pages: int
    fingerprints: dict[int, int] = field(default_factory=dict)


def subject_of(page: Page, scheme: Scheme, known_from: str) -> ExplainSubject:
    """A page whose bytes are at hand."""
    return ExplainSubject(scheme.sign([page]), page, known_from)


def find_subject(state: State, name: str, settings: Settings) -> ExplainSubject | StateEntry:
    """Find a page by its address or id in the log of a state, or else among its entries.

    Raises NotFoundError, CorruptRecord, DamagedRecord.
    """
    logged = find_in_log(state.directory, state.progress.position, name)
    if logged is None:
        indexed = find_in_entries(state, name)
        if not indexed:
            rule = f"is no page that this state knows: {_ways_to_leave(state, settings)}"
            raise NotFoundError(
                "PAGE", rule, name, "give its file with --pages, or its line of the verdicts or duplicates"
            )
        return indexed[-1]
    if not logged.pages:
        then = "give the address or id as the filter wrote it, or the page's file with --pages"
        raise NotFoundError("PAGE", "is no page of this state's log", name, then)
    last, notes = logged.pages[-1], list[str]()
    if len(logged.pages) > 1:
        others = ", ".join(page_id_text(*page.page_id) for page in reversed(logged.pages[:-1][-_MOST_NAMED:]))
        notes.append(f"{len(logged.pages)} pages of the log have this name. This is the last; others: {others}.")
    record = logged.forgotten.get(last.page_id)
    if record is not None:
        notes.append(f"It was forgotten by record {record} of the log: it is no original any more.")
    notes += _outside_window(last.signatures, state.clock, settings)
    return ExplainSubject(last.signatures, None, f"record {last.record} of the log of {state.directory}", tuple(notes))


def explain(
    name: str,
    subject: ExplainSubject,
    judged: ExplainContext,
    files: "Sequence[Input]" = (),
    recorded: "RecordedVerdict | None" = None,
    beside: int | None = None,
    texts: Sequence[Page] = (),
) -> Explanation:
    """Explain the verdict of a page.

    files: where the texts of the page and of the one beside it are looked for  beside: the entry that it is shown
    beside, instead of its original or the nearest page  texts: pages at hand that it may be shown beside
    Raises InputError, StateError.
    """
    settings, page = judged.settings, subject.page
    view = _view_of(judged, subject.signatures)
    told = trace_page(
        subject.signatures,
        judged.scheme,
        view,
        settings.index.candidate_limit,
        policy_of(settings),
        () if beside is None else (beside,),
        judged.fingerprints,
    )
    other = _page_beside(told, beside)
    own = _entry_of(subject.signatures)
    wanted = [own] * (page is None) + ([other.entry] if other is not None else [])
    texts_of = _find_texts(wanted, chain(_pages_of(files, settings.input), texts))
    page = page or texts_of.get(own)
    pair = _texts(page, texts_of.get(other.entry) if other is not None else None, judged, told)
    notes = [*subject.notes, *_notes(told, other, pair, bool(files), settings)]
    asked = SubjectFacts(name, own.id, own.url, time_text(own.event_time_ms), subject.known_from)
    compared = ComparisonContext(judged.scheme.name, judged.directory, judged.pages, told)
    return Explanation(asked, compared, recorded, other, pair, {}, tuple(notes))


def explain_entry(
    name: str, indexed: StateEntry, judged: ExplainContext, recorded: "RecordedVerdict | None" = None
) -> Explanation:
    """Tell what the entry of a page holds, where neither its bytes nor its signature are at hand."""
    entry, parts = indexed.entry, indexed.parts
    facts = {"entry": f"{indexed.number} of {judged.pages} pages known", "features": f"{parts.feature_count}"}
    if parts.own is not None:
        facts["own text"] = (
            f"{len(parts.own.prints)} blocks were its own when it was filed; {parts.own.share / 255:.0%} of what it "
            f"keeps was template of its host; {len(parts.own.titles)} words in its title"
        )
    asked = SubjectFacts(
        name, entry.id, entry.url, time_text(entry.event_time_ms), f"entry {indexed.number} of {judged.directory}"
    )
    notes = ["An entry does not hold the keys of a page. Give its file with --pages to see what it met, and the texts."]
    if indexed.number < judged.clock.floor:
        notes.insert(
            0, f"It was filed before {_window_start(judged.clock, judged.settings)}, so {_LEFT} and is no original."
        )
    compared = ComparisonContext(judged.scheme.name, judged.directory, judged.pages, None)
    return Explanation(asked, compared, recorded, None, None, facts, tuple(notes))


def _view_of(judged: ExplainContext, signatures: Signatures) -> StateView:
    """The part of the state that a page of this time meets."""
    step = step_of(judged.settings.index.horizon_hours)
    if not step:
        return judged.view
    time = max(int(signatures.event_time_ms[0]), judged.clock.watermark_ms)
    return LiveView(judged.view, judged.clock.moved(time, step, judged.view.entry_count).floor)


def _page_beside(told: JudgeTrace, number: int | None) -> CandidatePage | None:
    """What the page is shown beside: the one that was named, its original, or else the nearest."""
    if number is not None:
        return next(page for page in told.met if page.number == number)
    return told.original or next(iter(told.nearest), None)


def _entry_of(signatures: Signatures) -> Entry:
    """A page of signatures, as an entry."""
    return Entry(
        signatures.sources[signatures.source[0]],
        int(signatures.partition[0]),
        int(signatures.offset[0]),
        int(signatures.event_time_ms[0]),
        signatures.urls[0].decode("utf-8", "replace"),
        signatures.labels[0].decode("utf-8", "replace"),
    )


def _pages_of(files: "Sequence[Input]", settings: InputSettings) -> Iterable[Page]:
    """All pages of files. Raises InputError."""
    if not files:
        return ()
    from spotsieve.stream.files.reader import pages_of

    return pages_of(files, settings)


def _find_texts(wanted: Sequence[Entry], pages: Iterable[Page]) -> dict[Entry, Page]:
    """The pages of entries among these: by page id, or else the last one of the same address."""
    found, sure = dict[Entry, Page](), set[Entry]()
    for page in pages if wanted else ():
        for entry in wanted:
            exactly = has_name(page, entry.page_id)
            if exactly or (entry not in sure and (has_name(page, entry.url) or has_name(page, entry.label))):
                found[entry] = page
                sure.update([entry] * exactly)
    return found


def _texts(page: Page | None, other: Page | None, judged: ExplainContext, told: JudgeTrace) -> "TextPair | None":
    if page is None:
        return None
    from spotsieve.stream.insight.explain.texts import read_pair

    return read_pair(page, other, judged.settings.scheme, told.host.prints if told.host else None)


def _notes(
    told: JudgeTrace, other: CandidatePage | None, texts: "TextPair | None", searched: bool, settings: Settings
) -> list[str]:
    """What a person should know beside the figures."""
    notes = list[str]()
    reason = Reason(int(told.verdicts.reason[0]))
    original = told.original
    if original is not None and not original.accepted and reason is not Reason.EXACT:
        notes.append("The verdict is the one that the page had. By what its host has taught since, it would be novel.")
    if told.verdicts.cut[0]:
        notes.append(f"It met more than {told.limit} candidates (index.candidate_limit): only the earliest count.")
    if texts is None or (other is not None and texts.other is None):
        which = "either page" if texts is None else "the other page"
        how = "The files of --pages do not hold it" if searched else "Give its file with --pages to see the texts"
        notes.append(f"A state holds signatures and no pages, so the text of {which} is not shown. {how}.")
    if settings.policy.variants == "keep":
        notes.append("policy.variants = keep: pages of one host that differ in numbers alone are no copies.")
    return notes


def _ways_to_leave(state: State, settings: Settings) -> str:
    """Why a state without a log of its own may not have a page, with what the state still tells of each way."""
    forgotten = count_forgotten(state)
    ways = ["dropped"]
    ways += [f"forgotten by request, as {forgotten:,} were"] if forgotten else []
    if settings.index.horizon_hours and state.clock.floor:
        ways.append(f"filed before {_window_start(state.clock, settings)}, so that {_LEFT}")
    return f"{', '.join(ways)}, or never sent"


def _window_start(clock: Clock, settings: Settings) -> str:
    """The event time from which on a state with a horizon knows what it filed."""
    hours = settings.index.horizon_hours
    return f"{time_text(clock.marks[0].step * step_of(hours))} (index.horizon_hours = {hours:g})"


def _outside_window(signatures: Signatures, clock: Clock, settings: Settings) -> list[str]:
    hours = settings.index.horizon_hours
    if not hours or not clock.marks:
        return []
    past = (clock.watermark_ms - int(signatures.event_time_ms[0])) / _HOUR_MS
    if past <= hours:
        return []
    lies = f"Its time lies {past:,.0f} hours before the state's, {time_text(clock.watermark_ms)}"
    return [f"{lies}: {_LEFT} (index.horizon_hours = {hours:g}) and is no original any more."]


def context_before(
    name: str, files: Sequence[Input], settings: Settings, scheme: Scheme
) -> tuple[Page, ExplainContext]:
    """Judge the pages of files in their order, up to the first one of this name; -> it, and what is known before it.

    Raises NotFoundError, InputError.
    """
    before = list[Page]()
    engine = MemoryEngine(settings, scheme)
    for page in pages_of(files, settings.input):
        if has_name(page, name):
            _judge(engine, before)
            return page, context_of(engine, settings)
        before.append(page)
        if len(before) == settings.service.batch_pages:
            _judge(engine, before)
            before = []
    raise NotFoundError(
        "PAGE", "is in none of the files of --pages", name, "give an address or id as these files have it"
    )


def context_after(page: Page | None, settings: Settings, scheme: Scheme) -> ExplainContext:
    """Judge this page in memory, if there is one; -> what is known then."""
    engine = MemoryEngine(settings, scheme)
    if page is None:
        return context_of(engine, settings)
    signatures = scheme.sign([page])
    for _ in engine.judge_signed(signatures):
        pass
    known = {0: int(signatures.fingerprint[0])} if signatures.status[0] == SignatureStatus.FINGERPRINTED else {}
    return replace(context_of(engine, settings), fingerprints=known)


def context_of(engine: MemoryEngine, settings: Settings) -> ExplainContext:
    """What an engine in memory knows."""
    state = engine.engine.state
    return ExplainContext(settings, engine.engine.scheme, state, state.clock, "", engine.entry_count)


def _judge(engine: MemoryEngine, pages: Sequence[Page]) -> None:
    if pages:
        for _ in engine.judge_signed(engine.engine.scheme.sign(pages)):
            pass
