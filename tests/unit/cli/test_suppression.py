"""What somebody can do who publishes first, to have another site's page dropped; and what stands against it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.page_text import HASH_SHIFT, IDENTITY_SHIFT
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.judge import Policy, judge
from spotsieve.stream.sign.fingerprints.permuted_tables import BARE_TAGS
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_in_scope, scheme_of
from tests.fixtures import filter_crawl
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.small_crawl import crawl_of_two_hosts
from tests.fixtures.pages.spotsieve_pages import STORIES, newspaper, page, portal

SCOPED = IndexSettings(scope="host")
GLOBAL = scheme_of(Settings().scheme)
PER_HOST = scheme_in_scope(Settings(index=SCOPED))
STORY = STORIES["English", 1]
VICTIM = page(1_000, "https://victim.example/1", newspaper(STORY))
RANDOM = np.random.default_rng(1)


def judged(scheme: Scheme, state: State, signed: Signatures) -> Verdicts:
    verdicts, index_update = judge(signed, scheme, state, 256, 256)
    state.file(index_update, state.position + 1, 0)
    return verdicts


def verdict_of(scheme: Scheme, state: State, one: Page) -> tuple[Kind, Reason, int | None]:
    found = judged(scheme, state, scheme.sign([one]))
    original = found.originals[0]
    return Kind(found.kind[0]), Reason(found.reason[0]), None if original is None else original.offset


def words(count: int, size: int) -> NDArray[np.uint64]:
    return RANDOM.integers(0, 2**64, (count, size), np.uint64)


def forged(victim: Signatures, count: int, first: int) -> Signatures:
    """Signatures of an attacker's pages, like the victim's but for its digests and its host."""
    columns: dict[str, Any] = {
        name: np.repeat(getattr(victim, name), count, axis=0)
        for name in (
            "source",
            "partition",
            "event_time_ms",
            "fingerprint",
            "status",
            "feature_count",
            "text_digest",
            "language",
            "sketch",
            "site",
            "rank",
        )
    }
    for name in ("features", "blocks", "samples", "titles"):
        column = getattr(victim, name)
        columns |= {name: np.tile(column, count), f"{name}_bounds": np.arange(count + 1) * len(column)}
    return dataclasses.replace(
        victim,
        **columns | {"digest": words(count, 2), "host": words(count, 1)[:, 0]},
        offset=np.arange(first, first + count),
        urls=list(victim.urls) * count,
        labels=list(victim.labels) * count,
    )


def of_other_text(signed: Signatures) -> Signatures:
    """The same pages with random blocks and shingles: only MinHash values, titles and sizes stay."""

    def randomized(column: NDArray[np.uint64], shift: int) -> NDArray[np.uint64]:
        """The column with other bits from `shift` on."""
        low = np.uint64((1 << shift) - 1)
        return words(len(column), 1)[:, 0] & ~low | column & low

    blocks, samples = randomized(signed.blocks, IDENTITY_SHIFT), randomized(signed.samples, HASH_SHIFT)
    return dataclasses.replace(signed, blocks=blocks, samples=samples)


@pytest.mark.guarantee(
    "publishing first has another page dropped only with the text of that page",
    fault="every bucket of the victim is filled beforehand",
)
def test_filling_every_bucket_of_a_page_first_hides_only_its_copies_on_other_hosts() -> None:
    state = memory_state()
    victim = GLOBAL.sign([VICTIM])
    attack = of_other_text(forged(victim, 64, 0))
    assert (judged(GLOBAL, state, attack).kind == Kind.NOVEL).all()
    assert verdict_of(GLOBAL, state, VICTIM) == (Kind.NOVEL, Reason.NO_MATCH, None)
    # digests are met however full the other buckets are, and the victim still finds itself
    copy = VICTIM._replace(url="https://copy.example/1", offset=1_001)
    assert verdict_of(GLOBAL, state, copy) == (Kind.DUPLICATE, Reason.EXACT, 1_000)
    assert verdict_of(GLOBAL, state, VICTIM) == (Kind.NOVEL, Reason.FIRST_ATTEMPT, None)
    # keys of the victim's own host are mixed with it: nobody else fills their buckets
    edited = newspaper([*STORY, "One more line of the editor's own."])
    assert verdict_of(GLOBAL, state, page(1_002, "https://victim.example/2", edited)) == (
        Kind.DUPLICATE,
        Reason.CONTAINED,
        1_000,
    )
    # what is lost: on another host an edited copy has nothing but the full buckets to meet its original by
    assert verdict_of(GLOBAL, state, page(1_003, "https://copy.example/2", edited))[0] is Kind.NOVEL


@pytest.mark.guarantee(
    "publishing first has another page dropped only with the text of that page",
    fault="a stranger shows the victim's text and blocks on many pages of the stranger's host",
)
@pytest.mark.parametrize(
    ("attacker", "own"),
    [
        ("https://attacker.example/", "https://victim.example/"),
        ("https://shared.example/~attacker/", "https://shared.example/~victim/"),
        ("https://shared.example/", "https://shared.example/%7Evictim/"),
    ],
)
def test_only_pages_of_a_host_or_author_teach_what_its_template_is(attacker: str, own: str) -> None:
    elsewhere, here, victim = memory_state(), memory_state(), VICTIM._replace(url=f"{own}1")
    story = [page(n, "", newspaper([*STORY, text], str(n))) for n, text in enumerate("abcdefg")]
    for state, url in ((elsewhere, attacker), (here, own)):
        for one in story:
            verdict_of(PER_HOST, state, one._replace(url=f"{url}{one.offset}"))
    host = PER_HOST.sign([victim]).host
    assert elsewhere.memories(host).urls.tolist() == [0]
    assert here.memories(host).urls[0] > 0
    assert verdict_of(PER_HOST, elsewhere, victim) == (Kind.NOVEL, Reason.NO_MATCH, None)
    edited = page(1_002, f"{own}2", newspaper([*STORY, "One more line of the editor's own."]))
    assert verdict_of(PER_HOST, elsewhere, edited) == (Kind.DUPLICATE, Reason.CONTAINED, 1_000)


def random_words(count: int) -> str:
    letters = RANDOM.integers(97, 123, (count, 7), np.uint8)
    return " ".join(word.tobytes().decode() for word in letters)


@pytest.mark.guarantee(
    "publishing first has another page dropped only with the text of that page",
    fault="a stranger shows each of the victim's paragraphs on many hosts, under as many titles",
)
@pytest.mark.parametrize(
    ("address", "hosts", "copies"),
    [
        ("https://attacker{}.example/{}", 4, Kind.DUPLICATE),
        ("https://attacker{}.example/{}", 60, Kind.NOVEL),
        ("https://attacker.example/~{}/{}", 60, Kind.NOVEL),
    ],
    ids=["common text", "template text everywhere", "authors of one host"],
)
def test_text_on_many_hosts_makes_no_page_a_duplicate(address: str, hosts: int, copies: Kind) -> None:
    state = memory_state()
    for host in range(hosts):
        spread = [
            page(
                host * len(STORY) + place,
                address.format(host, place),
                newspaper([paragraph, random_words(200)], random_words(8)),
            )
            for place, paragraph in enumerate(STORY)
        ]
        assert (judged(GLOBAL, state, GLOBAL.sign(spread)).kind == Kind.NOVEL).all()
    assert verdict_of(GLOBAL, state, VICTIM) == (Kind.NOVEL, Reason.NO_MATCH, None)
    # what is lost: copies on other hosts, once the text counts as template text everywhere
    assert verdict_of(GLOBAL, state, page(1_002, "https://copy.example/1", portal(STORY)))[0] is copies


@pytest.mark.guarantee(
    "publishing first has another page dropped only with the text of that page",
    fault="crafted MinHash values and title, equal to the victim's",
)
def test_crafted_minhash_values_and_titles_make_only_a_candidate() -> None:
    state = memory_state()
    attack = of_other_text(forged(GLOBAL.sign([VICTIM]), 1, 0))
    judged(GLOBAL, state, attack)
    assert np.isin(GLOBAL.sign([VICTIM]).features, attack.features).all()
    assert verdict_of(GLOBAL, state, VICTIM) == (Kind.NOVEL, Reason.NO_MATCH, None)


def test_a_crafted_simhash_drops_the_page_where_nothing_but_the_simhash_is_compared() -> None:
    # chain, as published: 64 bits decide, and they can be made. The scope of a host is all that helps.
    chain = scheme_of(ChainSettings())
    per_host = scheme_in_scope(Settings(scheme=ChainSettings(), index=SCOPED))
    for scheme, kind in ((chain, Kind.DUPLICATE), (per_host, Kind.NOVEL)):
        state = memory_state()
        judged(scheme, state, forged(chain.sign([VICTIM]), 1, 0))
        assert verdict_of(scheme, state, VICTIM)[0] is kind


@pytest.mark.guarantee(
    "with index.scope = host no site can have a page of another site dropped",
    fault="the victim's whole text, or its whole signature",
)
def test_a_text_or_signature_published_first_is_met_globally_not_in_host_scope() -> None:
    copied = GLOBAL.sign([page(0, "https://attacker.example/", portal(STORY))])
    crafted = forged(GLOBAL.sign([VICTIM]), 1, 0)
    for attack in (copied, crafted):
        for scheme, kind in ((GLOBAL, Kind.DUPLICATE), (PER_HOST, Kind.NOVEL)):
            state = memory_state()
            judged(scheme, state, attack)
            assert verdict_of(scheme, state, VICTIM)[0] is kind


def test_even_whoever_finds_the_mixed_keys_of_another_host_is_refused() -> None:
    # all keys made equal, as if the mixing were broken: candidates are refused by their host
    class Unmixed:
        def __getattr__(self, name: str) -> object:
            return getattr(PER_HOST, name)

        def probe(self, signatures: Signatures) -> object:
            found = GLOBAL.probe(signatures)
            return dataclasses.replace(found, decisive=np.zeros(len(found.keys), np.bool_))

    state = memory_state()
    judged(Unmixed(), state, forged(GLOBAL.sign([VICTIM]), 1, 0))  # type: ignore[arg-type]
    found = judged(Unmixed(), state, GLOBAL.sign([VICTIM]))  # type: ignore[arg-type]
    assert found.kind[0] == Kind.NOVEL
    assert found.found_by[0] == 0


def test_addresses_cut_to_the_same_bytes_still_tell_hosts_and_pages_apart() -> None:
    start = "https://" + "a" * 3_000
    state = memory_state()
    pages = [
        page(0, f"{start}@one.example/", newspaper(STORY)),
        page(1, f"{start}@two.example/", newspaper(STORIES["English", 2])),
        page(2, f"{start}@two.example/", portal(STORY)),
    ]
    signed = PER_HOST.sign(pages)
    assert signed.host[0] != signed.host[1] == signed.host[2]
    assert [verdict_of(PER_HOST, state, one)[0] for one in pages] == [Kind.NOVEL] * 3


@pytest.mark.parametrize("name", SCHEMES)
def test_in_host_scope_each_page_has_the_verdict_that_its_host_alone_would_give_it(name: str) -> None:
    settings = Settings(scheme=settings_named(name), index=SCOPED)
    together, plain = scheme_in_scope(settings), scheme_of(settings.scheme)
    hosts = ("https://a.example/", "https://b.example/", "https://www.A.example:8080/", "mailto:nobody")
    crawl = crawl_of_two_hosts()
    some = [*crawl[:24], *crawl[-6:]]
    pages = [
        one._replace(url=hosts[(place // 3 + turn) % len(hosts)], offset=turn * len(some) + place)
        for turn in range(3)
        for place, one in enumerate(some)
    ]
    state = memory_state()
    found = [verdict_of(together, state, one) for one in pages]
    alone: dict[int, State] = {}
    expected = []
    for one in pages:
        host = int(together.sign([one]).host[0])
        expected.append(verdict_of(plain, alone.setdefault(host, memory_state()), one))
    assert found == expected
    assert len(alone) == 3
    assert {kind for kind, _, _ in found} == set(Kind)
    # and the same in one record
    batched, _ = judge(together.sign(pages), together, memory_state(), 256, 256)
    assert batched.kind.tolist() == [kind for kind, _, _ in found]


def test_mixing_with_a_host_keeps_the_keys_of_a_page_apart_and_their_tags() -> None:
    pages = [
        page(number, f"https://{number % 7}.example/", newspaper(story))
        for number, story in enumerate(STORIES.values())
    ]
    signed = PER_HOST.sign(pages)
    plain, mixed = GLOBAL.probe(signed), PER_HOST.probe(signed)
    assert (plain.keys >> np.uint64(56) == mixed.keys >> np.uint64(56)).all()
    assert not (mixed.keys == plain.keys).any()
    elsewhere = [one._replace(url=f"https://of.{number}.example/") for number, one in enumerate(pages)]
    assert not np.isin(mixed.keys, PER_HOST.probe(PER_HOST.sign(elsewhere)).keys).any()
    for row in range(len(pages)):
        keys = mixed.keys[mixed.bounds[row] : mixed.bounds[row + 1]]
        assert len(np.unique(keys)) == len(keys)
    bare = np.isin(plain.keys >> np.uint64(56), BARE_TAGS)
    assert (mixed.inline[bare] == 0).all()
    assert not (mixed.inline[~bare] == plain.inline[~bare]).any()


def test_a_filter_in_host_scope_keeps_a_page_of_each_and_refuses_a_global_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = ("one.example", "two.example", "one.example")
    crawl = tmp_path / "crawl.jsonl"
    pages = [
        filter_crawl.page(1, f"p{n}", note=str(n)) | {"url": f"https://{host}/{n}"} for n, host in enumerate(hosts)
    ]
    crawl.write_bytes(filter_crawl.lines(pages))
    verdicts = tmp_path / "verdicts.jsonl"
    for options, originals in (((), [None, "p0", "p0"]), (("--set", "index.scope=host"), [None, None, "p0"])):
        filter_crawl.filter_json(capsys, crawl, "--verdicts", verdicts, "--force", *options)
        assert [line["duplicate_of"] for line in filter_crawl.read_json(verdicts)] == originals
    filter_crawl.filter_json(capsys, crawl, "--state", tmp_path / "state")
    code, error = filter_crawl.refused(capsys, crawl, "--state", tmp_path / "state", "--set", "index.scope=host")
    assert (code, 'index.scope is "global" in the state and "host" in the configuration' in error) == (4, True), error


def test_a_stranger_s_longer_copy_replaces_a_page_globally_and_not_in_host_scope() -> None:
    longer = page(1_001, "https://stranger.example/1", newspaper([*STORY, *STORIES["English", 2][:2]]))
    for scheme, replaced in ((GLOBAL, VICTIM.offset), (PER_HOST, None)):
        verdicts, _ = judge(scheme.sign([VICTIM, longer]), scheme, memory_state(), 256, 256, Policy(1.2))
        assert verdicts.kind.tolist() == [Kind.NOVEL] * 2
        assert [entry and entry.offset for entry in verdicts.replaces] == [None, replaced]
