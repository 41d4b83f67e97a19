"""Runs a replay: reads the range, the order of the log and the recorded verdicts, and judges every page again.

A replay writes only its own state and the output of --into. It has no consumer group, no commits and no transactions.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aiokafka.structs import ConsumerRecord

from spotsieve.state.index import CommitMark
from spotsieve.state.log.bodies import split_pages
from spotsieve.state.log.pages_body import MAX_MARKS
from spotsieve.state.log.record import FRAME_BYTES, NO_PAGES, encode, encode_forget, split
from spotsieve.stream.base.batches import FillLevel
from spotsieve.stream.base.errors import PageError, SettingError
from spotsieve.stream.base.progress import COMPILING, duration
from spotsieve.stream.base.settings.digest import describe_difference, settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts, concatenate
from spotsieve.stream.engine import Engine, open_engine
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.insight.replay.comparison import (
    OUTCOME_OF_KIND,
    Comparison,
    PageOutcome,
    RecordedOutcomes,
    ReplayVerdict,
)
from spotsieve.stream.insight.replay.input import OrderedInput, ReplayOrder
from spotsieve.stream.insight.replay.order import CommitMarks, ForgetEvent, ForgottenKeys, LogOrder, highest_marks
from spotsieve.stream.insight.replay.output import open_sink
from spotsieve.stream.insight.replay.range import Bound, RangePlaces, span
from spotsieve.stream.insight.replay.record import read_log, read_recorded
from spotsieve.stream.insight.replay.report import ReplayReport
from spotsieve.stream.kafka.ranges import RangeReader, Spans, partitions_of
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES, OUTPUT_ROLES, check_topic_names, topic_facts, topic_names
from spotsieve.stream.service.log.skips import first_record
from spotsieve.stream.service.pages.microbatch import POISON, REJECTED, TOMBSTONE, MicroBatch, message_bytes, sign
from spotsieve.stream.service.pages.outputs import OutputBuilder
from spotsieve.stream.sign.intake import Decoder

_WRITER = bytes(16)


class ReplayJudge:
    """Judges micro-batches with the replay's own state, and fills the report. Only one thread may call it.

    The records that it applies are in no log; the state's position counts them.
    """

    def __init__(self, engine: Engine, report: ReplayReport) -> None:
        self._engine = engine
        self._report = report
        self._forgotten_keys = ForgottenKeys(report.order, report.comparison.recorded.places)
        self._sequence = 0

    def apply(self, batch: MicroBatch, turns: Counter[ReplayOrder], committed: Sequence[CommitMark] = ()) -> None:
        """Judge a signed micro-batch, and compare its verdicts with the recorded ones.

        committed: commit marks of the log since the previous micro-batch. They affect only pages that are judged again,
        so they are applied after the pages.
        """
        engine, report = self._engine, self._report
        if batch.signatures is not None:
            parts: list[Verdicts] = []
            for part in split(batch.signatures, LOG_RECORD_BYTES):
                parts.append(self._apply(part))
                self._forgotten_keys.add(part, engine.scheme)
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
        """Forget the pages of a forget event in the replay's state."""
        engine = self._engine
        pages = self._forgotten_keys.pages(forget, engine.state)
        self._report.forgotten += len(pages)
        for part in split_pages(pages, LOG_RECORD_BYTES - FRAME_BYTES):
            record = encode_forget(part, _WRITER, self._sequence, engine.settings_digest)
            self._sequence += 1
            engine.apply(record, engine.state.position)


