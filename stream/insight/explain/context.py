"""Explains the verdict on one page: finds the page, traces its verdict, and assembles the explanation.

Without a state, the pages before it in the files are judged in memory first, as the filter would judge them.
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
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Entry, Signatures, SignatureStatus, is_judged, page_id_text
from spotsieve.stream.base.verdict import Reason
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
from spotsieve.stream.insight.explain.trace import blocks_by_host, trace_page
from spotsieve.stream.judge import entry_of, policy_of
from spotsieve.stream.judge.by_host.containment import ALL_TEXT
from spotsieve.stream.local.engines import MemoryEngine
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.prepared_pages import pages_as_read

if TYPE_CHECKING:
    from spotsieve.stream.files.inputs import Input
    from spotsieve.stream.insight.explain.page_lookup import RecordedVerdict
    from spotsieve.stream.insight.explain.texts import TextPair

_MAX_NAMED = 5
_HOUR_MS = 3_600_000
_PARTIAL = (
    "Only a part of the page's payload could be decoded. It is compared by this part, teaches its host nothing, and is "
    "never the original of a page with other bytes."
)
_NO_ORIGINAL = "it is no longer an original"


@dataclass(frozen=True, slots=True)
class ExplainSubject:
    """The page to explain. page: its content, if available  source: where it was found"""

    signatures: Signatures
    page: Page | None
    source: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """The indexed pages to compare with.

    directory: of the state, "" for pages in memory  pages: number of indexed pages
    fingerprints: of its entries by entry number, if available
    """

    settings: Settings
    scheme: Scheme
    view: StateView
    clock: Clock
    directory: str
    pages: int
    fingerprints: dict[int, int] = field(default_factory=dict)


def subject_of(page: Page, scheme: Scheme, source: str) -> ExplainSubject:
    """The subject for a page whose content is available."""
    return ExplainSubject(scheme.sign([page]), page, source)


def find_subject(
    state: State, name: str, settings: Settings, recorded: "RecordedVerdict | None" = None
) -> ExplainSubject | StateEntry:
    """Find a page by URL, label or id: in the log of a state, or among its entries if it has no log of its own.

    recorded: its recorded verdict, for the error
    Raises NotFoundError, CorruptRecord, DamagedRecord.
    """
    logged = find_in_log(state.directory, state.progress.position, name)
    if logged is None:
        indexed = find_in_entries(state, name)
        if not indexed:
            rule = f"is not in this state: {_reasons_of_absence(state, settings, recorded)}"
            then = (
                "name a file with the page in --pages; `spotsieve topics save` writes one from the topic of a service"
            )
            raise NotFoundError("PAGE", rule, name, then)
        return indexed[-1]
    if not logged.pages:
        then = "give the URL or id as the filter wrote it, or the page's file with --pages"
        raise NotFoundError("PAGE", "is not in the log of this state", name, then)
    last, notes = logged.pages[-1], list[str]()
    if len(logged.pages) > 1:
        others = ", ".join(page_id_text(*page.page_id) for page in reversed(logged.pages[:-1][-_MAX_NAMED:]))
        notes.append(f"The log has {len(logged.pages)} pages with this name. This is the last one; others: {others}.")
    record = logged.forgotten.get(last.page_id)
    if record is not None:
        notes.append(f"Record {record} of the log forgets the page: it is no longer an original.")
    notes += _outside_window(last.signatures, state.clock, settings)
    return ExplainSubject(last.signatures, None, f"record {last.record} of the log of {state.directory}", tuple(notes))


def explain(
    name: str,
    subject: ExplainSubject,
    context: ExplainContext,
    files: "Sequence[Input]" = (),
    recorded: "RecordedVerdict | None" = None,
    other_number: int | None = None,
    texts: Sequence[Page] = (),
) -> Explanation:
    """Explain the verdict on a page.

    files: files with the content of the page and of the other page
    other_number: entry number of the page to show beside it; None for its original or else the nearest candidate
    texts: more pages whose content is available
    Raises InputError, StateError.
    """
    settings, page = context.settings, subject.page
    trace = trace_page(
        subject.signatures,
        context.scheme,
        _view_of(context, subject.signatures),
        settings.index.candidate_limit,
        policy_of(settings),
        () if other_number is None else (other_number,),
        context.fingerprints,
    )
    other = _other_page(trace, other_number)
    own = entry_of(subject.signatures, 0)
    wanted = [own] * (page is None) + ([other.entry] if other is not None else [])
    found = _find_pages(wanted, chain(_pages_of(files, settings), texts))
    page = page or found.get(own)
    pair = _texts(page, found.get(other.entry) if other is not None else None, other, context, trace)
    partial = [_PARTIAL] if subject.signatures.status[0] == SignatureStatus.PARTIAL else []
    notes = [*subject.notes, *partial, *_notes(trace, other, pair, bool(files), settings)]
    facts = SubjectFacts(name, own.id, own.url, time_text(own.event_time_ms), subject.source)
    return Explanation(facts, _comparison(context, trace), recorded, other, pair, {}, tuple(notes))


def explain_entry(
    name: str, indexed: StateEntry, context: ExplainContext, recorded: "RecordedVerdict | None" = None
) -> Explanation:
    """Describe the entry of a page whose content and signature are not available."""
    entry, parts = indexed.entry, indexed.parts
    facts = {"entry": f"{indexed.number} of {context.pages} indexed pages", "features": f"{parts.feature_count}"}
    if parts.own is not None:
        facts["distinct"] = (
            f"{len(parts.own.blocks)} blocks and {len(parts.own.sample)} sampled shingles of distinctive text when it "
            f"was indexed; {len(parts.own.titles)} words in its title"
        )
    source = f"entry {indexed.number} of {context.directory}"
    subject = SubjectFacts(name, entry.id, entry.url, time_text(entry.event_time_ms), source)
    notes = ["An entry has no keys. Give the page's file with --pages to see its candidates and the texts."]
    if indexed.number < context.clock.floor:
        start = _window_start(context.clock, context.settings)
        notes.insert(0, f"The page was indexed before {start}, the start of the deduplication window: {_NO_ORIGINAL}.")
    return Explanation(subject, _comparison(context, None), recorded, None, None, facts, tuple(notes))


def _comparison(context: ExplainContext, trace: JudgeTrace | None) -> ComparisonContext:
    return ComparisonContext(context.scheme.name, context.directory, context.pages, trace)


def _view_of(context: ExplainContext, signatures: Signatures) -> StateView:
    """The live part of the state at the page's time."""
    step = step_of(context.settings.index.horizon_hours)
    if not step:
        return context.view
    time = max(int(signatures.event_time_ms[0]), context.clock.watermark_ms)
    return LiveView(context.view, context.clock.moved(time, step, context.view.entry_count).floor)


