"""The verdicts that the service should give: the log, judged again in memory, record by record."""

import tomllib
from collections.abc import Collection, Iterable

import orjson
from aiokafka.structs import ConsumerRecord

from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import policy_of
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.worlds.brokers.topics import TopicSet, header

Verdict = tuple[str, str | None]
"""A verdict, and the id of the original or of the page that a novel page supersedes, if any."""


def settings_from(toml: str) -> Settings:
    """The settings of a test's TOML text."""
    return Settings.model_validate(tomllib.loads(toml))


def judge_again(toml: str, log: Iterable[ConsumerRecord], log_name: str) -> tuple[dict[str, Verdict], State]:
    """Page id -> its verdict, from the log alone.

    A page that is in the log twice must get the same verdict twice, except after a record that forgets it: then the
    later verdict counts, because the earlier one was never published.
    """
    state = memory_state()
    return judge_again_in(state, toml, log, log_name), state


def judge_again_in(state: State, toml: str, log: Iterable[ConsumerRecord], log_name: str) -> dict[str, Verdict]:
    """The same, in an empty state of the caller."""
    settings = settings_from(toml)
    engine = Engine(
        scheme_of(settings.scheme),
        state,
        settings.index,
        settings_digest(verdict_settings_text(settings)),
        log_name,
        policy_of(settings),
    )
    found, same = dict[str, Verdict](), set[str]()
    for record in log:
        applied = engine.apply(record.value or b"", record.offset)
        signatures = applied.record.signatures
        for row in range(len(signatures)):
            source = signatures.sources[signatures.source[row]]
            page = page_id_text(source, int(signatures.partition[row]), int(signatures.offset[row]))
            original = applied.verdicts.originals[row] or applied.verdicts.replaces[row]
            verdict = (Kind(applied.verdicts.kind[row]).name.lower(), original.id if original else None)
            assert page not in same or found[page] == verdict, f"{page} was judged twice, differently"
            found[page] = verdict
            same.add(page)
        if applied.record.forgotten:
            same.clear()
    return found


def verdicts_sent(topics: TopicSet) -> dict[bytes, list[Verdict]]:
    """Page key -> every verdict that a read_committed consumer finds in the outputs."""
    sent: dict[bytes, list[Verdict]] = {}
    for record in topics.read("novel"):
        kind = (header(record, "spotsieve-verdict") or b"").decode()
        replaced = header(record, "spotsieve-replaces")
        sent.setdefault(record.key, []).append((kind, replaced.decode() if replaced else None))
    for record in topics.read("duplicates"):
        sent.setdefault(record.key, []).append(("duplicate", orjson.loads(record.value)["duplicate_of"]["id"]))
    return sent


def check_verdicts_sent(topics: TopicSet, toml: str, keys: Collection[bytes]) -> None:
    """Check that each page has the verdict of the log's order, and under exactly_once only one."""
    sent = verdicts_sent(topics)
    assert sent.keys() == set(keys), "a page without a verdict"
    expected, _ = judge_again(toml, topics.read("log"), topics.names["log"])
    wrong = {key: sent[key] for key, page in ids_by_key(topics).items() if set(sent[key]) != {expected[page]}}
    assert not wrong, f"{len(wrong)} pages, such as {next(iter(wrong.items()))}"
    if settings_from(toml).service.guarantee == "exactly_once":
        doubled = {key: verdicts for key, verdicts in sent.items() if len(verdicts) > 1}
        assert not doubled, f"{len(doubled)} pages have two verdicts"


def ids_by_key(topics: TopicSet) -> dict[bytes, str]:
    """Page key -> page id, from the input topic."""
    return {record.key: page_id_text(record.topic, record.partition, record.offset) for record in topics.read("input")}
