"""The default scheme from page to verdict: what it finds in every script, on one host and across, and why."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import AUTHOR_PATHS
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import Signatures, SignatureStatus
from spotsieve.stream.base.urls import host_of, owner_reader, url_without_visit
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    BLOCK_TAG,
    DIGEST_TAG,
    KEY_BITS,
    KEY_MASK,
    MINIMA_TAG,
    TITLE_TAG,
)
from spotsieve.stream.sign.schemes import UNCAPPED
from spotsieve.stream.sign.schemes.identity import hash_hosts
from spotsieve.stream.sign.schemes.probes import mixed_with_host
from spotsieve.stream.sign.schemes.spotsieve import BLOCK_CAP, FEW_KEYS, MOST_KEYS, SOME_KEYS, SpotsieveScheme
from tests.fixtures.pages.spotsieve_pages import (
    PATHS,
    SCHEME,
    STORIES,
    judged,
    language_of,
    newspaper,
    page,
    portal,
    shop,
)
from tests.reference.host_memory import without_visit
from tests.reference.packed_text import text_of
from tests.reference.remembering import heaviest

ENGLISH, OTHER = STORIES["English", 1], STORIES["English", 2]
HERE, THERE = "https://www.herald.example/a/1", "https://news.portal.example/story?id=7"
NOVEL = (Kind.NOVEL, Reason.NO_MATCH)
SHOP = "https://shop.example/"
GOODS = tuple(
    zip(("Copper kettle", "Oak bench", "Linen apron", "Brass lamp", "Wool blanket"), ENGLISH + OTHER, strict=False)
)


@pytest.mark.parametrize("language", PATHS)
def test_a_copy_in_another_template_is_found_in_all_languages_and_another_story_not(language: str) -> None:
    one, two = ([" ".join(STORIES[language, number])] for number in (1, 2))
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
    assert min(found[1].score, found[3].score) >= SpotsieveSettings().min_containment


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
    assert found[2] == (Kind.DUPLICATE, Reason.CONTAINED, 0, 1.0)
    assert found[3][:3] == (Kind.DUPLICATE, Reason.CONTAINED, 0)
    assert 0.85 < found[3].score < 1


def test_a_copy_with_words_changed_cut_or_added_is_found() -> None:
    text = [*ENGLISH, *OTHER]
    changed = [paragraph.replace("the ", "every ", 1) for paragraph in text]
    edits = [text, changed, [*text, *STORIES["French", 1][:1]], text[:7], text[:6]]
    # each on a host of its own: what a host has on more than two pages is its template
    copies = [page(1 + n, f"https://{n}.example/", newspaper(edit, "Elsewhere")) for n, edit in enumerate(edits)]
    found = judged([page(0, HERE, newspaper(text)), *copies])
    assert [verdict.original for verdict in found] == [None, *[0] * len(edits)]
    # What is cut is missed by nobody: all of the copy is contained.
    assert [found[place].score for place in (1, 4, 5)] == [1, 1, 1]
    assert max(found[2].score, found[3].score) < 1


def test_a_copy_with_few_words_meets_its_twin_in_another_template() -> None:
    notice = ENGLISH[0]
    assert len(notice.split()) < 40
    found = judged([page(0, HERE, newspaper([notice])), page(1, THERE, portal([notice]))])
    assert found[1] == (Kind.DUPLICATE, Reason.CONTAINED, 0, 1.0)


def test_there_is_no_cliff_where_a_copy_has_a_few_words_fewer_than_its_twin() -> None:
    # Features of one kind for all lengths: 13 shingles still meet 12
    words = "We are closed on Monday because the roof of the old town hall is mended".split()
    pages = [page(n, HERE if n else THERE, f"<p>{' '.join(words[: len(words) - n])}</p>") for n in range(2)]
    assert SCHEME.sign(pages).feature_count.tolist() == [13, 12]
    assert judged(pages)[1][:3] == (Kind.DUPLICATE, Reason.CONTAINED, 0)


def test_a_page_of_another_host_must_contain_most_of_the_text() -> None:
    words, others = " ".join(ENGLISH).split(), " ".join(OTHER).split()
    for share, kind in ((0.5, Kind.NOVEL), (0.75, Kind.DUPLICATE)):
        most = round(len(words) * share)
        halves = [" ".join(words), " ".join([*words[:most], *others[: len(words) - most]])]
        pages = [page(n, (HERE, THERE)[n], f"<p>{half}</p>") for n, half in enumerate(halves)]
        assert judged(pages)[1].kind is kind, share


def test_a_page_beyond_judging_is_unchecked_with_a_reason_and_only_exact_copies_drop() -> None:
    bodies = [
        ("", True),
        ("GIF89a", False),
        ("<title>News</title><p>None today.</p>", True),
        ("<p>Gone for good.</p>", True),
    ]
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


# ---- on one host ----------------------------------------------------------------------------------------------------


def test_half_a_text_is_no_copy_on_one_host_or_on_two() -> None:
    original, half = page(0, HERE, newspaper(ENGLISH, "The old bridge")), newspaper(ENGLISH[:2] + OTHER[:2], "A strike")
    assert judged([original, page(1, THERE, half)])[1][:2] == NOVEL
    assert judged([original, page(1, "http://herald.example:8080/b", half)])[1][:2] == NOVEL


def test_pages_without_an_address_are_compared_as_pages_of_one_host() -> None:
    half = newspaper(ENGLISH[:2] + OTHER[:2], "A strike")
    assert judged([page(0, "", newspaper(ENGLISH, "The old bridge")), page(1, "", half)])[1][:2] == NOVEL
    copy = newspaper([*ENGLISH, "A last line."], "The old bridge")
    assert judged([page(0, "", newspaper(ENGLISH, "The old bridge")), page(1, "", copy)])[1][:2] == (
        Kind.DUPLICATE,
        Reason.CONTAINED,
    )


def test_titles_decide_between_two_texts_of_one_host_that_share_some() -> None:
    # 7 of 10 words shared: enough where the titles agree, and too few where they differ
    texts = [ENGLISH, [*ENGLISH[:-1], *OTHER[:1]]]
    known = [page(9 + n, f"{HERE}/k{n}", newspaper(STORIES[name, 1], name)) for n, name in enumerate(PATHS)]
    for titles, expected in (
        (("The old bridge is closed", "The old bridge is closed"), (Kind.DUPLICATE, 0)),
        (("The old bridge is closed", "A strike at the mill"), (Kind.NOVEL, None)),
    ):
        pages = [page(n, f"{HERE}/{n}", newspaper(texts[n], title)) for n, title in enumerate(titles)]
        found = judged([*(one for one in known if b"English" not in one.body), *pages])[-1]
        assert (found.kind, found.original) == expected, titles


def test_goods_of_a_shop_are_told_apart_from_its_first_page_on_and_a_copy_is_found() -> None:
    pages = [page(n, f"{SHOP}{n}", shop(name, n, text)) for n, (name, text) in enumerate(GOODS)]
    again = [page(100 + n, f"{SHOP}again/{n}", shop(name, n, text, "Offers")) for n, (name, text) in enumerate(GOODS)]
    found = judged([*pages, *again])
    assert [verdict[:2] for verdict in found[: len(GOODS)]] == [NOVEL] * len(GOODS)
    assert [verdict.original for verdict in found[len(GOODS) :]] == list(range(len(GOODS)))


def test_what_the_pages_of_a_host_share_is_no_reason_to_drop_the_next_one() -> None:
    # A notice longer than the text, on a host of which nothing is known, and where it is known as template text
    notice = " ".join(OTHER)
    known = [page(n, f"{HERE}/{n}", newspaper([notice, *STORIES[name, 1]], name)) for n, name in enumerate(PATHS)]
    two = [page(90 + n, f"{HERE}/x{n}", newspaper([notice, short], "Today")) for n, short in enumerate(ENGLISH[:2])]
    for before in ([], known):
        assert [verdict[:2] for verdict in judged([*before, *two])[-2:]] == [NOVEL] * 2


def test_a_page_that_comes_again_has_its_verdict_whatever_its_host_learned_since() -> None:
    notice, short = " ".join(3 * OTHER), [" ".join(text.split()[:12]) for text in ENGLISH[:2]]
    two = [page(90 + n, f"{HERE}/x{n}", newspaper([notice, text], "Today")) for n, text in enumerate(short)]
    then = [page(n, f"{HERE}/{n}", newspaper([notice, *STORIES[name, 1]], name)) for n, name in enumerate(PATHS)]
    for batch in (1, 7, 1_000):
        found = judged([*two, *then, *two, then[0]], batch=batch)
        assert (found[1].kind, found[1].original) == (Kind.DUPLICATE, 90)
        assert found[-2] == found[1]
        assert [found[place][:2] for place in (-3, -1)] == [(Kind.NOVEL, Reason.FIRST_ATTEMPT)] * 2
        # the same page under another id is judged by what is known now
        other = two[1]._replace(offset=500, body=two[1].body + b"<!-- again -->")
        assert judged([*two, *then, other], batch=batch)[-1].kind is Kind.NOVEL


def test_the_same_page_crawled_often_makes_nothing_its_host_s_template() -> None:
    bodies = [newspaper(ENGLISH, "The old bridge").replace("<p>", f"<p class='{n}'>") for n in range(30)]
    found = judged([page(n, f"{HERE}/{n}", body) for n, body in enumerate(bodies)])
    assert [verdict.original for verdict in found] == [None] + [0] * 29


def test_a_print_version_of_a_thin_page_is_found_on_its_host() -> None:
    whole = newspaper([ENGLISH[0]], "The old bridge is closed")
    bare = f"<html><head><title>The old bridge is closed</title></head><body><p>{ENGLISH[0]}</p></body></html>"
    found = judged([page(0, HERE, whole), page(1, f"{HERE}?print=1", bare)])
    assert (found[1].kind, found[1].original) == (Kind.DUPLICATE, 0)
    assert found[1].reason is Reason.CONTAINED


# ---- columns, keys, settings ----------------------------------------------------------------------------------------


def test_the_thresholds_are_the_settings() -> None:
    settings = SpotsieveSettings(template_share=0.1, min_containment=0.7, max_fresh_words=50)
    assert SpotsieveScheme(settings).host_thresholds == (0.1, 0.7, 50.0, False, False, False)
    texts = [ENGLISH, [*ENGLISH[:-1], *OTHER[:1]]]
    pages = [page(n, (HERE, THERE)[n], newspaper(texts[n])) for n in range(2)]
    high = SpotsieveSettings(min_containment=0.95)
    assert [judged(pages, chosen)[1].kind for chosen in (None, high)] == [Kind.DUPLICATE, Kind.NOVEL]
    few = SpotsieveSettings(max_fresh_words=10)
    assert judged(pages, few)[1].kind is Kind.NOVEL


def test_a_judged_page_has_blocks_samples_title_and_site_and_others_have_none() -> None:
    body = newspaper(ENGLISH, "The bridge, the bridge and 7 walkers")
    bodies = [body, "<title>Gone for good</title><p>Gone.", "", body]
    signed = SCHEME.sign([page(n, HERE, text, judgeable=n != 3) for n, text in enumerate(bodies)])
    assert signed.status.tolist() == [
        SignatureStatus.FINGERPRINTED,
        SignatureStatus.TOO_FEW_FEATURES,
        SignatureStatus.EMPTY,
        SignatureStatus.NOT_TEXT,
    ]
    assert np.diff(signed.titles_bounds).tolist() == [5, 0, 0, 0]
    assert (np.diff(signed.titles.astype(np.int64)) > 0).all()
    assert np.diff(signed.blocks_bounds)[1:].tolist() == [0, 0, 0]
    assert np.diff(signed.samples_bounds)[1:].tolist() == [0, 0, 0]
    text = text_of(signed, 0)
    assert sum(block.kept for block in text.blocks) >= len(ENGLISH), "every paragraph is a block of main text"
    assert {sample.place for sample in text.samples} == set(range(len(text.blocks)))
    assert len(set(signed.site.tolist())) == 1
    assert signed.site[0] != 0


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("https://www.a.example/~smith/papers/1.html", "a.example/~smith"),
        ("https://a.example/%7Esmith", "a.example/~smith"),
        ("http://A.example:81/%7esmith?page=2", "a.example/~smith"),
        ("https://a.example/~", "a.example"),
        ("https://a.example/~/x", "a.example"),
        ("https://a.example/users/smith/~x", "a.example/users/smith"),
        ("https://a.example/users/staff/smith/1", "a.example/users/staff/smith"),
        ("https://a.example/people/~smith/", "a.example"),
        ("https://a.example/?next=/~smith", "a.example"),
        ("https://a.example#/~smith", "a.example"),
        ("mailto:/~smith", ""),
        ("//~smith", "~smith"),
    ],
)
def test_the_owner_of_an_address(url: str, owner: str) -> None:
    assert owner_reader(["/~", "/users/", "/users/staff/"])(url) == owner
    assert owner_reader([])(url) == host_of(url)


@pytest.mark.parametrize(
    ("url", "of_all_visits"),
    [
        ("https://a.example/3?sid=5f0c", "https://a.example/3"),
        ("https://a.example/3?sid=5f0c&page=2", "https://a.example/3?page=2"),
        ("https://a.example/3?page=2&utm_source=b&UTM_medium=c", "https://a.example/3?page=2"),
        ("https://a.example/3;jsessionid=A1.b?page=2#top", "https://a.example/3?page=2"),
        ("https://a.example/3?a=1&fbclid=2&b=3", "https://a.example/3?a=1&b=3"),
        ("https://a.example/3?page=2", "https://a.example/3?page=2"),
        (
            "https://a.example/3?side=2&inside=4&id=5f0c5f0c5f0c5f0c",
            "https://a.example/3?side=2&inside=4&id=5f0c5f0c5f0c5f0c",
        ),
        ("https://a.example/sid=3", "https://a.example/sid=3"),
        ("https://a.example/3?sid", "https://a.example/3?sid"),
        ("#sid=3", ""),
        ("", ""),
    ],
)
def test_all_visits_to_a_page_share_an_address(url: str, of_all_visits: str) -> None:
    assert url_without_visit(url.encode()) == of_all_visits.encode()
    assert without_visit(url.encode()) == of_all_visits.encode()


def test_authors_of_one_host_have_hosts_of_their_own_and_one_site() -> None:
    urls = [
        "https://a.example/~smith/1",
        "https://www.a.example/~jones/",
        "https://a.example/",
        "https://b.example/~smith",
    ]
    signed = SCHEME.sign([page(number, url, "") for number, url in enumerate(urls)])
    assert len(set(signed.host.tolist())) == 4
    smith, jones, whole, other = signed.site.tolist()
    assert smith == jones == whole != other
    assert signed.host.tolist() == hash_hosts([page(0, url, "") for url in urls], owner_reader(AUTHOR_PATHS)).tolist()
    assert (
        len(set(SCHEME.with_policy(False, False, host_of).sign([page(0, url, "") for url in urls]).host.tolist())) == 2
    )


def keys_of(signed: Signatures, row: int) -> dict[int, list[int]]:
    """A page's keys by tag, without the tag."""
    probes = SCHEME.probe(signed)
    found: dict[int, list[int]] = {}
    for key in probes.keys[probes.bounds[row] : probes.bounds[row + 1]].tolist():
        found.setdefault(key >> KEY_BITS, []).append(key & int(KEY_MASK))
    return found


