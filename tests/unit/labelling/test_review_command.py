"""`spotsieve review`: what is drawn, and what is refused."""

import json
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.files import check_inputs
from spotsieve.stream.research.labelling.population import (
    DROPPED,
    PASSED,
    Population,
    ReviewPair,
    allocate,
    draw,
    find_population,
    in_order,
    read_verdicts,
    recorded_originals,
)
from spotsieve.stream.research.scoring.fresh_text import ABSENT, measure
from tests.fixtures.filter_crawl import lines
from tests.fixtures.pages.judged import review_of


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crawl") / "crawl.jsonl"
    assert main(["demo", "--crawl", str(path)]) == 0
    return path


def population(pairs: int, hosts: int = 10) -> Population:
    return Population(
        [f"p{number}" for number in range(2 * pairs)],
        [f"https://site{number // 2 % hosts}.example/{number}" for number in range(2 * pairs)],
        [
            ReviewPair(
                2 * n,
                2 * n + 1,
                PASSED if n % 5 == 0 else DROPPED,
                (n * 37 % 100) / 100,
                "near" * (n % 5 > 0),
                n % 2 > 0,
                *((60, 100) if n % 9 == 4 else (10, 100)),
            )
            for n in range(pairs)
        ],
        measure([], []),
    )


def test_small_strata_are_drawn_whole_and_large_ones_by_their_root() -> None:
    assert allocate([1, 2, 3, 10_000], 100) == [1, 2, 2, 95]
    assert allocate([100, 400, 900], 60) == [10, 20, 30]
    assert allocate([5, 5], 100) == [5, 5]
    assert allocate([9, 7, 8], 2) == [1, 0, 1]


@pytest.mark.parametrize("wanted", [1, 7, 50, 400])
def test_as_many_as_are_wanted_are_drawn_each_once_and_the_same_for_a_seed(wanted: int) -> None:
    whole = population(1_000)
    strata = draw(whole, wanted, 3)
    drawn = [pair for stratum in strata for pair in stratum.drawn]
    assert len(set(drawn)) == len(drawn) == wanted
    assert sum(stratum.pages for stratum in strata) == 1_000
    assert draw(whole, wanted, 3) == strata
    assert wanted == 1 or draw(whole, wanted, 4) != strata
    assert sorted(pair for _, pair in in_order(strata, 3)) == sorted(drawn)


def test_every_host_has_its_share_of_a_stratum() -> None:
    pages = [f"https://{'abbcccc'[n % 7]}.example/{n}" for n in range(1_400)]
    whole = Population(
        pages, pages, [ReviewPair(0, n, DROPPED, 0.55, "near", False) for n in range(1_400)], measure([], [])
    )
    (stratum,) = draw(whole, 70, 0)
    hosts = [pages[pair.later][8] for pair in stratum.drawn]
    assert [hosts.count(host) for host in "abc"] == pytest.approx([10, 20, 40], abs=1)


