"""`spotsieve sample`: copies of known size in real templates, and truth that holds."""

import gzip
import json
import lzma
from pathlib import Path
from random import Random

import pytest

from spotsieve.stream.cli import main
from spotsieve.stream.research.labelling.distinctive_text import PageSample, read_own, write_into
from spotsieve.stream.research.labelling.planting import PlantedEdit, edited
from spotsieve.stream.sign.features.shown_text import read_text, words_of
from tests.fixtures.filter_crawl import lines
from tests.fixtures.pages.spotsieve_pages import page

MILL = (
    "The old mill by the river will open again in spring, the council said, after 3 years of work on the roof.",
    "The flood took the first floor and most of the 12 machines, and nobody thought that it would ever come back.",
    "Now a baker from the next village will grind his own flour there on Sundays, and children may watch him do it.",
)
FAIR = (
    "Rain has kept the summer fair from the meadow for the second year running, and nobody knows when it will be back.",
    "The ground is too soft for the stalls, said the woman who has run it since her father gave it up 20 years ago.",
)
SHELL = '<title>%s</title><body><nav><a href="/">Home</a> <a href="/n">News</a></nav><div>%s</div></body>'


def html_of(paragraphs: tuple[str, ...], title: str) -> str:
    return SHELL % (title, "".join(f"<p>{text}</p>" for text in paragraphs))