def pages_of_one_text(urls: Sequence[str]) -> list[Page]:
    return [page(n, url, newspaper(ENGLISH, "The old bridge")) for n, url in enumerate(urls)]


def test_a_page_is_filed_under_its_digest_its_minima_and_what_its_host_is_mixed_with() -> None:
    signed = SCHEME.sign(pages_of_one_text([HERE, f"{HERE}/other", THERE, ""]))
    mine, same, theirs, nobody = (keys_of(signed, row) for row in range(4))
    settings = SpotsieveSettings()
    assert set(mine) == {DIGEST_TAG, MINIMA_TAG, TITLE_TAG, BLOCK_TAG}
    assert mine == same
    assert [len(mine[tag]) for tag in (DIGEST_TAG, MINIMA_TAG, TITLE_TAG)] == [1, settings.minima, 1]
    for other in (theirs, nobody):
        # every host mixes its own
        assert other[DIGEST_TAG] == mine[DIGEST_TAG]
        assert sorted(set(other[MINIMA_TAG]) & set(mine[MINIMA_TAG])) == sorted(mine[MINIMA_TAG][: settings.minima])
        assert not set(other[TITLE_TAG]) & set(mine[TITLE_TAG])
        assert not set(other[BLOCK_TAG]) & set(mine[BLOCK_TAG])
    probes = SCHEME.probe(signed)
    tags = probes.keys >> np.uint64(KEY_BITS)
    assert probes.decisive.tolist() == (tags == DIGEST_TAG).tolist()
    caps = {int(tag): set(probes.cap[tags == tag].tolist()) for tag in set(tags.tolist())}
    assert caps == {
        DIGEST_TAG: {UNCAPPED},
        MINIMA_TAG: {settings.minima_cap},
        TITLE_TAG: {settings.minima_cap},
        BLOCK_TAG: {BLOCK_CAP},
    }