def _other_page(trace: JudgeTrace, number: int | None) -> CandidatePage | None:
    """The page to show beside the subject: the one with this entry number, the original, or the nearest candidate."""
    if number is not None:
        return next(page for page in trace.candidates if page.number == number)
    return trace.original or next(iter(trace.nearest), None)


def _pages_of(files: "Sequence[Input]", settings: Settings) -> Iterable[Page]:
    """All pages of files. Raises InputError."""
    if not files:
        return ()
    # Reading files takes 0.1 s to import, and a page in a state needs none.
    from spotsieve.stream.files.reader import pages_of

    return pages_of(files, settings.input)


def _find_pages(wanted: Sequence[Entry], pages: Iterable[Page]) -> dict[Entry, Page]:
    """The content of these entries among `pages`: the page with the same id, or else the last one with the same URL."""
    found, by_id = dict[Entry, Page](), set[Entry]()
    for page in pages if wanted else ():
        for entry in wanted:
            same_id = has_name(page, entry.page_id)
            if same_id or (entry not in by_id and (has_name(page, entry.url) or has_name(page, entry.label))):
                found[entry] = page
                by_id.update([entry] * same_id)
    return found


def _texts(
    page: Page | None, other: Page | None, shown: CandidatePage | None, context: ExplainContext, trace: JudgeTrace
) -> "TextPair | None":
    """Both texts, as far as they are available. shown: the entry of the other page"""
    if page is None:
        return None
    from spotsieve.stream.insight.explain.texts import read_pair

    part, other_blocks = None if shown is None else shown.part, None
    blocks = None if trace.host is None else trace.host.blocks
    if other is not None:
        signatures, policy = context.scheme.sign([other]), policy_of(context.settings)
        other_blocks = blocks_by_host(signatures, context.scheme, context.view, policy)
    decides = ALL_TEXT if part is None else part.part
    read = pages_as_read(context.scheme, [page] if other is None else [page, other])
    return read_pair(read[0], (*read, None)[1], context.settings.scheme, decides, blocks, other_blocks)


