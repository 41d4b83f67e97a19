"""The steps of each role's loop, and a role that is killed (SIGKILL) or frozen (SIGSTOP) right after one of them.

    python -m tests.worlds.services.role_steps ROLE STEP N killed|frozen OPTION... -c CONFIG

runs `spotsieve run OPTION... -c CONFIG`. Arming works as in tests.worlds.services.killed_at.
"""

import signal
import sys
from pathlib import Path

from tests.worlds.services.killed_at import Killer, Point, armed_by

_PRODUCER, _REQUEST = "aiokafka:AIOKafkaProducer", "aiokafka.conn:AIOKafkaConnection.send"
_ROLES = "spotsieve.stream.service.roles"
_COMMIT = frozenset({"EndTxnRequest"})
SIGNALS = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}


def _step(name: str, about: str, function: str, requests: frozenset[str] = frozenset()) -> Point:
    return Point(name, about, function, function, requests)


STEPS: dict[str, tuple[Point, ...]] = {
    "worker": (
        _step(
            "fetched",
            "pages are fetched and cut into micro-batches",
            "spotsieve.stream.service.pages.fetcher:micro_batches",
        ),
        _step("signed", "a micro-batch is signed", "spotsieve.stream.service.worker:sign"),
        _step("appended", "its signatures are in the log", f"{_ROLES}.worker_log:WorkerLog.append"),
        _step("verdicts read", "a record of verdicts is taken in", f"{_ROLES}.worker_log:WorkerLog._hear"),
        _step("transaction begun", "nothing is sent in it yet", f"{_PRODUCER}.begin_transaction"),
        _step("outputs sent", "the outputs are acknowledged", "spotsieve.stream.service.pages.commit:deliver"),
        _step("offsets sent", "the transaction has the input offsets", f"{_PRODUCER}.send_offsets_to_transaction"),
        _step("commit asked", "its outcome is unknown", _REQUEST, _COMMIT),
        _step("committed", "the broker has acknowledged it", f"{_PRODUCER}.commit_transaction"),
    ),
    "shard": (
        _step("round cut", "a round is read from the log", f"{_ROLES}.shard.work:ShardWork.cut"),
        _step("answered", "its meetings are found, and not sent", f"{_ROLES}.shard.work:ShardWork.answer"),
        _step("answer sent", "its meetings, confirms or walks are in matches", f"{_ROLES}.shard.loop:ShardRole._say"),
        _step(
            "confirmed",
            "it knows what to say of entries, and has not sent it",
            f"{_ROLES}.shard.work:ShardWork.confirm",
        ),
        _step("walked", "the verdicts of its hosts are found, and not sent", f"{_ROLES}.shard.work:ShardWork.walk"),
        _step("outcome read", "the outcome is decoded, and not filed", f"{_ROLES}.told:Heard.outcome"),
        _step("worked out", "what is to be filed is known", f"{_ROLES}.shard.work:file"),
        _step("filed", "it is in the state", "spotsieve.state.store.state:State.file"),
    ),
    "resolver": (
        _step("chosen", "the group has chosen it", f"{_ROLES}.resolver.loop:ResolverElection.until_chosen"),
        _step("fenced", "the one before can publish no more", f"{_ROLES}.resolver.publication:Publisher.start"),
        _step("end found", "it knows where verdicts ends", f"{_ROLES}.resolver.loop:find_end"),
        _step("round cut", "the next round is cut, and not named", f"{_ROLES}.resolver.rounds:RoundPlanner.named"),
        _step("answers merged", "all shards have answered", f"{_ROLES}.resolver.work:ResolverWork.shard_candidates"),
        _step("resolved", "the outcome is known", f"{_ROLES}.resolver.work:ResolverWork.resolve_walks"),
        _step("transaction begun", "nothing is sent in it yet", f"{_PRODUCER}.begin_transaction"),
        _step("records sent", "one is on its way in the transaction", f"{_PRODUCER}.send"),
        _step("commit asked", "its outcome is unknown", _REQUEST, _COMMIT),
        _step("committed", "the broker has acknowledged it", f"{_PRODUCER}.commit_transaction"),
    ),
}
"""In the order of each role's loop. The first three of the resolver come once, when it takes over."""
ONCE = frozenset({"chosen", "fenced", "end found"})


def main(arguments: list[str]) -> int:
    """Patch the step, then run `spotsieve run`; returns its exit code."""
    from spotsieve.stream.cli import main as spotsieve

    role, name, count, how, *options = arguments
    point = {point.name: point for point in STEPS[role]}[name]
    assert point.exactly_once is not None
    Killer(point, int(count), armed_by(Path(options[-1])), SIGNALS[how]).patch(point.exactly_once)
    return spotsieve(["run", *options])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
