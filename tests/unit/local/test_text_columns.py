"""`--text` of filter and backfill: the main text of each page, and its text without template text of its host."""

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spotsieve import Deduplicator
from spotsieve.stream.base.errors import EXIT_SUSPICIOUS
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.judge import by_host
from spotsieve.stream.judge.by_host import learning
from spotsieve.stream.judge.by_host.confirmation import look_up_page
from spotsieve.stream.local.file_filter import MAIN_TEXT, TEXT_COLUMNS, TEXT_WITHOUT_TEMPLATE
from spotsieve.stream.sign.features.shown_text import PARAGRAPH_END
from spotsieve.stream.sign.schemes.prepared_pages import text_of
from tests.fixtures.backfills import after, backfilled, records_out
from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json, refused

NOTE = "Every visitor of the village is asked to keep to the path, for the meadow beside the mill is grazed by sheep."
MENU = "Home news sport"
SETTINGS = Settings()


def sentences(seed: int) -> list[str]:
    """The paragraphs of the article of a page."""
    return [f"{sentence.removesuffix('.')}." for sentence in article(seed).split(". ")]


def with_note(seed: int) -> list[str]:
    """The paragraphs of a page of a host with a notice."""
    return [*sentences(seed)[:6], NOTE, *sentences(seed)[6:12]]


def noted(seed: int, host: str = "site.example") -> dict[str, Any]:
    """A page with a paragraph that all pages of its host have."""
    menu = f"<nav><a href=/>{MENU}</a></nav>"
    text = "".join(f"<p>{text}</p>" for text in with_note(seed))
    body = f"<title>Page {seed}</title>{menu}<main>{text}</main>{menu}"
    return page(seed) | {"url": f"https://{host}/{seed}", "body": body}


def crawl() -> list[dict[str, Any]]:
    """Pages of two hosts, with copies, and pages without text."""
    dice = random.Random(3)
    pages = [noted(seed, f"{'ab'[seed % 2]}.example") for seed in range(24)]
    pages += [noted(seed) | {"id": f"copy {seed}"} for seed in range(0, 24, 5)]
    pages += [page(900 + seed) | {"id": f"empty {seed}", "body": ""} for seed in range(3)]
    dice.shuffle(pages)
    return pages


def write(path: Path, pages: list[dict[str, Any]]) -> str:
    path.write_bytes(lines(pages))
    return str(path)


def texts(path: Path) -> dict[str, tuple[str | None, str | None]]:
    return {row["id"]: (row[MAIN_TEXT], row[TEXT_WITHOUT_TEMPLATE]) for row in read_json(path)}


def test_a_line_gets_both_texts_and_keeps_its_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = [noted(seed) for seed in range(14)] + [page(99) | {"body": "", "id": "none"}]
    source, plain, out = write(tmp_path / "in.jsonl", pages), tmp_path / "plain.jsonl", tmp_path / "out.jsonl"
    filter_json(capsys, source, "--out", plain)
    filter_json(capsys, source, "--out", out, "--text")
    assert plain.read_bytes() == Path(source).read_bytes(), "without --text, the lines are unchanged"
    for line, before in zip(out.read_bytes().splitlines(), Path(source).read_bytes().splitlines(), strict=True):
        assert line.startswith(before.removesuffix(b"}") + b',"spotsieve_main_text":')
    found = texts(out)
    for seed in range(14):
        main, rest = (str(text).split(PARAGRAPH_END) for text in found[f"p{seed}"])
        assert len(main) > 8
        assert main == [text for text in with_note(seed) if text in main]
        # A block is template text from three pages on, by an estimate. A menu is no main text.
        everything = [MENU, *with_note(seed), MENU]
        assert rest in (everything, [text for text in everything if text not in (MENU, NOTE)])
        assert (NOTE in rest) == (seed < 3) or 3 <= seed < 8
        assert NOTE in main
    assert found["none"] == (None, None), "an unchecked page has no text that was judged"


def test_batches_do_not_change_the_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write(tmp_path / "in.jsonl", crawl()), tmp_path / "out.jsonl"
    results = []
    for size in (1, 5, 512):
        filter_json(capsys, source, "--out", out, "--text", "--force", "--set", f"service.batch_pages={size}")
        results.append(out.read_bytes())
    assert results[0] == results[1] == results[2]
    assert any(main != rest for main, rest in texts(out).values())


def test_a_repeated_run_keeps_the_main_text_and_marks_by_the_present_statistics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, first, again = write(tmp_path / "in.jsonl", crawl()), tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    filter_json(capsys, source, "--out", first, "--text", "--state", tmp_path / "state")
    filter_json(capsys, source, "--out", again, "--text", "--state", tmp_path / "state")
    before, after = texts(first), texts(again)
    assert {name: text for name, (text, _) in before.items()} == {name: text for name, (text, _) in after.items()}
    assert any(before[name] != after[name] for name in before), (
        "the first pages were judged before their hosts were known"
    )
    assert not any(text and NOTE in text for _, text in after.values())


