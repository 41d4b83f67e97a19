"""Judges the micro-batches of a replay with the engine, and compares them with what is recorded."""

from collections import Counter
from collections.abc import Sequence

from spotsieve.state.index import CommitMark
from spotsieve.state.log.bodies import split_pages
from spotsieve.state.log.pages_body import MAX_MARKS
from spotsieve.state.log.record import FRAME_BYTES, NO_PAGES, encode, encode_forget, split
from spotsieve.stream.engine import Engine
from spotsieve.stream.kafka.topic.topic_checks import LOG_RECORD_BYTES
from spotsieve.stream.replay.comparison import Comparison, ReplayVerdict
from spotsieve.stream.replay.forgotten import ForgottenKeys
from spotsieve.stream.replay.order import ForgetEvent
from spotsieve.stream.replay.recorded import OUTCOME_OF_KIND, PageOutcome
from spotsieve.stream.replay.report import ReplayReport
from spotsieve.stream.service.pages.microbatch import BROKEN, REJECTED, TOMBSTONE, MicroBatch
from spotsieve.stream.service.replay.input import ReplayOrder
from spotsieve.stream.signature import Signatures
from spotsieve.stream.verdict import Kind, Reason, Verdicts, concatenate

_WRITER = bytes(16)


class ReplayJudge:
    """The engine over the replay's own state, and the report that it fills. Call it from one thread.

    No log holds the records that it applies; the state's position counts them.
    """

    def __init__(self, engine: Engine, report: ReplayReport) -> None:
        self._engine = engine
        self._report = report
        self._own = ForgottenKeys(report.order, report.comparison.recorded.places)
        self._sequence = 0

    def apply(self, batch: MicroBatch, turns: Counter[ReplayOrder], committed: Sequence[CommitMark] = ()) -> None:
        """Judge a signed micro-batch, and compare its verdicts.

        committed: the marks of the log since the micro-batch before. Only pages that are judged again are judged by
        them, so they may come after the pages.
        """
        engine, report = self._engine, self._report
        if batch.signatures is not None:
            parts: list[Verdicts] = []
            for part in split(batch.signatures, LOG_RECORD_BYTES):
                parts.append(self._apply(part))
                self._own.judged(part, engine.scheme)
            batch.verdicts = concatenate(parts)
        for first in range(0, len(committed), MAX_MARKS):
            self._apply(NO_PAGES, committed[first : first + MAX_MARKS])
        compare(batch, report.comparison)
        report.by_log += turns[ReplayOrder.BY_LOG]
        report.before += turns[ReplayOrder.BEFORE]
        report.beside += turns[ReplayOrder.BESIDE]
        report.after += turns[ReplayOrder.AFTER]
        report.again += turns[ReplayOrder.AGAIN]

    def _apply(self, signatures: Signatures, committed: Sequence[CommitMark] = ()) -> Verdicts:
        record = encode(signatures, _WRITER, self._sequence, self._engine.settings_digest, committed)
        self._sequence += 1
        return self._engine.apply(record, self._engine.state.position).verdicts

    def forget(self, forget: ForgetEvent) -> None:
        """Take the pages that the log forgets here out of the state."""
        engine = self._engine
        pages = self._own.pages(forget, engine.state)
        self._report.forgotten += len(pages)
        for part in split_pages(pages, LOG_RECORD_BYTES - FRAME_BYTES):
            record = encode_forget(part, _WRITER, self._sequence, engine.settings_digest)
            self._sequence += 1
            engine.apply(record, engine.state.position)


def compare(batch: MicroBatch, comparison: Comparison) -> None:
    """Compare each message of a judged micro-batch with what is recorded of it."""
    places = comparison.recorded.places
    for number, message in enumerate(batch.messages):
        place = places.of_page(message.topic, message.partition, message.offset)
        row = int(batch.rows[number])
        if row == TOMBSTONE:
            comparison.note_tombstone(place)
        elif row == BROKEN:
            comparison.note(place, "", ReplayVerdict(OUTCOME_OF_KIND[Kind.UNCHECKED], Reason.INTERNAL_ERROR.label))
        elif row == REJECTED:
            comparison.note(place, "", ReplayVerdict(PageOutcome.REJECTED, batch.rejections[number].reason.value))
        else:
            assert batch.verdicts is not None
            assert batch.signatures is not None
            url = batch.signatures.urls[row].decode("utf-8", "replace")
            comparison.note(place, url, _replayed(batch.verdicts, row))


def _replayed(verdicts: Verdicts, row: int) -> ReplayVerdict:
    kind, reason = Kind(verdicts.kind[row]), Reason(verdicts.reason[row]).label
    original = verdicts.originals[row]
    score = float(verdicts.score[row]) if original is not None else None
    return ReplayVerdict(OUTCOME_OF_KIND[kind], reason, original or verdicts.replaces[row], score)
