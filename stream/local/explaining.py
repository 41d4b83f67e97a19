"""Explains pages of files without a state: those before a page are judged in memory first, as the filter would."""

from collections.abc import Sequence
from dataclasses import replace

from spotsieve.stream.errors import NotFoundError
from spotsieve.stream.explain.asking import ExplainContext
from spotsieve.stream.explain.finding import has_name
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import pages_of
from spotsieve.stream.local.memory_engine import MemoryEngine
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.signature import SignatureStatus


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