def table(path: Path) -> list[dict[str, str]]:
    header, *rows = (line.split("\t") for line in gzip.decompress(path.read_bytes()).decode().splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    assert main(["demo", "--crawl", str(folder / "crawl.jsonl")]) == 0
    assert main(["sample", str(folder / "crawl.jsonl"), "-o", str(folder / "mine"), "--copies", "0.5"]) == 0
    return folder


def test_the_filter_finds_the_copies_that_were_planted_and_loses_nothing(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["score", str(made / "mine"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["pages"]
    assert found["duplicates"] > 100
    assert found["novel"] > 50
    assert (found["lost"], found["precision"]) == (0, 1.0)
    kinds = found["recall_by_pair_kind"]
    assert set(kinds) >= {kind.value for kind in PlantedEdit} - {"words-10"}
    # An extended copy has fresh text: up to 40 % is another page's.
    extended = kinds.pop("extended")
    assert extended["found"] > 0.6 * extended["of"]
    assert sum(one["found"] for one in kinds.values()) > 0.95 * sum(one["of"] for one in kinds.values())


def test_planted_copies_come_later_and_half_stand_in_another_template(made: Path) -> None:
    truth = table(made / "mine" / "truth.tsv.gz")
    pages = [json.loads(line) for line in lzma.decompress((made / "mine" / "pages.jsonl.xz").read_bytes()).splitlines()]
    assert [one["id"] for one in pages] == [one["id"] for one in truth]
    names = [one["id"] for one in truth]
    copies = [one for one in truth if one["kind"] != "page"]
    assert len(copies) == 131
    assert all(names.index(one["id"].rpartition("#")[0]) < names.index(one["id"]) for one in copies)
    moved = [one for one in copies if one["template"]]
    assert len(moved) / len(copies) == pytest.approx(0.45, abs=0.12)
    by_id = {one["id"]: one for one in pages}
    for one in moved[:20]:
        host, template = by_id[one["id"]]["url"].split("/")[2], by_id[one["template"]]["url"].split("/")[2]
        assert host == template


def test_the_same_seed_makes_the_same_set_and_another_one_another(made: Path, tmp_path: Path) -> None:
    for seed, same in (("0", True), ("1", False)):
        out = tmp_path / seed
        assert main(["sample", str(made / "crawl.jsonl"), "-o", str(out), "--copies", "0.5", "--seed", seed]) == 0
        names = ("pages.jsonl.xz", "pairs.tsv.gz", "truth.tsv.gz")
        assert same == all((out / name).read_bytes() == (made / "mine" / name).read_bytes() for name in names)


@pytest.mark.parametrize("edit", list(PlantedEdit))
def test_an_edit_has_the_size_that_it_says(edit: PlantedEdit) -> None:
    before = [word.form for text in MILL for word in words_of(text)]
    for seed in range(20):
        texts = edited(MILL, edit, FAIR, Random(seed))
        assert texts is not None
        after = [word.form for text in texts for word in words_of(text)]
        changed = sum(one != other for one, other in zip(before, after, strict=False))
        if edit is PlantedEdit.COPY:
            assert after == before
        elif edit is PlantedEdit.NUMBERS:
            assert (len(after), changed) == (len(before), 2)
        elif edit is PlantedEdit.REORDERED:
            assert sorted(after) == sorted(before)
            assert after[:20] == before[:20]
        elif edit is PlantedEdit.EXTENDED:
            assert after[: len(before)] == before
            assert 0.07 < len(after) / len(before) - 1 < 0.42
        elif edit is PlantedEdit.CUT:
            assert after[-2:] == ["read", "more"]
            assert after[:-2] == before[: len(after) - 2]
            assert 0.64 < (len(after) - 2) / len(before) < 0.93
        else:
            share = int(edit.value.partition("-")[2]) / 100
            assert (len(after), changed) == (len(before), max(1, round(share * len(before))))


def test_a_text_stands_in_another_page_and_all_tags_of_that_stay() -> None:
    mill = page(0, "https://a.example/", html_of(MILL, "The mill"))
    target = html_of((f"<a href='/x'>Rain</a> &amp; {FAIR[0]} {FAIR[1]}", FAIR[1] + " <b>x</b>&gt;"), "The fair")
    one, other = read_own([mill, page(1, "https://b.example/", target)])
    body = write_into(other, one.texts, "Mill & more")
    text = read_text(body.encode(), True)
    assert one.texts[:2] == list(MILL[:2])
    assert text.text == "\n".join(("Home News", *one.texts))
    assert text.title == "Mill & more"
    for tag in ("<a ", "</a>", "<b>", "</b>", "<nav>", "<div>"):
        assert body.count(tag) == target.count(tag)
    # No link spans the new text: the filter would take it for a menu.
    assert "</a>" + MILL[0] in body


def test_a_page_whose_words_change_keeps_all_other_bytes() -> None:
    body = html_of(("It said <b>that</b> " + MILL[0], MILL[1] + " &copy; 2024", MILL[2]), "The mill")
    (own,) = read_own([page(0, "https://a.example/", body)])
    assert write_into(own, own.texts) == body
    texts = [own.texts[0].replace("river", "lake"), *own.texts[1:]]
    assert write_into(own, texts) == body.replace("river", "lake")


def test_pages_of_one_text_are_taken_or_left_together() -> None:
    pages = [page(n, f"https://a.example/{n}", f"<p>text number {n // 2}") for n in range(200)]
    for most in (10, 50, 101):
        chosen = PageSample(most, 0)
        chosen.add(pages[:90])
        chosen.add(pages[90:])
        taken = [one.offset for one in chosen.taken()]
        assert most - 3 <= len(taken) <= most
        assert taken == sorted(taken)
        assert all(number ^ 1 in taken for number in taken)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["short.jsonl", "-o", "new"], 3, "FILES hold no copies, and none of 1 pages has enough words"),
        (["mill.jsonl", "-o", "new", "--copies", "0"], 3, "or raise --copies"),
        (["mill.jsonl", "-o", "old"], 2, "--out must be a new file"),
        (["mill.jsonl", "-o", "mill.jsonl"], 2, "--out must be a folder"),
        (["mill.jsonl", "-o", "set", "--force"], 2, "--out must not hold the texts of another set"),
        (["mill.jsonl", "-o", "new", "--pages", "1"], 2, "--pages must be in 2..20000"),
        (["mill.jsonl", "-o", "new", "--copies", "nan"], 2, "--copies must be a share in 0..1"),
        (["none.jsonl", "-o", "new"], 3, "none.jsonl cannot be read"),
        (
            ["mill.jsonl", "-o", "mill.jsonl/new"],
            3,
            "mill.jsonl/new cannot be created: Not a directory; choose another path",
        ),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.jsonl").write_bytes(lines([{"url": "https://a.example/", "body": "<p>Hello"}]))
    Path("mill.jsonl").write_bytes(lines([{"url": "https://a.example/", "body": html_of(MILL, "The mill")}]))
    Path("old").mkdir()
    (Path("old") / "truth.tsv.gz").write_bytes(b"")
    Path("set").mkdir()
    (Path("set") / "texts.jsonl.xz").write_bytes(b"")
    assert main(["sample", *arguments]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert not Path("new").exists()
