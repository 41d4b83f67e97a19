"""The page of `spotsieve review` in a real browser: every key, the export, a reload, hostile text, 1,000 pairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files import check_inputs
from spotsieve.stream.research.labelling.population import DROPPED, PASSED, Population, ReviewPair, draw
from spotsieve.stream.research.labelling.review_page import review_page
from spotsieve.stream.research.scoring.fresh_text import PageGrams, measure, words_of
from tests.fixtures.browser import Opened, browser, opened
from tests.fixtures.filter_crawl import lines

__all__ = ["browser"]
HOSTILE = (
    "</script><script>alert('ran')</script><img src=x onerror=\"alert('ran')\"> "
    "&lt;/script&gt;&lt;script&gt;alert('ran')&lt;/script&gt; &lt;!--&lt;script&gt; "
    "&lt;img src=https://stranger.example/x onerror=alert('ran')&gt; {{data}} \u2028"
)


def page(number: int, text: str, **more: str) -> dict[str, str]:
    body = f"<title>Page {number} of all</title><nav>Home News Sport</nav><h1>Page {number}</h1><p>{text}</p>"
    return {"id": f"p{number}", "url": f"https://site{number % 7}.example/{number}", "body": body, **more}


def story(number: int, words: int = 60) -> str:
    return " ".join(f"word{(number * 31 + place * 7) % 997}" for place in range(words))


def write_review(folder: Path, pairs: int, words: int = 60, last: str = "") -> Path:
    """A review of pages 2i and 2i + 1, every second pair a near miss."""
    crawl = folder / "crawl.jsonl"
    texts = [story(number // 2, words) + (" and more of its own" if number % 2 else "") for number in range(2 * pairs)]
    texts[-1] += last
    found = [page(number, text) for number, text in enumerate(texts)]
    if last:
        found[-1]["url"] = "javascript:alert('ran')"
        found[-1]["id"] = "</script><script>alert('ran')</script>"
    crawl.write_bytes(lines(found))
    population = Population(
        [one["id"] for one in found],
        [one["url"] for one in found],
        [
            ReviewPair(
                2 * n, 2 * n + 1, (DROPPED, PASSED)[n % 2], n / pairs, ("near", "")[n % 2], False, 30 * (n == 2), 60
            )
            for n in range(pairs)
        ],
        measure([PageGrams.of(words_of(one["body"])) for one in found], [None] * (2 * pairs)),
    )
    written = folder / "review.html"
    strata = draw(population, pairs, 0)
    written.write_bytes(review_page(check_inputs([str(crawl)]), Settings(), population, strata, 0))
    return written


def text_of(one: Opened, selector: str) -> str:
    found: str = one.page.inner_text(selector)
    return found


def strangers(one: Opened) -> list[str]:
    """The requests of a page beside itself and its own export."""
    own = one.page.url
    return [url for url in one.requests if url != own and not url.startswith(("blob:", "data:"))]


def reload(one: Opened) -> None:
    """Reload the page after a pause: chromium stores labels asynchronously, and a reload at once may read old ones."""
    one.page.wait_for_timeout(500)
    one.page.reload()


def exported(one: Opened, act: str = "e") -> list[dict[str, Any]]:
    with one.page.expect_download() as download:
        one.page.keyboard.press(act)
    assert download.value.suggested_filename == "labels.jsonl"
    return [json.loads(line) for line in Path(download.value.path()).read_text("utf-8").splitlines()]


def test_every_key_does_what_its_button_says_and_a_reload_loses_nothing(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write_review(tmp_path, 6)) as one:
        press = one.page.keyboard.press
        assert text_of(one, "#place") == "Pair 1 of 6"
        assert text_of(one, "#fresh") == (
            "By fresh text, without labels: 0 pages lost, 6 missed, 0 words gone, of 12 judged pages of the crawl"
        )
        assert text_of(one, "p.fresh") == "Lost? 30 of 60 words of its own text are fresh"
        assert one.page.locator("article").count() == 2
        assert one.page.locator("main mark").count() >= 2
        for key, label in (("c", "copy"), ("n", "no copy"), ("s", "skipped")):
            press(key)
            press("b")
            assert text_of(one, "#label") == label
            press("ArrowRight")
            assert text_of(one, "p.fresh") == "0 of 60 words of its own text are fresh"
        assert text_of(one, "#counts") == "3 judged: 1 copies, 1 no copies, 1 skipped"
        press("ArrowLeft")
        assert text_of(one, "#place") == "Pair 3 of 6"
        press("v")
        assert "score" in text_of(one, "#note")
        press("g")
        assert not one.page.locator("p.left-out").first.is_visible()
        press("g")
        assert one.page.locator("p.left-out").first.is_visible()
        press("Control+c")
        press("x")
        assert text_of(one, "#place") == "Pair 3 of 6"
        press("u")
        assert text_of(one, "#place") == "Pair 4 of 6"
        reload(one)
        assert text_of(one, "#place") == "Pair 4 of 6"
        assert text_of(one, "#counts").startswith("3 judged")
        for name in ("copy", "different", "skipped"):
            one.page.click(f"#{name}")
        assert "All pairs are judged" in text_of(one, "#note")
        head, *labels = exported(one)
        assert [label["label"] for label in labels] == ["copy", "different", "skipped"] * 2
        assert sum(stratum["pages"] for stratum in head["review"]["strata"]) == 6
        assert {label["stratum"] for label in labels} == {stratum["name"] for stratum in head["review"]["strata"]}
        press("b")
        press("n")
        assert [label["label"] for label in exported(one)[1:]][4] == "different"
        assert (one.messages, strangers(one)) == ([], [])


def test_labels_that_the_browser_cannot_store_stay_in_the_page(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write_review(tmp_path, 4)) as one:
        one.page.keyboard.press("c")
        one.page.evaluate(
            """() => { Storage.prototype.stored = Storage.prototype.setItem;
            Storage.prototype.setItem = () => { throw new DOMException("", "QuotaExceededError"); }; }"""
        )
        one.page.keyboard.press("n")
        one.page.keyboard.press("s")
        assert text_of(one, "#counts") == "3 judged: 1 copies, 1 no copies, 1 skipped"
        assert "cannot store labels" in text_of(one, "#note")
        assert [label["label"] for label in exported(one)[1:]] == ["copy", "different", "skipped"]
        one.page.evaluate("() => { Storage.prototype.setItem = Storage.prototype.stored; }")
        one.page.keyboard.press("C")  # with Caps Lock
        assert "cannot store labels" not in text_of(one, "#note")
        reload(one)
        assert text_of(one, "#counts") == "4 judged: 2 copies, 1 no copies, 1 skipped"


def test_a_title_and_a_url_show_their_controls_and_text_its_direction(browser: Any, tmp_path: Path) -> None:
    crawl, written = tmp_path / "crawl.jsonl", tmp_path / "review.html"
    urls = ["https://site1.example/\u202egnp.exe", "https://site2.example/\u202elmth.exe"]
    text = "\u05d4\u05d8\u05d7\u05e0\u05d4 " * 30
    body = f"<title>\u202eelt\x07it</title><p>{text}</p>"
    crawl.write_bytes(lines([{"id": f"p{number}", "url": url, "body": body} for number, url in enumerate(urls)]))
    population = Population(
        ["p0", "p1"], urls, [ReviewPair(0, 1, DROPPED, 1.0, "near", False)], measure([PageGrams.of([])] * 2, [None, 0])
    )
    written.write_bytes(review_page(check_inputs([str(crawl)]), Settings(), population, draw(population, 1, 0), 0))
    with opened(browser, written) as one:
        assert [link.inner_text() for link in one.page.locator("main a").all()] == [
            url.replace("\u202e", "\\u202e") for url in urls
        ]
        assert one.page.locator("main a").first.get_attribute("href") == urls[0]
        assert one.page.locator("h2").first.inner_text() == "\\u202eelt\\u0007it"
        assert one.page.locator("p.line").first.evaluate("line => getComputedStyle(line).direction") == "rtl"


def test_no_text_of_a_page_runs_or_loads_anything(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write_review(tmp_path, 1, last=HOSTILE)) as one:
        one.page.wait_for_timeout(200)
        shown = text_of(one, "main")
        assert "<img src=https://stranger.example/x onerror=alert('ran')>" in shown
        assert "</script><script>alert('ran')</script>" in shown
        assert one.page.locator("main img, main script, main a[href^='javascript']").count() == 0
        one.page.keyboard.press("c")
        assert exported(one)[1]["id_b"] == "</script><script>alert('ran')</script>"
        assert (one.messages, strangers(one)) == ([], [])
        # The page's own policy refuses what a fault of ours could let in.
        one.page.evaluate("document.body.insertAdjacentHTML('beforeend', `<img src=x onerror=\"alert('ran')\">`)")
        one.page.wait_for_timeout(100)
        assert len(one.messages) >= 2
        assert [line for line in one.messages if "Content Security Policy" not in line] == []


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 25, 28)")])
def test_it_is_light_or_dark_as_the_system_is_and_fits_a_narrow_window(
    browser: Any, tmp_path: Path, scheme: str, ground: str
) -> None:
    window = {"width": 360, "height": 640}
    with opened(browser, write_review(tmp_path, 2), color_scheme=scheme, viewport=window) as one:
        assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        assert one.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_thousand_pairs_are_there_at_once(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write_review(tmp_path, 1_000, words=150)) as one:
        assert one.page.locator("article").count() == 2
        took = one.page.evaluate(
            """() => { const began = performance.now();
            for (let n = 0; n < 200; n++) dispatchEvent(new KeyboardEvent('keydown', { key: 'cns'[n % 3] }));
            return (performance.now() - began) / 200; }"""
        )
        assert text_of(one, "#counts").startswith("200 judged")
        assert took < 50, f"{took} ms a pair"
        loaded = one.page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
        assert loaded < 5_000, f"{loaded} ms"


def test_twenty_long_pairs_take_less_than_a_megabyte_so_200_less_than_10(tmp_path: Path) -> None:
    assert 500_000 < write_review(tmp_path, 20, words=4_000).stat().st_size < 1_000_000