def compare(batch: MicroBatch, comparison: Comparison) -> None:
    """Compare the verdict on each message of a judged micro-batch with the recorded one."""
    places = comparison.recorded.places
    for number, message in enumerate(batch.messages):
        place = places.of_page(message.topic, message.partition, message.offset)
        row = int(batch.rows[number])
        if row == TOMBSTONE:
            comparison.note_tombstone(place)
        elif row == POISON:
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


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The parameters of a replay.

    recorded: settings of the service  judged: settings to judge with; broker and topics are always the service's
    directory: for the replay's own state  first, end: bounds of the range
    examples: most examples for each kind of difference
    into: file or topic:NAME for the replayed verdicts, or None
    """

    recorded: Settings
    judged: Settings
    directory: Path
    first: Bound | None = None
    end: Bound | None = None
    examples: int = 3
    into: str | None = None


class _StoppedError(Exception):
    """Signals that the user stopped the replay before it judged any page."""


class Replay:
    """One replay. say: called often with the progress as text"""

    def __init__(self, request: ReplayRequest, say: Callable[[str], None]) -> None:
        self._request = request
        self._settings = request.judged.model_copy(
            update={
                "kafka": request.recorded.kafka,
                "topics": request.recorded.topics,
                "index": request.judged.index.model_copy(update={"directory": request.directory}),
            }
        )
        reserved = [*topic_names(request.recorded.topics).values(), *topic_names(request.judged.topics).values()]
        self._sink = open_sink(request.into, self._settings, reserved)
        self._say = say
        self._decoder = Decoder(self._settings.input)
        self._undeliverable: Callable[[ConsumerRecord], PageError | None] = lambda _: None
        self._stopping = False

    def run(self) -> ReplayReport:
        """Judge the range again. The first SIGINT or SIGTERM ends it with a report of the pages compared so far.

        Raises SettingError (nothing to replay), StateError, BrokerError, BrokerTrouble.
        """
        name = self._settings.topics.input
        check_topic_names(self._settings)
        self._say(COMPILING)
        with ThreadPoolExecutor(1, "sign") as signing, ThreadPoolExecutor(1, "judge") as judging:
            engine = open_engine(self._settings, f"replay of {name}")
            try:
                compile_kernels(engine.scheme, self._say)
                return asyncio.run(self._run(engine, signing, judging))
            finally:
                engine.state.close()

    async def _run(self, engine: Engine, signing: ThreadPoolExecutor, judging: ThreadPoolExecutor) -> ReplayReport:
        self._stop_on_signals()
        topics = self._settings.topics
        facts = await topic_facts(self._settings, sorted(topic_names(topics).values()))
        if topics.input not in facts:
            raise SettingError(
                "topics.input", "does not exist on the broker", topics.input, "set it to the topic to replay"
            )
        spans = await self._range(facts[topics.input].partitions)
        places = RangePlaces(topics.input, [spans[at] for at in sorted(spans)])
        order, recorded = LogOrder(places), RecordedOutcomes(places)
        comparison = Comparison(recorded, self._request.examples)
        report = ReplayReport(comparison, order, topics.log)
        if self._sink is not None:
            await self._sink.start()
        complete = False
        try:
            log_digest = None
            if topics.log in facts:
                first = await first_record(self._settings)
                # Signatures that the log holds must compare with pages that are signed again.
                engine.adopt(first[1].log if first is not None else None)
                report.notices, log_digest = await read_log(self._settings, order, self._report_step)
            else:
                report.notices = [f"the log {topics.log} does not exist: all pages are judged by timestamp"]
            outputs = {role: facts[name] for role, name in topic_names(topics).items() if name in facts}
            if "novel" in outputs:
                # The service does not judge pages that its output cannot hold.
                builder = OutputBuilder(self._settings, dict.fromkeys(OUTPUT_ROLES, outputs["novel"]))
                self._undeliverable = builder.undeliverable
            report.notices += await read_recorded(self._settings, outputs, order, recorded, self._report_step)
            self._compare_settings(report, log_digest)
            await self._judge(engine, report, spans, signing, judging)
            complete = not report.interrupted
        except _StoppedError:
            report.interrupted = True
        finally:
            if self._sink is not None:
                report.notices += await self._sink.close(complete)
        return report

    def _stop_on_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self._stopping = True
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)  # a second signal ends the process at once

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)

    def _report_step(self, step: str, done: int, total: int) -> None:
        if self._stopping:
            raise _StoppedError
        self._say(f"{step}: {done:,} of {total:,}")

    async def _range(self, count: int) -> Spans:
        """The offsets to replay, by partition. Raises SettingError if the range is empty."""
        request, name = self._request, self._settings.topics.input
        partitions = partitions_of(name, count)
        for flag, bound in (("--from", request.first), ("--to", request.end)):
            unknown = sorted(set(bound.by_partition) - set(range(count))) if bound else []
            if unknown:
                raise SettingError(flag, f"must have partitions of {name!r}, 0 to {count - 1}", unknown, "correct it")
        step = f"looking at {name}"
        async with RangeReader(self._settings, {}, step, self._settings.kafka.isolation_level) as reader:
            ranges = await reader.held(partitions)
            times: dict[str, dict[int, int | None]] = {"first": {}, "end": {}}
            for which, bound in (("first", request.first), ("end", request.end)):
                if bound is not None and bound.time_ms is not None:
                    times[which] = await reader.offsets_at(partitions, bound.time_ms)
        spans = {at: span(at.partition, ranges[at], request.first, request.end, times) for at in partitions}
        if all(first == end for first, end in spans.values()):
            offsets = ", ".join(f"{at.partition}: {first} to {end}" for at, (first, end) in ranges.items())
            raise SettingError(
                f"topics.input {name!r}",
                f"has no messages in the range; it has these offsets: {offsets}",
                None,
                "choose another --from and --to",
            )
        return spans

    def _compare_settings(self, report: ReplayReport, log_digest: bytes | None) -> None:
        """Report settings that may change verdicts. log_digest: settings digest of the log"""
        service, judged = (verdict_settings_text(settings) for settings in (self._request.recorded, self._settings))
        report.settings = describe_difference(service, judged, "service's settings")
        if log_digest is not None and log_digest != settings_digest(service):
            report.notices.append(
                f"the log was written with other settings than those of -c (digest {log_digest.hex()} instead of "
                f"{settings_digest(service).hex()}), which may explain differences"
            )

    async def _judge(
        self,
        engine: Engine,
        report: ReplayReport,
        spans: Spans,
        signing: ThreadPoolExecutor,
        judging: ThreadPoolExecutor,
    ) -> None:
        """Judge all micro-batches, and sign the next one during each judgement."""
        loop = asyncio.get_running_loop()
        isolation = self._settings.kafka.isolation_level
        began = time.monotonic()
        total = sum(end - first for first, end in spans.values())
        judge = ReplayJudge(engine, report)
        async with RangeReader(self._settings, spans, "reading the input", isolation) as reader:
            # If nothing is forgotten, a repeated page gets the same verdict and changes nothing, unless its commit was
            # marked: then its pending verdict is deleted.
            again = bool(report.order.forgotten) or self._settings.index.horizon_hours > 0
            total += report.order.judged_again(again)
            ordered = OrderedInput(reader, report.order, report.comparison.recorded.places, again)
            previous: asyncio.Task[None] | None = None
            try:
                async for step in self._batches(ordered):
                    if isinstance(step, ForgetEvent):
                        if previous is not None:
                            await previous
                        await loop.run_in_executor(judging, judge.forget, step)
                        continue
                    batch, turns, committed = step
                    await loop.run_in_executor(signing, sign, batch, self._decoder, engine.scheme, self._undeliverable)
                    if previous is not None:
                        await previous
                    # An error in the loop does not cancel the task: its thread uses the state, which is closed next.
                    previous = asyncio.create_task(self._judge_signed(judge, batch, turns, committed, judging))
                    report.gone, report.seconds = reader.gone, time.monotonic() - began
                    self._say(_progress(report, total - reader.gone))
                if previous is not None:
                    await previous
            finally:
                if previous is not None:
                    with suppress(Exception):
                        await previous
        report.interrupted = self._stopping
        report.gone, report.seconds = reader.gone, time.monotonic() - began

    async def _judge_signed(
        self,
        judge: ReplayJudge,
        batch: MicroBatch,
        turns: Counter[ReplayOrder],
        committed: Sequence[CommitMark],
        judging: ThreadPoolExecutor,
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(judging, judge.apply, batch, turns, committed)
        if self._sink is not None and not turns[ReplayOrder.AGAIN]:
            await self._sink.write(batch)

    async def _batches(
        self, ordered: OrderedInput
    ) -> AsyncIterator[tuple[MicroBatch, Counter[ReplayOrder], Sequence[CommitMark]] | ForgetEvent]:
        """The messages in order, in micro-batches of the service's size, and the forget events between them.

        Verdicts do not depend on where batches end. Repeated messages have micro-batches of their own, which follow the
        commit marks before them.
        """
        level = FillLevel(self._settings.service.batch_pages, self._settings.service.batch_bytes)
        messages: list[ConsumerRecord] = []
        turns: Counter[ReplayOrder] = Counter()
        marks: dict[int, CommitMark] = {}
        async for step in ordered.steps():
            if self._stopping:
                break
            if isinstance(step, CommitMarks):
                marks = highest_marks([*marks.values(), *step.committed])
                ends = bool(turns[ReplayOrder.AGAIN])
            elif isinstance(step, ForgetEvent):
                ends = True
            else:
                turn_ends = (step[1] is ReplayOrder.AGAIN) != bool(turns[ReplayOrder.AGAIN])
                ends = turn_ends or not level.has_room(message_bytes(step[0]))
            if ends and (messages or marks):
                yield MicroBatch(messages, []), turns, tuple(marks.values())
                messages, turns, marks = [], Counter(), {}
                level.reset()
            if isinstance(step, CommitMarks):
                continue
            if isinstance(step, ForgetEvent):
                yield step
                continue
            message, turn = step
            messages.append(message)
            turns[turn] += 1
            level.add(message_bytes(message))
            if level.full:
                yield MicroBatch(messages, []), turns, tuple(marks.values())
                messages, turns, marks = [], Counter(), {}
                level.reset()
        if messages:
            yield MicroBatch(messages, []), turns, tuple(marks.values())


def _progress(report: ReplayReport, total: int) -> str:
    """A line such as "judging: 12,345 of 80,000 messages  1,020/s  31.4% dropped, 0:01:05 left"."""
    comparison = report.comparison
    done, seconds = comparison.messages + report.again, max(report.seconds, 1e-9)
    dropped = comparison.replayed[PageOutcome.DUPLICATE] / max(comparison.replayed.total(), 1)
    left = duration(seconds * max(total - done, 0) / done) if done else "?"
    return f"judging: {done:,} of {total:,} messages  {done / seconds:,.0f}/s  {dropped:.1%} dropped, {left} left"