def test_the_heaviest_blocks_are_keys_and_the_fewer_the_longer_the_page_is() -> None:
    words = " ".join(word for texts in STORIES.values() for text in texts for word in text.split()).split()
    counts = []
    for length in (100, 200, 1_000):
        paragraphs = [" ".join(words[at : at + 9 + at % 7]) for at in range(0, length, 13)]
        signed = SCHEME.sign([page(0, HERE, newspaper(paragraphs))])
        found = keys_of(signed, 0)[BLOCK_TAG]
        identities = heaviest(text_of(signed, 0))
        assert len(found) < len(identities)
        expected = np.array(identities[: len(found)], np.uint64)
        assert found == mixed_with_host(expected, signed.host.repeat(len(found))).tolist()
        counts.append(len(found))
    assert counts == [MOST_KEYS, SOME_KEYS, FEW_KEYS]
    assert sorted(set(counts), reverse=True) == counts


def test_keys_are_of_different_identities_and_of_no_unlisted_blocks() -> None:
    rows = [f"Order number {number} of a long list of things to buy this week" for number in range(1_500)]
    texts = ["story of " + "".join(chr(97 + int(digit)) for digit in str(number)) for number in range(1_500)]
    for paragraphs in (rows, texts):
        signed = SCHEME.sign([page(0, HERE, "\n\n".join(paragraphs), markup=False)])
        assert len(signed.blocks) == 1024
        found, unlisted = (
            keys_of(signed, 0)[BLOCK_TAG],
            mixed_with_host(signed.blocks[-1:] >> np.uint64(24), signed.host),
        )
        assert len(found) == len(set(found)) == (1 if paragraphs is rows else FEW_KEYS)
        assert int(unlisted[0]) not in found