def test_rows_of_parquet_get_two_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = crawl()
    source, out, as_lines = tmp_path / "in.parquet", tmp_path / "out.parquet", tmp_path / "out.jsonl"
    table = pa.table({name: [one[name] for one in pages] for name in ("id", "url", "body")})
    pq.write_table(table.replace_schema_metadata({"note": "kept"}), source)
    filter_json(capsys, source, "--out", out, "--text")
    filter_json(capsys, write(tmp_path / "in.jsonl", pages), "--out", as_lines, "--text")
    written = pq.read_table(out)
    assert written.schema.names == ["id", "url", "body", *TEXT_COLUMNS]
    assert written.schema.metadata[b"note"] == b"kept"
    found = {row["id"]: (row[MAIN_TEXT], row[TEXT_WITHOUT_TEMPLATE]) for row in written.to_pylist()}
    assert found == texts(as_lines)
    pq.write_table(table.slice(0, 0), source)
    filter_json(capsys, source, "--out", out, "--text", "--force")
    assert pq.read_table(out).schema.names == written.schema.names, "a file without rows has the columns too"
    plain = tmp_path / "plain.parquet"
    pq.write_table(table, source)
    filter_json(capsys, source, "--out", plain)
    assert pq.read_table(plain).schema.names == ["id", "url", "body"]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_backfill_gives_the_texts_of_the_filter_also_when_it_is_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shards: int
) -> None:
    pages, names = crawl(), list[str]()
    for number in range(3):
        names.append(write(tmp_path / f"{number}.jsonl", pages[number::3]))
    expected = tmp_path / "expected.jsonl"
    filter_json(capsys, *names, "--out", expected, "--text")
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    backfilled(names, whole, SETTINGS, shards, with_text=True)
    assert records_out(whole) == expected.read_bytes()
    stops = 0
    for number in range(20):
        summary = backfilled(
            names,
            stopped,
            SETTINGS,
            shards,
            stopped=after(3 + 4 * number),
            batch_pages=2,
            with_text=True,
        )
        if not summary.interrupted:
            break
        stops += 1
    assert stops > 1
    assert records_out(stopped) == expected.read_bytes()


def test_pages_that_no_other_state_contains_have_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages, out = crawl(), tmp_path / "out.jsonl"
    filter_json(capsys, write(tmp_path / "old.jsonl", pages[:8]), "--state", tmp_path / "old")
    source = write(tmp_path / "in.jsonl", pages)
    filter_json(capsys, source, "--out", out, "--text", "--against", tmp_path / "old")
    found = texts(out)
    assert found
    assert all((main is None) == name.startswith("empty") for name, (main, _) in found.items())


