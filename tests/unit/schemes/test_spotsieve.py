"""The default scheme from page to verdict: what it finds in every script, what it lets through, and why."""

import numpy as np
import pytest

from spotsieve.stream.hosts import host_of
from spotsieve.stream.schemes import OTHER_HOST, REFUSED, UNCAPPED
from spotsieve.stream.schemes.identity import hash_hosts
from spotsieve.stream.schemes.spotsieve import MOST_PRESUMED, SpotsieveScheme
from spotsieve.stream.settings.schemes import SpotsieveSettings
from spotsieve.stream.signature import Compared, no_features
from spotsieve.stream.verdict import Kind, Reason
from tests.worlds.spotsieve_pages import PATHS, SCHEME, STORIES, judged, language_of, newspaper, page, portal

ENGLISH, OTHER = STORIES["English", 1], STORIES["English", 2]
HERE, THERE = "https://www.herald.example/a/1", "https://news.portal.example/story?id=7"
NOVEL = (Kind.NOVEL, Reason.NO_MATCH)
BARS = SpotsieveSettings(min_jaccard=0.3, same_host_min_jaccard=0.45, same_host_min_own=0.3, presumed_template=0.6)
ALIKE = SpotsieveSettings(same_host_min_own=0, presumed_template=0)


@pytest.mark.parametrize("language", PATHS)
def test_a_copy_in_another_template_is_found_in_all_languages_and_another_story_not(language: str) -> None:
    one, two = STORIES[language, 1], STORIES[language, 2]
    pages = [
        page(0, HERE, newspaper(one)),
        page(1, THERE, portal(one)),
        page(2, HERE, newspaper(two)),
        page(3, THERE, portal(two)),
    ]
    found = judged(pages)
    assert [(verdict.kind, verdict.original) for verdict in found] == [
        (Kind.NOVEL, None),
        (Kind.DUPLICATE, 0),
        (Kind.NOVEL, None),
        (Kind.DUPLICATE, 2),
    ]
    assert min(found[1].score, found[3].score) >= SpotsieveSettings().min_jaccard


@pytest.mark.parametrize("language", PATHS)
def test_real_text_of_a_language_takes_its_path_whatever_the_template_s_language(language: str) -> None:
    paths = [language_of(page(0, HERE, newspaper(STORIES[language, number]))) for number in (1, 2)]
    assert paths == [PATHS[language]] * 2


def test_same_bytes_same_text_and_edited_text_are_told_apart_with_their_scores() -> None:
    body = newspaper(ENGLISH)
    found = judged(
        [
            page(0, HERE, body),
            page(1, THERE, body),
            page(2, THERE, body.replace("<p>", "<!-- section --><p class='lead'>")),
            page(3, THERE, body.replace("closed", "<em>closed</em>").replace("two million", "2.4 million")),
        ]
    )
    assert found[0][:3] == (*NOVEL, None)
    assert found[1] == (Kind.DUPLICATE, Reason.EXACT, 0, 1.0)
    assert found[2] == (Kind.DUPLICATE, Reason.SAME_TEXT, 0, 1.0)
    assert found[3][:3] == (Kind.DUPLICATE, Reason.NEAR, 0)
    assert 0.85 < found[3].score < 1


def test_a_copy_with_words_changed_cut_or_added_is_found_with_a_falling_score() -> None:
    longer = [*ENGLISH, *STORIES["English", 2][:1]]
    edits = [ENGLISH, longer, ENGLISH[:3], ENGLISH[:2]]
    found = judged([page(0, HERE, newspaper(ENGLISH)), *(page(1 + n, THERE, portal(e)) for n, e in enumerate(edits))])
    assert [verdict.original for verdict in found] == [None, 0, 0, 0, 0]
    assert found[1].score > max(verdict.score for verdict in found[2:])


def test_a_copy_with_few_words_meets_its_twin_in_another_template() -> None:
    notice = "We are closed on Monday because the roof of the hall is mended."
    found = judged([page(0, HERE, newspaper([notice])), page(1, THERE, portal([notice]))])
    assert found[1][:3] == (Kind.DUPLICATE, Reason.SAME_TEXT, 0)