def test_a_page_without_a_title_or_a_fingerprint_has_no_key_of_one() -> None:
    signed = SCHEME.sign(
        [page(0, HERE, portal(ENGLISH)), page(1, HERE, "<title>Gone</title><p>Gone"), page(2, HERE, "")]
    )
    assert set(keys_of(signed, 0)) == {DIGEST_TAG, MINIMA_TAG, BLOCK_TAG}
    assert set(keys_of(signed, 1)) == {DIGEST_TAG}
    assert keys_of(signed, 2) == {}


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
    for name, value in (("min_containment", 0), ("max_fresh_words", -1), ("template_share", -0.1), ("minima", 0)):
        with pytest.raises(ValueError, match=name):
            SpotsieveSettings.model_validate({name: value})


def test_a_page_that_is_spared_has_no_keys_whatever_was_signed() -> None:
    signed = SCHEME.sign(pages_of_one_text(["https://a.example/1", "https://a.example/2"]))
    assert len(signed.blocks)
    assert len(signed.titles)
    excluded = dataclasses.replace(
        signed, status=np.array([SignatureStatus.FINGERPRINTED, SignatureStatus.EMPTY], np.uint8)
    )
    probes = SCHEME.probe(excluded)
    counts, both = np.diff(probes.bounds), np.diff(SCHEME.probe(signed).bounds)
    assert counts.tolist() == [both[0], 0]
    assert probes.keys.tolist() == SCHEME.probe(signed).keys[: both[0]].tolist()