def _notes(
    trace: JudgeTrace, other: CandidatePage | None, texts: "TextPair | None", searched: bool, settings: Settings
) -> list[str]:
    """Full sentences that qualify the figures."""
    notes = list[str]()
    reason = Reason(int(trace.verdicts.reason[0]))
    original = trace.original
    if original is not None and not original.accepted and reason is not Reason.EXACT:
        notes.append(
            "This is the verdict that the page had when it was judged. With today's template text of its host it would "
            "be novel."
        )
    if trace.verdicts.cut[0]:
        notes.append(
            f"The page has more than {trace.limit} candidates (index.candidate_limit): only the earliest count."
        )
    if texts is None or (other is not None and texts.other is None):
        pages = "either page" if texts is None else "the other page"
        then = "The files of --pages do not have it" if searched else "Give its file with --pages to see the texts"
        notes.append(f"A state has signatures but no pages, so the text of {pages} is not shown. {then}.")
    if settings.policy.variants == "keep":
        notes.append("policy.variants = keep: pages of one host that differ only in numbers are not duplicates.")
    return notes


def _reasons_of_absence(state: State, settings: Settings, recorded: "RecordedVerdict | None") -> str:
    """Why a state without a log of its own does not have a page: its recorded verdict, or else the possible reasons."""
    if recorded is not None and recorded.original:
        url = f" ({recorded.original_url})" if recorded.original_url else ""
        return f"it was dropped ({recorded.reason}) as a copy of {recorded.original}{url}"
    forgotten = count_forgotten(state)
    reasons = ["it was dropped"]
    reasons += [f"forgotten on request ({forgotten:,} pages were)"] if forgotten else []
    if settings.index.horizon_hours and state.clock.floor:
        reasons.append(f"indexed before the deduplication window starts at {_window_start(state.clock, settings)}")
    return f"{', '.join(reasons)}, or never sent"


def _window_start(clock: Clock, settings: Settings) -> str:
    """The event time at which the deduplication window starts, and its length."""
    hours = settings.index.horizon_hours
    return f"{time_text(clock.marks[0].step * step_of(hours))} (index.horizon_hours = {hours:g})"


def _outside_window(signatures: Signatures, clock: Clock, settings: Settings) -> list[str]:
    hours = settings.index.horizon_hours
    if not hours or not clock.marks:
        return []
    age = (clock.watermark_ms - int(signatures.event_time_ms[0])) / _HOUR_MS
    if age <= hours:
        return []
    watermark = time_text(clock.watermark_ms)
    note = f"The page is {age:,.0f} hours older than the watermark of the state, {watermark}, and outside"
    return [f"{note} the deduplication window (index.horizon_hours = {hours:g}): {_NO_ORIGINAL}."]


def context_before(
    name: str, files: "Sequence[Input]", settings: Settings, scheme: Scheme
) -> tuple[Page, ExplainContext]:
    """Judge the pages of files in order, up to the first page with this name; -> this page, and the context before it.

    Raises NotFoundError, InputError.
    """
    before = list[Page]()
    engine = MemoryEngine(settings, scheme)
    for page in _pages_of(files, settings):
        if has_name(page, name):
            _judge(engine, before)
            return page, context_of(engine, settings)
        before.append(page)
        if len(before) == settings.service.batch_pages:
            _judge(engine, before)
            before = []
    raise NotFoundError("PAGE", "is not in the files of --pages", name, "give a URL or id as these files have it")


def context_after(page: Page | None, settings: Settings, scheme: Scheme) -> ExplainContext:
    """The context after judging this page in memory, if there is one."""
    engine = MemoryEngine(settings, scheme)
    if page is None:
        return context_of(engine, settings)
    signatures = engine.engine.scheme.sign([page])
    for _ in engine.judge_signed(signatures):
        pass
    known = {0: int(signatures.fingerprint[0])} if is_judged(signatures.status)[0] else {}
    return replace(context_of(engine, settings), fingerprints=known)


def context_of(engine: MemoryEngine, settings: Settings) -> ExplainContext:
    """The context of an engine in memory."""
    state = engine.engine.state
    return ExplainContext(settings, engine.engine.scheme, state, state.clock, "", engine.entry_count)


def _judge(engine: MemoryEngine, pages: Sequence[Page]) -> None:
    if pages:
        for _ in engine.judge_signed(engine.engine.scheme.sign(pages)):
            pass