def test_there_is_no_cliff_where_a_copy_has_a_few_words_fewer_than_its_twin() -> None:
    # Features of one kind for all lengths: 11 shingles still meet 9
    words = "We are closed on Monday because the roof of the hall is mended".split()
    pages = [page(n, HERE if n else THERE, f"<p>{' '.join(words[: len(words) - 2 * n])}</p>") for n in range(2)]
    assert SCHEME.sign(pages).feature_count.tolist() == [11, 9]
    assert judged(pages)[1][:3] == (Kind.DUPLICATE, Reason.NEAR, 0)


def test_a_page_beyond_judging_is_unchecked_with_a_reason_and_only_exact_copies_drop() -> None:
    bodies = [("", True), ("GIF89a", False), (newspaper([]), True), ("<p>Gone for good.</p>", True)]
    pages = [page(n, HERE, body, judgeable=judgeable) for n, (body, judgeable) in enumerate(bodies)]
    again = [page(4 + n, THERE, body, judgeable=judgeable) for n, (body, judgeable) in enumerate(bodies)]
    found = judged([*pages, *again])
    assert [verdict[:3] for verdict in found] == [
        (Kind.UNCHECKED, Reason.EMPTY, None),
        (Kind.UNCHECKED, Reason.NOT_TEXT, None),
        (Kind.UNCHECKED, Reason.TOO_FEW_FEATURES, None),
        (Kind.UNCHECKED, Reason.TOO_FEW_FEATURES, None),
        (Kind.UNCHECKED, Reason.EMPTY, None),
        (Kind.DUPLICATE, Reason.EXACT, 1),
        (Kind.DUPLICATE, Reason.EXACT, 2),
        (Kind.DUPLICATE, Reason.EXACT, 3),
    ]


def test_the_least_number_of_features_is_a_setting() -> None:
    body = "<p>Gone for good today.</p>"
    assert judged([page(0, HERE, body)])[0][:2] == (Kind.UNCHECKED, Reason.TOO_FEW_FEATURES)
    assert judged([page(0, HERE, body)], SpotsieveSettings(min_features=2))[0][:2] == NOVEL


def test_two_pages_of_one_host_must_be_more_alike_than_pages_of_two_hosts() -> None:
    # Half of the text is the same: a shared template on one host, a trimmed copy between two
    original, half = page(0, HERE, newspaper(ENGLISH)), newspaper(ENGLISH[:2] + OTHER[:2])
    between = judged([original, page(1, THERE, half)], BARS)[1]
    on_one = judged([original, page(1, "http://herald.example:8080/b", half)], BARS)[1]
    assert between[:3] == (Kind.DUPLICATE, Reason.NEAR, 0)
    assert BARS.min_jaccard <= between.score < BARS.same_host_min_jaccard
    assert on_one[:2] == NOVEL


def test_pages_without_an_address_are_compared_as_pages_of_different_hosts() -> None:
    half = newspaper(ENGLISH[:2] + OTHER[:2])
    assert judged([page(0, "", newspaper(ENGLISH)), page(1, "", half)], BARS)[1].kind is Kind.DUPLICATE


@pytest.mark.parametrize(
    ("host", "distance", "sizes", "most_template", "shared"),
    [
        (0, 179, (100, 100), UNCAPPED, OTHER_HOST),  # J .301
        (0, 180, (100, 100), REFUSED, OTHER_HOST),  # J .297
        (0, 179, (100, 1000), UNCAPPED, OTHER_HOST),  # between hosts only J counts
        (1, 140, (100, 200), 45, 81),  # J .453: 93.6 of 206.4 shared; (93.6 - 45) / (206.4 - 45) = .3
        (1, 141, (100, 200), REFUSED, 81),  # J .449
        (1, 92, (100, 100), 59, 72),  # J .641: 78.1 of 121.9 shared; (78.1 - 59) / (121.9 - 59) = .3
        (1, 0, (100, 100), 100, 100),  # the same features, all of them template
        (1, 256, (100, 100), REFUSED, 0),  # J 0
    ],
)
def test_a_candidate_is_accepted_at_its_bars_and_not_one_bit_below(
    host: int, distance: int, sizes: tuple[int, int], most_template: int, shared: int
) -> None:
    sketch = np.zeros((1, 8), np.uint64)
    other = np.packbits(np.arange(512) < distance, bitorder="little").view(np.uint64).reshape(1, 8)
    hosts = np.array([host], np.uint64)
    one, two = (
        Compared(hosts, np.array([size], np.uint32), bits, np.zeros(1, np.uint32), *no_features(1))
        for size, bits in zip(sizes, (sketch, other), strict=True)
    )
    found = SpotsieveScheme(BARS).confirm(one, two)
    assert (found.most_template.tolist(), found.shared.tolist()) == ([most_template], [shared])
    assert found.score.tolist() == [pytest.approx(1 - 2 * distance / 512)]