def test_every_beginning_of_a_review_has_its_part_of_each_stratum() -> None:
    strata = draw(population(1_000), 200, 0)
    ordered = [stratum.name for stratum, _ in in_order(strata, 0)]
    lost = sum(name.endswith("lost by fresh text") for name in ordered)
    for part in (ordered[:lost], ordered[lost:]):
        half = part[: len(part) // 2]
        for stratum in strata:
            if stratum.name in part:
                assert abs(half.count(stratum.name) - len(stratum.drawn) / 2) <= 1


def test_lost_pages_are_strata_of_their_own_and_come_first() -> None:
    whole = population(1_000)
    strata = draw(whole, 200, 0)
    order = [pair.lost for _, pair in in_order(strata, 0)]
    assert 20 < sum(order) < 100
    assert order == sorted(order, reverse=True)
    for stratum in strata:
        assert {pair.lost for pair in stratum.drawn} == {stratum.name.endswith(", lost by fresh text")}
    assert sum(one.pages for one in strata if one.drawn[0].lost) == sum(pair.lost for pair in whole.pairs)
    assert not ReviewPair(0, 1, PASSED, 0.5, "", False, 60, 100).lost, "it was emitted"


def test_recorded_verdicts_are_reviewed_as_those_of_a_filter(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts, one, other = tmp_path / "verdicts.jsonl", tmp_path / "one.html", tmp_path / "other.html"
    assert main(["filter", str(crawl), "--verdicts", str(verdicts)]) == 0
    options = ["--pairs", "40", "--seed", "2"]
    assert main(["review", str(crawl), "-o", str(one), *options]) == 0
    assert main(["review", str(crawl), "-o", str(other), "--verdicts", str(verdicts), *options]) == 0
    assert one.read_bytes() == other.read_bytes()
    shown = review_of(one)
    names = [json.loads(line)["id"] for line in verdicts.read_text("utf-8").splitlines()]
    assert all(names.index(pair["id_a"]) < names.index(pair["id_b"]) for pair in shown["pairs"])
    capsys.readouterr()
    kept = verdicts.read_text("utf-8").splitlines()[100:]
    verdicts.write_text("\n".join(kept), "utf-8")
    assert main(["review", str(crawl), "-o", str(other), "--verdicts", str(verdicts), *options, "--force"]) == 0
    printed = capsys.readouterr().out
    assert "100 pages were skipped: they have no verdict" in printed


def test_an_empty_original_is_none_and_an_original_with_the_page_s_own_id_is_absent(tmp_path: Path) -> None:
    lines = tmp_path / "verdicts.jsonl"
    pages = {"a": "", "b": "a", "c": "c", "d": None}
    found = [{"id": page, "duplicate_of": original, "score": None, "reason": "x"} for page, original in pages.items()]
    lines.write_text("\n".join(map(json.dumps, found)), "utf-8")
    assert recorded_originals(list(pages), read_verdicts(lines, None)) == [None, 0, ABSENT, None]
    lines.write_text(json.dumps(found[3] | {"verdict": "duplicate"}), "utf-8")
    with pytest.raises(InputError, match="line 1 must be a verdict"):
        read_verdicts(lines, None)


def test_a_dropped_page_is_no_near_miss_in_files_of_another_order_than_the_log(crawl: Path, tmp_path: Path) -> None:
    verdicts, judged, reversed_ = (tmp_path / name for name in ("verdicts.jsonl", "judged.jsonl", "reversed.jsonl"))
    pages = [{"id": f"p{n}", **json.loads(line)} for n, line in enumerate(crawl.read_bytes().splitlines())]
    judged.write_bytes(lines(pages))
    reversed_.write_bytes(lines(pages[::-1]))
    assert main(["filter", str(judged), "--verdicts", str(verdicts)]) == 0
    found = find_population(check_inputs([str(reversed_)]), Settings(), read_verdicts(verdicts, "spotsieve"))
    dropped = {found.ids[pair.later] for pair in found.pairs if pair.drawn == DROPPED}
    missed = [found.ids[pair.earlier] for pair in found.pairs if pair.drawn == PASSED]
    assert len(dropped) > 100
    assert dropped.isdisjoint(missed)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["CRAWL", "-o", "a.txt"], 2, "--out must end in .html or .htm"),
        (["CRAWL", "-o", "none/a.html"], 2, "--out must be in a folder that exists"),
        (["CRAWL", "-o", "a.html", "--pairs", "0"], 2, "--pairs must be in 1..5000, got 0"),
        (["-o", "a.html"], 2, "FILES must be given, or --topic"),
        (["CRAWL", "--topic", "-o", "a.html"], 2, "FILES must not be used with --topic"),
        (["--topic", "--newest", "0", "-o", "a.html"], 2, "--newest must be at least 1, got 0"),
        (["-", "-o", "a.html"], 2, "FILES must be files that can be read again"),
        (["none.jsonl", "-o", "a.html"], 3, "none.jsonl cannot be read"),
        (
            ["CRAWL", "-o", "a.html", "--verdicts", "CRAWL"],
            3,
            "must be a verdict with id, duplicate_of, score and reason",
        ),
        (["CRAWL", "-o", "a.html", "--verdicts", "strange.jsonl"], 3, "has no verdict for any of the"),
        (["CRAWL", "-o", "a.html", "--verdicts", "empty.jsonl"], 3, "has no verdicts"),
        (["CRAWL", "-o", "a.html", "--verdicts", "other.jsonl"], 3, "must be of the scheme spotsieve"),
        (["lonely.jsonl", "-o", "a.html"], 3, "have nothing to review: of 1 pages none was dropped"),
        (["empty.jsonl", "-o", "a.html"], 3, "have no pages of text"),
    ],
)
def test_a_mistake_is_one_line(
    crawl: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    line = {"id": "x", "verdict": "novel", "duplicate_of": None, "score": None, "reason": "no_match"}
    Path("strange.jsonl").write_text(json.dumps({**line, "scheme": "spotsieve"}), "utf-8")
    Path("other.jsonl").write_text(json.dumps({**line, "scheme": "manku"}), "utf-8")
    Path("empty.jsonl").write_text("", "utf-8")
    Path("lonely.jsonl").write_bytes(crawl.read_bytes().split(b"\n")[0])
    assert main(["review", *(str(crawl) if one == "CRAWL" else one for one in arguments)]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert not Path("a.html").exists()
