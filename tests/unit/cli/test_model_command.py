"""`spotsieve model`: a sample is counted, what is printed is a configuration, and a model is never written over."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_OK, EXIT_SETTING
from spotsieve.stream.cli import main
from spotsieve.stream.sign.schemes.registry import TERMS
from tests.fixtures.filter_crawl import lines, page
from tests.fixtures.pages.spotsieve_pages import STORIES, newspaper

STORY_PAGES = [
    page(number, f"p{number}") | {"body": newspaper(STORIES["English", 1 + number % 2] + [f"copy {number}"])}
    for number in range(40)
]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(lines(STORY_PAGES) + b"broken\n" + lines([page(99, "empty") | {"body": ""}]))
    return path


def build(crawl: Path, name: str, *more: object) -> int:
    model = crawl.with_name(f"{name}.idf")
    return main(["model", "build", str(crawl), "--scheme", name, "-o", str(model), *map(str, more)])


@pytest.mark.parametrize("name", [name for name in TERMS if name != "concept"])
def test_what_is_printed_is_a_configuration_that_filters(
    crawl: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(crawl, name) == EXIT_OK
    printed = capsys.readouterr().out
    assert " terms on 40 pages" in printed
    config = crawl.with_name("s.toml")
    config.write_text(printed, "utf-8")
    assert main(["config", "check", "-c", str(config), "--set", "scheme.idf_max=1"]) == EXIT_OK
    capsys.readouterr()
    arguments = ["filter", str(crawl), "--json", "-c", str(config), "--set", "scheme.idf_min=0.1"]
    main(arguments)
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    # two stories, one in every second page: their terms have an IDF of .19, the copies' numbers of 1
    assert summary["duplicate"] == 38


def test_what_is_printed_of_concepts_is_a_configuration_that_filters(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(crawl, "concept", "--set", "scheme.name=concept", "--set", "scheme.dimensions=20") == EXIT_OK
    config = crawl.with_name("s.toml")
    config.write_text(capsys.readouterr().out + "dimensions = 20\n", "utf-8")
    # stop-words alone tell the third and fourth page from the first and second
    bodies = [newspaper(STORIES["English", 1 + number % 2] + ["It is."] * (number // 2)) for number in range(4)]
    crawl.write_bytes(lines([page(number, f"p{number}") | {"body": body} for number, body in enumerate(bodies)]))
    main(["filter", str(crawl), "--json", "-c", str(config)])
    assert json.loads(capsys.readouterr().out)["duplicate"] == 2
    assert main(["filter", str(crawl), "--json", "-c", str(config), "--set", "scheme.dimensions=21"]) == EXIT_SETTING
    assert "dimensions is 20 and not 21; build it with these settings" in capsys.readouterr().err


def test_without_scikit_learn_a_model_of_concepts_is_refused_and_none_is_left(
    crawl: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    message = refusal(capsys, build(crawl, "concept"), EXIT_SETTING)
    assert "scheme.name needs scikit-learn to build its model, got 'concept'; pip install 'spotsieve[lsi]'" in message
    assert not crawl.with_name("concept.idf").exists()


def test_a_model_says_what_it_holds(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(crawl, "imatch", "--json") == EXIT_OK
    built = json.loads(capsys.readouterr().out)
    assert main(["model", "info", str(crawl.with_name("imatch.idf")), "--json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out) == built
    assert (built["pages"], built["about"]["term"]) == (40, "token")
    assert main(["model", "info", str(crawl.with_name("imatch.idf"))]) == EXIT_OK
    assert f"digest {built['digest']}" in capsys.readouterr().out


def test_the_same_sample_gives_the_same_model_whatever_the_batches(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for size in (1, 7, 512):
        assert build(crawl, "imatch-s", "--json", "--set", f"service.batch_pages={size}") == EXIT_OK
        found.append(json.loads(capsys.readouterr().out)["digest"])
        crawl.with_name("imatch-s.idf").unlink()
    assert len(set(found)) == 1


def test_the_settings_say_what_a_term_is(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--set", "scheme.name=imatch", "--set", 'scheme.stop_words=["the"]')
    assert build(crawl, "imatch", "--json", *given) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["about"]["stop_words"] == ["the"]


def refusal(capsys: pytest.CaptureFixture[str], code: int, expected: int) -> str:
    shown = capsys.readouterr()
    assert (code, shown.out) == (expected, "")
    assert "Traceback" not in shown.err
    return shown.err


def test_bad_input_is_refused_and_leaves_no_model(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, build(crawl, "chain"), EXIT_SETTING)
    assert f"--scheme must be one of {', '.join(TERMS)}, which need a model, got 'chain'" in message
    one = tmp_path / "one.jsonl"
    one.write_bytes(lines(STORY_PAGES[:1]))
    assert "FILES must contain at least 2 pages of text, got 1" in refusal(capsys, build(one, "imatch"), EXIT_INPUT)
    assert "none.jsonl" in refusal(capsys, build(tmp_path / "none.jsonl", "imatch"), EXIT_INPUT)
    (tmp_path / "imatch.idf").write_bytes(b"another")
    message = refusal(capsys, build(crawl, "imatch"), EXIT_SETTING)
    assert "--out must be a new file" in message
    assert (tmp_path / "imatch.idf").read_bytes() == b"another"
    refusal(capsys, main(["model", "info", str(tmp_path / "imatch.idf")]), EXIT_SETTING)
    target = tmp_path / "no" / "m.idf"
    code = main(["model", "build", str(crawl), "--scheme", "imatch", "-o", str(target)])
    assert "cannot be written: No such file or directory" in refusal(capsys, code, EXIT_INPUT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imatch.idf", "one.jsonl", "pages.jsonl"]