def test_a_share_of_a_host_s_first_page_is_presumed_template_and_never_a_whole_page() -> None:
    hosts, nothing = np.array([5, 5, 5], np.uint64), np.zeros(3, np.uint32)
    rows = Compared(hosts, np.array([5, 100, 1000], np.uint32), np.zeros((3, 8), np.uint64), nothing, *no_features(3))
    presumed, most = SpotsieveScheme(BARS).template_limits(rows)
    assert (presumed.tolist(), most.tolist()) == ([3, 60, MOST_PRESUMED], [4, 90, 900])


def test_short_articles_in_a_wordy_template_are_told_apart_and_their_copies_found() -> None:
    words = " ".join([*ENGLISH, *STORIES["French", 1]]).split()
    own = [" ".join(words[start : start + 40]) for start in (0, 40, 80)]
    texts = [[*OTHER, text] for text in (*own, f"{own[1]} That was all.")]
    found = judged([page(number, f"{HERE}/{number}", newspaper(text)) for number, text in enumerate(texts)])
    assert [(verdict.kind, verdict.original) for verdict in found[:3]] == [(Kind.NOVEL, None)] * 3
    assert found[3][:3] == (Kind.DUPLICATE, Reason.NEAR, 1)
    # their Jaccard alone would not tell them apart
    between = judged([page(number, f"{THERE}/{number}", newspaper(texts[number])) for number in (1, 2)], ALIKE)[1]
    assert between.kind is Kind.DUPLICATE
    assert between.score > SpotsieveSettings().same_host_min_jaccard


def test_pages_of_a_host_meet_its_first_page_even_where_they_share_no_phrase_with_it() -> None:
    pages = [page(n, f"{HERE}/{n}", newspaper(STORIES[name, 1])) for n, name in enumerate(PATHS)]
    probes = SCHEME.probe(SCHEME.sign(pages))
    keys = probes.keys[probes.cap == 1]
    assert len(keys) == len(pages)
    assert len(set(keys.tolist())) == 1
    assert set(probes.cap.tolist()) == {1, SpotsieveSettings().minima_cap, UNCAPPED}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://www.Herald.example/a", "herald.example"),
        ("http://herald.example:8080", "herald.example"),
        ("http://herald.example.:80/a", "herald.example"),
        ("https://user:pass@www.herald.example/a@b", "herald.example"),
        ("//herald.example/a", "herald.example"),
        ("https://herald.example?q=//other.example", "herald.example"),
        ("https://herald.example#//x", "herald.example"),
        ("https:\\\\herald.example", ""),
        ("https://herald.example\\@evil.example/", "herald.example"),
        ("http://[2001:DB8::1]/a", "[2001:db8::1]"),
        ("http://[2001:db8::1]:8080/a", "[2001:db8::1]"),
        ("http://192.0.2.7:81/", "192.0.2.7"),
        ("https://www.bücher.example/", "xn--bcher-kva.example"),
        ("https://XN--BCHER-KVA.example/", "xn--bcher-kva.example"),
        ("http://例え.テスト/", "xn--r8jz45g.xn--zckzah"),
        (f"http://{'ü' * 80}.example/", f"{'ü' * 80}.example"),
        (" https://herald.example ", "herald.example"),
        ("/path?u=http://herald.example", ""),
        ("mailto:a@herald.example", ""),
        ("https://", ""),
        ("page 7", ""),
        ("", ""),
    ],
)
def test_the_host_of_an_address(url: str, host: str) -> None:
    assert host_of(url) == host


def test_a_page_without_host_has_hash_0_and_the_spellings_of_one_host_share_theirs() -> None:
    urls = ["", "mailto:x", "https://www.herald.example/1", "http://HERALD.example:81/2", "https://other.example"]
    none, mail, one, two, other = hash_hosts([page(n, url, "") for n, url in enumerate(urls)]).tolist()
    assert (none, mail) == (0, 0)
    assert one == two != 0
    assert other not in (0, one)


def test_a_setting_out_of_its_range_is_refused() -> None:
    for name, value in (("min_jaccard", 0), ("same_host_min_own", 1), ("sketch_bits", 100), ("minima", 0)):
        with pytest.raises(ValueError, match=name):
            SpotsieveSettings.model_validate({name: value})
