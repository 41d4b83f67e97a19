"""What every scheme must keep, whatever it compares pages by: one suite over all that are registered."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.state.log.record import decode, encode
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingsMismatch
from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.settings.digest import settings_digest, signing_text, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.signature import Signatures, SignatureStatus, candidate_columns
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.cli import main
from spotsieve.stream.engine import Engine, open_engine
from spotsieve.stream.judge import Policy, judge
from spotsieve.stream.judge.policy import ANY_BETTER, Preference, preferences_of_pages
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.fixtures.cpu_time import assert_cpu_below
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.small_crawl import CRAWL, THERE
from tests.fixtures.pages.spotsieve_pages import STORIES, newspaper, page
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.verdicts import Outcome, indexed, outcomes_of
from tests.reference.acceptance import CLAIMS, WITHOUT_CLAIM, originals_of
from tests.reference.signatures import assert_same

LIMITS = IndexSettings()
WORDS = " ".join(text for texts in STORIES.values() for text in texts)
HUGE = "<p>" + " ".join(f"{WORDS} and {turn}th" for turn in range(150))
UNJUDGED = {Reason.EMPTY, Reason.TOO_FEW_FEATURES, Reason.NOT_TEXT}
WITHOUT_LONGER_COPIES = {"imatch", "imatch-s"}
"""One digest of all terms: what has one word more is no copy."""
DIGEST = bytes(16)
schemes = pytest.mark.parametrize("name", SCHEMES)


def scheme_named(name: str) -> Scheme:
    """A scheme with its defaults, and a model where it needs one."""
    return scheme_of(settings_named(name))


def judged(
    scheme: Scheme, state: State, pages: Sequence[Page], sizes: Sequence[int] = (), cap: int = 256
) -> list[Outcome]:
    """Pages in micro-batches of these sizes, and the rest in one."""
    found: list[Outcome] = []
    remaining = list(pages)
    for size in (*sizes, len(pages)):
        batch, remaining = remaining[:size], remaining[size:]
        if batch:
            found += indexed(scheme, state, scheme.sign(batch), cap)
    return found


@schemes
def test_the_crawl_has_pages_of_every_verdict(name: str) -> None:
    found = judged(scheme_named(name), memory_state(), CRAWL)
    assert {kind for kind, *_ in found} == set(Kind)


@pytest.mark.guarantee(
    "no page is dropped as a duplicate of its own first attempt",
    fault="every page is submitted again, under every scheme",
)
@schemes
@pytest.mark.parametrize("sizes", [(), (1,) * len(CRAWL) * 2])
def test_a_page_that_comes_again_has_the_verdict_it_had_and_a_novel_one_says_why(
    name: str, sizes: tuple[int, ...]
) -> None:
    found = judged(scheme_named(name), memory_state(), [*CRAWL, *CRAWL], sizes)
    first, again = found[: len(CRAWL)], found[len(CRAWL) :]
    for (kind, reason, *rest), (kind_again, reason_again, *rest_again) in zip(first, again, strict=True):
        assert (kind, rest) == (kind_again, rest_again)
        assert reason_again is (Reason.FIRST_ATTEMPT if kind is Kind.NOVEL else reason)


@schemes
@pytest.mark.parametrize("sizes", [(), (1,) * len(CRAWL) * 2])
def test_a_copy_finds_the_page_that_was_let_through_and_not_one_word_is_missing(
    name: str, sizes: tuple[int, ...]
) -> None:
    copies = [one._replace(offset=one.offset + len(CRAWL)) for one in CRAWL]
    scheme, changed = scheme_named(name), 0
    found = judged(scheme, memory_state(), [*CRAWL, *copies], sizes)
    for place, ((kind, reason, original, _), copy) in enumerate(zip(found, found[len(CRAWL) :], strict=False)):
        if reason is Reason.EMPTY:
            assert copy[:3] == (Kind.UNCHECKED, Reason.EMPTY, None)
        elif kind is Kind.DUPLICATE and scheme.host_thresholds is not None and copy[2] != original:
            # Its bytes were not indexed, so it is judged by what its host has learned since
            changed += 1
        else:
            assert copy[0] is Kind.DUPLICATE
            assert copy[2] == (place if original is None else original)
            assert kind is Kind.DUPLICATE or copy[3] == 1.0
    assert changed <= 2, "mixtures of stories that by now stand on three pages of their host"


@schemes
def test_a_filtered_page_meets_none_and_is_no_original_not_even_of_its_own_bytes(name: str) -> None:
    one = next(page for page in CRAWL if len(page.body) > 1000)
    gone = one._replace(offset=len(CRAWL), judgeable=False, filtered=FilterReason.HTTP_STATUS)
    found = judged(scheme_named(name), memory_state(), [gone, one, gone._replace(offset=len(CRAWL) + 1)], (1, 1, 1))
    assert [verdict[:3] for verdict in found] == [
        (Kind.UNCHECKED, Reason.HTTP_STATUS, None),
        (Kind.NOVEL, Reason.NO_MATCH, None),
        (Kind.UNCHECKED, Reason.HTTP_STATUS, None),
    ]


@pytest.mark.guarantee(
    "batch sizes, timing and rebalances change no verdict", fault="the same pages in other batches, under every scheme"
)
@schemes
@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(1, 40), max_size=60),
    st.lists(st.integers(1, 40), max_size=60),
    st.permutations(CRAWL),
    st.sampled_from([2, 8, 256]),
)
def test_micro_batches_change_neither_verdicts_nor_state_in_any_order_of_pages(
    name: str, sizes: list[int], other_sizes: list[int], pages: list[Page], cap: int
) -> None:
    scheme, one, other = scheme_named(name), memory_state(), memory_state()
    assert judged(scheme, one, pages, sizes, cap) == judged(scheme, other, pages, other_sizes, cap)
    for state in (one, other):
        state.file(None, 1000, 0)
    assert first_difference(one, other) is None


@pytest.mark.guarantee(
    "with policy.keep = longest a page is dropped only for an emitted page that is not clearly shorter",
    fault="copies that grow, in any batches, each submitted twice, under every scheme",
)
@schemes
def test_with_the_longest_kept_a_page_replaces_what_it_outgrows_and_nothing_else(name: str) -> None:
    scheme, pages = scheme_named(name), growing_copies()
    signed, found = scheme.sign([*pages, *pages]), list[list[Outcome]]()
    for size in (1, 7, len(signed)):
        state, outcomes = memory_state(), list[Outcome]()
        for first in range(0, len(signed), size):
            part = signed.part(first, min(first + size, len(signed)))
            outcomes += indexed(scheme, state, part, policy=Policy(ANY_BETTER))
        found.append(outcomes)
    outcomes, again = found[0][: len(pages)], found[0][len(pages) :]
    assert found[0] == found[1] == found[2]
    assert again == [first_attempt(outcome) for outcome in outcomes]
    let_through = {place for place, (kind, *_) in enumerate(outcomes) if kind is not Kind.DUPLICATE}
    for place, (kind, reason, original, _) in enumerate(outcomes):
        if original is not None:
            assert original in let_through
            assert original < place
            longer = signed.feature_count[place] > signed.feature_count[original]
            assert longer == (kind is Kind.NOVEL and reason is Reason.LONGER)
    lengths = signed.feature_count.reshape(-1, len(pages) // 5)
    assert (lengths[2] >= lengths[0]).all(), "what has more text is longer"
    replacing = sum(reason is Reason.LONGER for _, reason, *_ in outcomes)
    assert bool(replacing) == (name not in WITHOUT_LONGER_COPIES)
    assert {Reason.NO_MATCH, Reason.NEAR} & {reason for _, reason, *_ in outcomes}


@pytest.mark.guarantee(
    "with policy.keep = newest, highest or lowest a page is dropped only for an emitted page that is as good",
    fault="copies of all ranks and of none, in any batches, each submitted twice, under every scheme",
)
@schemes
@pytest.mark.parametrize("preference", [Preference.TIME, Preference.RANK, Preference.LOW_RANK])
def test_with_the_best_kept_a_page_replaces_what_is_worth_less_and_nothing_else(
    name: str, preference: Preference
) -> None:
    scheme, ranks = scheme_named(name), (2.0, None, -1.0, 7.5, 2.0)
    pages = [
        one._replace(rank=ranks[turn], event_time_ms=1_000 + (5, 0, 3, 9, 5)[turn])
        for place, one in enumerate(growing_copies())
        for turn in [(place * 5 // 40 + place) % 5]
    ]
    signed, found = scheme.sign([*pages, *pages]), list[list[Outcome]]()
    for size in (1, 7, len(signed)):
        state, outcomes = memory_state(), list[Outcome]()
        for first in range(0, len(signed), size):
            part = signed.part(first, min(first + size, len(signed)))
            outcomes += indexed(scheme, state, part, policy=Policy(ANY_BETTER, preference=int(preference)))
        found.append(outcomes)
    outcomes, again = found[0][: len(pages)], found[0][len(pages) :]
    assert found[0] == found[1] == found[2]
    assert again == [first_attempt(outcome) for outcome in outcomes]
    preferences = preferences_of_pages(signed, int(preference)).own
    let_through = {place for place, (kind, *_) in enumerate(outcomes) if kind is not Kind.DUPLICATE}
    for place, (kind, reason, original, _) in enumerate(outcomes):
        if original is not None:
            assert original in let_through
            assert original < place
            better = preferences[place] > preferences[original]
            assert better == (kind is Kind.NOVEL and reason is Reason.BETTER)
    assert Reason.BETTER in {reason for _, reason, *_ in outcomes}
    assert Kind.DUPLICATE in {kind for kind, *_ in outcomes}


def growing_copies() -> list[Page]:
    """Stories in a template, and copies of them: 4 words more, 40 more, again 4, the same text elsewhere."""
    pages = list[Page]()
    for added in (0, 4, 40, 4, 0):
        for language in ("English", "German", "French", "Spanish"):
            for number in (1, 2):
                words = " Indeed, it was so. " + STORIES[language, 3 - number][0]
                *paragraphs, last = STORIES[language, number]
                body = newspaper([*paragraphs, last + " " + " ".join(words.split()[:added])])
                pages.append(page(len(pages), f"https://{number}.example/{len(pages)}", body))
    return pages


@schemes
def test_a_signature_is_the_same_alone_and_in_any_company(name: str) -> None:
    scheme = scheme_named(name)
    pages = [*CRAWL[:20], page(1000, THERE, HUGE), *CRAWL[-10:]]
    together = scheme.sign(pages[::-1])
    for place, one in enumerate(pages):
        alone, row = scheme.sign([one]), len(pages) - 1 - place
        assert columns_of(alone, 0) == columns_of(together, row)


def columns_of(signatures: Signatures, row: int) -> dict[str, object]:
    """What a page is compared and looked up by."""
    names = ("digest", "fingerprint", "status", "feature_count", "text_digest", "host", "language", "sketch", "site")
    return {name: getattr(signatures, name)[row].tolist() for name in names} | {
        name: getattr(signatures, name)[slice(*getattr(signatures, f"{name}_bounds")[row : row + 2])].tolist()
        for name in ("features", "blocks", "samples", "titles")
    }


@schemes
def test_states_in_memory_on_disk_and_rebuilt_from_the_log_are_equal_byte_for_byte(name: str, tmp_path: Path) -> None:
    scheme, cuts = scheme_named(name), [0, 1, 4, 40, 100, len(CRAWL)]
    records = [
        encode(scheme.sign(CRAWL[first:last]), bytes(16), number, DIGEST)
        for number, (first, last) in enumerate(pairwise(cuts))
    ]
    memory = memory_state()
    in_memory = applied(scheme, memory, records)
    with disk_state(tmp_path / "one", "{}", "log", LIMITS) as disk:
        assert applied(scheme, disk, records[:3]) == in_memory[: cuts[3]]
    with disk_state(tmp_path / "one", "{}", "log", LIMITS) as disk:
        assert applied(scheme, disk, records[3:], 3) == in_memory[cuts[3] :]
        assert first_difference(disk, memory) is None
        assert [first_attempt(outcome) for outcome in in_memory] == applied(scheme, disk, records)
        assert first_difference(disk, memory) is None
    with disk_state(tmp_path / "rebuilt", "{}", "log", LIMITS) as rebuilt:
        assert applied(scheme, rebuilt, records) == in_memory
        assert first_difference(rebuilt, memory) is None


def applied(scheme: Scheme, state: State, records: Sequence[bytes], offset: int = 0) -> list[Outcome]:
    """Records of the log, from this offset on, through the engine."""
    engine = Engine(scheme, state, LIMITS, DIGEST, "log")
    return [
        outcome
        for number, record in enumerate(records)
        for outcome in outcomes_of(engine.apply(record, offset + number).verdicts)
    ]


def first_attempt(outcome: Outcome) -> Outcome:
    """The outcome of the same page, submitted again."""
    kind, _, original, score = outcome
    return (kind, Reason.FIRST_ATTEMPT, original, score) if kind is Kind.NOVEL else outcome


@schemes
def test_signatures_pass_through_the_log_unchanged(name: str) -> None:
    signed = scheme_named(name).sign([*CRAWL, page(1000, THERE, HUGE)])
    assert_same(decode(encode(signed, bytes(16), 7, DIGEST)).signatures, signed)


@schemes
def test_the_log_and_the_entries_hold_a_page_in_little_more_than_its_signature(name: str) -> None:
    signed = scheme_named(name).sign([page(1000, THERE, HUGE)])
    features = 8 * len(signed.features) if scheme_named(name).compares_features else 0
    assert len(encode(signed, bytes(16), 7, DIGEST)) < 3_000 + features, "a signature is not the page"


@schemes
def test_empty_short_huge_and_binary_pages_have_a_verdict_with_its_reason(name: str) -> None:
    bodies: list[str | bytes] = ["", "word", HUGE, b"\xff\xfe" * 50, "<div>" * 50_000, "a" * 200_000]
    pages = [page(number, THERE, body) for number, body in enumerate(bodies)]
    pages.append(page(len(pages), THERE, "readable", judgeable=False))
    found = judged(scheme_named(name), memory_state(), pages, (1, 3))
    reasons = [reason for _, reason, *_ in found]
    assert reasons == [
        Reason.EMPTY,
        Reason.TOO_FEW_FEATURES,
        Reason.NO_MATCH,
        *[Reason.TOO_FEW_FEATURES] * 3,
        Reason.NOT_TEXT,
    ]
    assert all((kind is Kind.UNCHECKED) == (reason in UNJUDGED) for kind, reason, *_ in found)
    assert scheme_named(name).sign([]).offset.tolist() == []


@schemes
@pytest.mark.parametrize("bit", [0, 55, 64, 65, 127])
def test_digests_that_differ_in_one_bit_are_of_different_pages(name: str, bit: int) -> None:
    scheme, state = scheme_named(name), memory_state()
    signed = scheme.sign([page(0, THERE, "word")])
    assert [kind for kind, *_ in indexed(scheme, state, signed)] == [Kind.UNCHECKED]
    digest = signed.digest.copy()
    digest[0, bit // 64] ^= np.uint64(1 << bit % 64)
    for other, expected in ((digest, Kind.UNCHECKED), (signed.digest, Kind.DUPLICATE)):
        again = replace(signed, offset=signed.offset + 1, digest=other)
        assert [kind for kind, *_ in indexed(scheme, state, again)] == [expected]


@schemes
def test_a_page_is_a_copy_of_itself_by_the_scheme_s_own_comparison(name: str) -> None:
    scheme = scheme_named(name)
    signed = scheme.sign(CRAWL)
    rows = candidate_columns(signed, scheme.compares_features)
    probes = scheme.probe(signed)
    if probes.decisive.all() or scheme.host_thresholds is not None:
        return  # The judge compares the pages of a scheme with host memories.
    judgeable = rows.take(np.flatnonzero(signed.status == SignatureStatus.FINGERPRINTED))
    found = scheme.confirm(judgeable, judgeable)
    assert found.accepted.all()
    assert (found.score == 1).all()


@schemes
def test_every_page_with_keys_has_one_that_decides_and_none_twice(name: str) -> None:
    probes = scheme_named(name).probe(scheme_named(name).sign(CRAWL))
    for first, last in zip(probes.bounds, probes.bounds[1:], strict=False):
        assert last == first or probes.decisive[first:last].any()
        assert len(set(probes.keys[first:last].tolist())) == last - first


@pytest.mark.guarantee(
    "a published scheme finds exactly the pages that its paper calls copies",
    fault="none: brute force over signatures, under every scheme that claims it, with no bucket full",
)
@pytest.mark.parametrize(
    ("name", "share"), mostly_long([(name, share) for share in (4, 2, 1) for name in CLAIMS], len(CLAIMS))
)
def test_exactly_the_pages_that_the_paper_calls_copies_are_found(name: str, share: int) -> None:
    # Where no bucket is full and no page meets too many, search loses nothing: against brute force
    claim, most = CLAIMS[name], 65_536
    signed = claim.make(claim.pages // share, 5)
    verdicts, _ = judge(signed, scheme_named(name), memory_state(), most, most)
    found = [original.offset if original else -1 for original in verdicts.originals]
    expected = originals_of(signed, claim.accepts)
    assert 0.2 < np.mean(expected >= 0) < 0.8, "copies and novel pages, many of each"
    assert found == expected.tolist()


def test_every_scheme_is_held_to_its_claim_or_makes_none() -> None:
    missing = sorted(set(SCHEMES) - set(CLAIMS) - WITHOUT_CLAIM)
    assert missing == [], "add its claim to tests/reference/acceptance.py, or name it in WITHOUT_CLAIM"
    assert set(CLAIMS) | WITHOUT_CLAIM == set(SCHEMES)
    assert not set(CLAIMS) & WITHOUT_CLAIM


@schemes
def test_a_state_of_another_scheme_is_refused(name: str, tmp_path: Path) -> None:
    texts = {other: verdict_settings_text(Settings(scheme=settings_named(other))) for other in SCHEMES}
    assert len({settings_digest(text) for text in texts.values()}) == len(SCHEMES)
    index = IndexSettings(directory=tmp_path / "state")
    open_engine(Settings(scheme=settings_named(name), index=index), "log").state.close()
    other = next(one for one in SCHEMES if one != name)
    with pytest.raises(
        SettingsMismatch, match=f'scheme.name is "{name}" in the state and "{other}" in the conf'
    ) as refused:
        open_engine(Settings(scheme=settings_named(other), index=index), "log")
    assert str(refused.value).count("scheme.") == 1, "not every setting that the one has and the other not"


@schemes
def test_files_are_filtered_to_a_state_that_is_whole_and_goes_on(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_named(name).model_dump(mode="json")
    config, pages, state = tmp_path / "s.toml", tmp_path / "pages.jsonl", str(tmp_path / "state")
    config.write_text("[scheme]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    fields = [{"url": one.url, "body": one.body.decode("utf-8", "replace")} for one in CRAWL if one.judgeable]
    pages.write_text("".join(json.dumps({"content_type": "text/html", **one}) + "\n" for one in fields))
    summaries, verdicts = [], []
    for number, file in enumerate((pages, pages, tmp_path / "copies.jsonl")):
        (tmp_path / "copies.jsonl").write_bytes(pages.read_bytes())
        out = tmp_path / f"verdicts{number}.jsonl"
        assert main(["filter", str(file), "--state", state, "-c", str(config), "--json", "--verdicts", str(out)]) == 0
        summaries.append(json.loads(capsys.readouterr().out))
        verdicts.append([json.loads(line)["verdict"] for line in out.read_text().splitlines()])
    first, again, copies = summaries
    assert min(first["novel"], first["duplicate"]) > 0
    counted = ("novel", "duplicate", "unchecked", "state_entries")
    assert [again[one] for one in counted] == [first[one] for one in counted]
    assert verdicts[1] == verdicts[0]
    assert copies["state_entries"] == first["state_entries"] + copies["novel"]
    # where hosts are remembered, the copy of a page that was dropped is judged by what its host has learned since
    before = {was for was, now in zip(verdicts[0], verdicts[2], strict=True) if now == "novel"}
    assert before <= ({"duplicate"} if scheme_named(name).host_thresholds is not None else set())
    assert copies["novel"] <= 2
    assert main(["state", "verify", state]) == 0


@schemes
def test_a_scheme_names_its_threshold_with_values_that_change_verdicts(name: str) -> None:
    # What `score --sweep` tries: a new scheme's settings have `threshold: ClassVar = Threshold(...)`
    given = settings_named(name)
    threshold = type(given).threshold
    assert len(threshold.swept) > 4, "enough for a curve"
    assert list(threshold.swept) == sorted(threshold.swept)
    default = getattr(given, threshold.setting)
    assert all(getattr(given, other) == value for other, value in threshold.swept[default].items())
    found = []
    for value in (min(threshold.swept), max(threshold.swept)):
        other = threshold.at(given, value)
        scheme = scheme_of(other)
        found.append(judged(scheme, memory_state(), CRAWL))
        signs_alike = signing_text(other) == signing_text(given)
        assert signs_alike or name in ("imatch", "imatch-s"), "sweeps sign the pages once"
        if signs_alike:
            assert_same(scheme.sign(CRAWL), scheme_named(name).sign(CRAWL))
    assert found[0] != found[1]
    for value in threshold.swept:
        scheme_of(threshold.at(given, value))


@schemes
def test_signing_a_page_of_20_kb_takes_at_most_2_ms_of_cpu(name: str) -> None:
    text, scheme = " ".join(STORIES["English", 1] + STORIES["English", 2]).split(), scheme_named(name)
    bodies = [newspaper([" ".join(f"{word}{n % 7}" for word in text) for _ in range(30)]) for n in range(40)]
    pages = [page(n, THERE, body[:20_000]) for n, body in enumerate(bodies)]
    assert all(len(one.body) == 20_000 for one in pages)
    scheme.sign(pages)
    assert_cpu_below(0.002 * len(pages), lambda: scheme.sign(pages))
