"""Runs backfills in this process. Readers and shards, which are Ray actors in production, can be lost here too."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files import check_inputs
from spotsieve.stream.local.backfill.outcomes import OutcomeStore
from spotsieve.stream.local.backfill.ray_cluster import fill_records
from spotsieve.stream.local.backfill.reader import Reader
from spotsieve.stream.local.backfill.rounds import Shards
from spotsieve.stream.local.backfill.run import Backfill
from spotsieve.stream.local.backfill.schedule import Call, LostReader
from spotsieve.stream.local.backfill.shard import RemoteShard, read_confirmed
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.frame import ColumnReader, RoundRange, range_of
from spotsieve.stream.sharding.records.shard import read_candidates, read_resolutions
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.worlds.pages.small_crawl import CRAWL
from tests.worlds.pages.warc_records import http, warc

Lose = Callable[[str, int], bool]
PAGES = [page for page in CRAWL if page.judgeable]


def write_inputs(directory: Path, form: str, files: int = 3) -> list[str]:
    """The small crawl in files of this form: jsonl, warc or parquet. The first jsonl file is not compressed."""
    names = list[str]()
    for number in range(files):
        pages = PAGES[number::files]
        plain = form == "parquet" or (form == "jsonl" and number == 0)
        name = directory / f"{number}.{form}{'' if plain else '.gz'}"
        bodies = [page.body.decode("utf-8", "replace") for page in pages]
        if form == "parquet":
            parquet.write_table(pa.table({"url": [page.url for page in pages], "body": bodies}), name)
        elif form == "warc":
            records = [warc(http(page.body), WARC_Target_URI=page.url) for page in pages]
            name.write_bytes(b"".join(gzip.compress(record) for record in records))
        else:
            lines = [json.dumps({"url": page.url, "body": body}) for page, body in zip(pages, bodies, strict=True)]
            content = "\n".join([*lines, "no page"]).encode()
            name.write_bytes(content if plain else gzip.compress(content))
        names.append(str(name))
    return names


@dataclass(slots=True)
class _Answer:
    """The response of a reader; result() raises a fault. late: how often ready() returns False first"""

    given: Any
    late: int = 0

    def ready(self) -> bool:
        self.late -= 1
        return self.late < 0

    def result(self) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


class OwnReaders:
    """Readers in this process.

    lose: called before each call with its method and input; True loses the reader at that call
    late: how often ready() of a call returns False
    """

    def __init__(
        self,
        settings: Settings,
        count: int = 2,
        batch_pages: int = 7,
        lose: Lose = lambda *_: False,
        late: int = 0,
    ) -> None:
        self.count, self.renewed = count, 0
        self._settings, self._batch_pages, self._late = settings, batch_pages, late
        self._readers: list[Reader | None] = [self._new() for _ in range(count)]
        self._lose = lose

    def _new(self) -> Reader:
        return Reader(self._settings, self._batch_pages)

    def call(self, reader: int, method: str, *arguments: object) -> Call:
        one = self._readers[reader]
        if one is None or self._lose(method, cast("int", arguments[0])):
            if one is not None:
                one.close()
            self._readers[reader] = None
            return _Answer(LostReader(), self._late)
        try:
            return _Answer(getattr(one, method)(*arguments), self._late)
        except Exception as error:
            return _Answer(error, self._late)

    def renew(self, reader: int) -> None:
        self._readers[reader] = self._new()
        self.renewed += 1

    def wait(self, calls: Sequence[Call], seconds: float) -> None:  # noqa: ARG002 - nothing takes time here
        assert calls, "nothing would ever come"

    def close(self) -> None:
        for reader in self._readers:
            if reader is not None:
                reader.close()


class OwnShards:
    """Shards in this process, which are passed everything as bytes."""

    def __init__(self, count: int, settings: Settings, state: State, log: LocalLog, outcomes: OutcomeStore) -> None:
        self.count = count
        self._shards = [RemoteShard(settings, Share(number, count)) for number in range(count)]
        entered = list(fill_records(log, outcomes, state.position))
        for shard in self._shards:
            shard.fill(entered)

    def find_candidates(self, round_: Round, record: bytes) -> list[ShardCandidates]:
        range_ = range_of(round_)
        self._record = record
        self._shard_candidates = [shard.find_candidates(record, range_, round_.excluded) for shard in self._shards]
        return [read_candidates(ColumnReader(one), range_.first_number) for one in self._shard_candidates]

    def confirm(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> list[ShardCandidates]:
        assert len(shard_candidates) == len(self._shard_candidates)
        range_ = range_of(round_)
        self._confirmations = [
            shard.confirm(self._record, range_, round_.excluded, *self._shard_candidates) for shard in self._shards
        ]
        return read_confirmed(self._shard_candidates, self._confirmations, range_.first_number)

    def resolve_hosts(
        self, round_: Round, shard_candidates: Sequence[ShardCandidates], speculation: NDArray[np.bool_]
    ) -> list[HostResolutions]:
        assert len(shard_candidates) == len(self._shard_candidates)
        range_ = range_of(round_)
        bodies = [*self._shard_candidates, *self._confirmations]
        resolutions = [
            shard.resolve_hosts(self._record, range_, round_.excluded, speculation, *bodies) for shard in self._shards
        ]
        return [read_resolutions(ColumnReader(one), range_.first_number)[0] for one in resolutions]

    def index(self, range_: RoundRange, outcome: bytes) -> None:
        for shard in self._shards:
            shard.index(self._record, range_, outcome)
            shard.index(self._record, range_, outcome)  # as when a call is repeated


def backfilled(
    names: Sequence[str],
    directory: Path,
    settings: Settings,
    shards: int = 1,
    stopped: Callable[[], bool] = lambda: False,
    lose: Lose = lambda *_: False,
    batch_pages: int = 7,
    late: int = 0,
    readers: int = 2,
    tell: Callable[[str], None] = lambda _: None,
) -> FilterSummary:
    """Start or continue a backfill of these files in a directory; returns its state, and the parts of each output."""
    outputs = {name: str(directory / name) for name in ("out", "verdicts", "rejected")}
    for name in outputs.values():
        Path(name).mkdir(parents=True, exist_ok=True)
    scheme = scheme_in_scope(settings)

    def make_shards(state: State, log: LocalLog, outcomes: OutcomeStore) -> Shards:
        return OwnShards(shards, settings, state, log, outcomes)

    own = OwnReaders(settings, readers, batch_pages, lose, late)
    with Backfill(directory / "state", settings, scheme, check_inputs(names), outputs) as backfill:
        backfill.open(lambda *_: None, None if shards == 1 else make_shards)
        try:
            return backfill.run(own, stopped, lambda _: None, tell)
        finally:
            own.close()


def verdict_rows(directory: Path) -> list[dict[str, object]]:
    """All verdicts of a backfill, in the order of the inputs, as lines of `filter --verdicts`."""
    rows = [row for part in sorted((directory / "verdicts").iterdir()) for row in parquet.read_table(part).to_pylist()]
    for row in rows:
        if row["replaces"] is None:
            del row["replaces"], row["replaced_url"]
    return rows


def logged_pages(directory: Path) -> int:
    """The number of pages in the log of a backfill."""
    log = LocalLog(directory / "state")
    try:
        return sum(len(decode(record).signatures) for _, record in log.read_from(0))
    finally:
        log.close()


def records_out(directory: Path) -> bytes:
    """The novel records of a backfill, unpacked."""
    parts = sorted((directory / "out").iterdir())
    if parts[0].suffix == ".parquet":
        return json.dumps([row for part in parts for row in parquet.read_table(part).to_pylist()]).encode()
    return b"".join(gzip.decompress(part.read_bytes()) if part.suffix == ".gz" else part.read_bytes() for part in parts)