def test_a_poison_page_has_no_text_and_is_reported(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, out = write(tmp_path / "in.jsonl", [noted(seed) for seed in range(6)]), tmp_path / "out.jsonl"
    judged = learning.page_hashes

    def fail(signatures: Any) -> Any:
        if any(
            label == b"p2" and status == 0 for label, status in zip(signatures.labels, signatures.status, strict=True)
        ):
            raise ZeroDivisionError
        return judged(signatures)

    monkeypatch.setattr(by_host.resolution, "page_hashes", fail)
    summary = filter_json(capsys, source, "--out", out, "--text", code=EXIT_SUSPICIOUS)
    assert summary["unchecked"] == 1
    assert "judging failed with an internal error (ZeroDivisionError at " in caplog.text
    assert "for p2: each is emitted unchecked; please report the error" in caplog.text
    found = texts(out)
    assert [name for name, both in found.items() if both == (None, None)] == ["p2"]


def failing(work: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The work, with a defect at this call."""
    calls = itertools.count()

    def fail(*given: Any) -> Any:
        if next(calls) == number:
            raise ZeroDivisionError
        return work(*given)

    return fail


@pytest.mark.parametrize(
    ("place", "work", "message"),
    [
        ("spotsieve.stream.local.engines.text_of", text_of, "extracting the text failed with an internal error for p2"),
        (
            "spotsieve.stream.engine.look_up_page",
            look_up_page,
            "looking up template text failed with an internal error",
        ),
    ],
)
def test_a_page_that_breaks_the_extraction_has_no_text_and_ends_no_run(
    place: str,
    work: Callable[..., Any],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pages = [noted(seed) for seed in range(6)]
    source, out = write(tmp_path / "in.jsonl", pages), tmp_path / "out.jsonl"
    if "look_up" in place:  # Pages that an earlier run has judged are looked up.
        filter_json(capsys, source, "--state", tmp_path / "state")
    monkeypatch.setattr(place, failing(work, 2))
    summary = filter_json(capsys, source, "--out", out, "--text", "--state", tmp_path / "state", code=EXIT_SUSPICIOUS)
    assert (summary["novel"], summary["text_errors"]) == (6, 1)
    assert "extracting the text failed with an internal error for 1 of 6 pages" in summary["suspicion"]
    assert message in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert [name for name, both in texts(out).items() if both == (None, None)] == ["p2"]
    monkeypatch.setattr(place, failing(work, 1))
    again = backfilled([source], tmp_path / "backfill", SETTINGS, with_text=True)
    if "look_up" not in place:
        assert (again.text_errors, again.exit_code) == (1, EXIT_SUSPICIOUS)
        monkeypatch.setattr(place, failing(work, 3))
        with Deduplicator(text=True) as seen:
            found = [seen.add(one["id"], one["url"], one["body"]).text is None for one in pages]
        assert found == [False, False, False, True, False, False]


FEED = f"<rss><title>News</title><item><title>One &amp; two</title><description>{NOTE}</description></item></rss>"
SCRIPT = json.dumps({"@type": "Article", "articleBody": NOTE * 3})
THAI = ("การเมืองไทยวันนี้มีข่าวใหม่ " * 6).strip()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content_type": "text/plain", "body": f"{NOTE}\nTwice.\n\nMore & more."}, f"{NOTE}\nTwice.\n\nMore & more."),
        ({"content_type": "application/rss+xml", "body": FEED}, [NOTE, f"One & two\n\n{NOTE}"]),
        ({"body": f"<p>{THAI}</p>"}, THAI),
        ({"body": f"<p title='x > y'>{NOTE} <img alt='<b>no</b>'>12&nbsp;&euro;</p>"}, f"{NOTE} 12 €"),
        ({"body": f"<div id=app></div><script type=application/ld+json>{SCRIPT}</script>"}, NOTE * 3),
    ],
)
def test_the_text_is_what_the_judge_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, str], text: str | list[str]
) -> None:
    """text: the main text, which is all text of most of these pages; or both."""
    out = tmp_path / "out.jsonl"
    filter_json(capsys, write(tmp_path / "in.jsonl", [page(1) | fields]), "--out", out, "--text")
    assert texts(out) == {"p1": (text, text) if isinstance(text, str) else tuple(text)}


def test_a_field_of_the_page_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in.jsonl", [page(1) | {"about": MAIN_TEXT}, page(2) | {MAIN_TEXT: "mine"}])
    code, error = refused(capsys, source, "--out", tmp_path / "out.jsonl", "--text")
    assert code == 2
    assert f"--text adds {MAIN_TEXT} to each page, and line 2 has it already" in error
    table = pa.table({"body": [article(1)], TEXT_WITHOUT_TEMPLATE: ["mine"]})
    pq.write_table(table, tmp_path / "in.parquet")
    state = tmp_path / "state"
    code, error = refused(
        capsys, tmp_path / "in.parquet", "--out", tmp_path / "out.parquet", "--text", "--state", state
    )
    assert code == 2
    assert f"adds {TEXT_WITHOUT_TEMPLATE} to each page" in error
    assert not state.exists(), "no page was judged"


def test_a_page_with_such_a_field_is_refused_before_it_or_its_neighbours_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Judged pages that were not written would be lost: without the field they have other ids, and are copies then.
    options = ("--out", tmp_path / "out.jsonl", "--text", "--state", tmp_path / "state")
    code, _ = refused(capsys, write(tmp_path / "in.jsonl", [page(1), page(2) | {MAIN_TEXT: "mine"}]), *options)
    assert code == 2
    summary = filter_json(capsys, write(tmp_path / "mended.jsonl", [page(1), page(2)]), *options)
    assert summary["novel"] == 2


def test_json_lines_are_known_by_the_last_suffix_of_their_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write(tmp_path / "crawl.warc.jsonl", [page(1)]), tmp_path / "out.jsonl"
    filter_json(capsys, source, "--out", out, "--text")
    assert list(texts(out)) == ["p1"]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--out", "out.warc"], "WARC records have no fields"),
        (["--out", "out.jsonl", "--scheme", "minhash"], "the scheme spotsieve"),
        (["--verdicts", "verdicts.jsonl"], "needs --out"),
    ],
)
def test_what_has_no_text_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    rule: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path / "in.jsonl", [page(1)])
    monkeypatch.setattr("spotsieve.stream.cli.filter.has_reader", lambda _: False)
    code, error = refused(capsys, source, "--text", *arguments, "--state", tmp_path / "state")
    assert code == 2
    assert rule in error
    assert not (tmp_path / "state").exists()


def test_the_verdicts_of_the_library_have_the_same_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages, out = crawl(), tmp_path / "out.jsonl"
    filter_json(capsys, write(tmp_path / "in.jsonl", pages), "--out", out, "--text")
    with Deduplicator(text=True) as seen:
        verdicts = list(seen.add_many((one["id"], one["url"], one["body"]) for one in pages))
    given = {one.id: (None, None) if one.text is None else tuple(one.text) for one in verdicts if not one.is_duplicate}
    assert given == texts(out)
    assert all(one.text is None for one in verdicts if one.is_duplicate)
    with Deduplicator() as seen:
        assert seen.add("p", "", article(1)).text is None


def test_the_log_names_a_page_without_text_as_its_verdict_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spotsieve.stream.local.engines.text_of", failing(text_of, 0))
    with Deduplicator(text=True) as seen:
        verdict = seen.add("p" * 3_000, "https://a.example/", f"<p>{article(1)}</p>")
    assert verdict.text is None
    assert f" for {verdict.id}:" in caplog.text
