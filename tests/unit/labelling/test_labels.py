"""`calibrate --labels` and `score --labels`: what they say where all is known, and which labels they refuse."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.cli import main
from tests.fixtures.pages.judged import judge_by_truth


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo's crawl, a review of all its pairs, and their true labels."""
    folder = tmp_path_factory.mktemp("judged")
    assert main(["demo", "--crawl", str(folder / "crawl.jsonl")]) == 0
    assert main(["review", str(folder / "crawl.jsonl"), "-o", str(folder / "review.html"), "--pairs", "1000"]) == 0
    given = judge_by_truth(folder / "review.html", folder / "labels.jsonl")
    assert (given.count("copy"), given.count("different")) == (180, 19)
    return folder


def json_of(capsys: pytest.CaptureFixture[str], command: str, folder: Path, *more: str) -> Any:
    capsys.readouterr()
    assert main([command, str(folder / "crawl.jsonl"), "--labels", str(folder / "labels.jsonl"), "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_where_every_pair_is_judged_the_figures_are_the_true_ones(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own,) = json_of(capsys, "score", judged)
    assert own["precision"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert own["recall"]["value"] == pytest.approx(179 / 180)
    assert (own["dropped"], own["outside"], own["lost"]["high"]) == (179, 0, 0)
    minhash, loose = (
        json_of(capsys, "score", judged, "--scheme", "minhash"),
        json_of(capsys, "score", judged, "--sweep", "scheme.min_containment=0.3"),
    )
    assert minhash[0]["recall"]["value"] == pytest.approx((minhash[0]["dropped"] - minhash[0]["outside"]) / 180)
    assert 0 < loose[0]["lost"]["value"] <= 20
    assert loose[0]["precision"]["value"] == pytest.approx(
        1 - loose[0]["lost"]["value"] / loose[0]["dropped"], abs=0.01
    )


def test_the_value_that_is_recommended_reaches_the_precision_that_is_wished(
    judged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json_of(capsys, "calibrate", judged, "--precision", "0.9")
    by_name = {one["name"]: one for one in found["choices"]}
    taken = by_name[found["recommended"]]
    assert taken["precision"]["value"] >= 0.9
    assert all(one["recall"]["value"] <= taken["recall"]["value"] for one in found["choices"])
    assert found["reaches_precision"]


def test_what_is_printed_is_a_configuration(judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["calibrate", str(judged / "crawl.jsonl"), "--labels", str(judged / "labels.jsonl")]) == 0
    printed = capsys.readouterr().out
    assert "# recommended" in printed
    config = tmp_path / "spotsieve.toml"
    config.write_text(printed, "utf-8")
    assert main(["config", "check", "-c", str(config)]) == 0


def test_the_tables_fit_the_terminal_with_their_comment_signs(
    judged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["calibrate", str(judged / "crawl.jsonl"), "--labels", str(judged / "labels.jsonl")]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("# spotsieve")]
    assert rows
    assert max(map(len, rows)) == 60


def test_labels_of_two_people_are_read_together(
    judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (judged / "labels.jsonl").read_text("utf-8").splitlines(keepends=True)
    both = tmp_path / "both.jsonl"
    both.write_text("".join([*lines[:120], lines[0], *lines[100:]]), "utf-8")
    (judged / "both.jsonl").write_bytes(both.read_bytes())
    capsys.readouterr()
    assert main(["score", str(judged / "crawl.jsonl"), "--labels", str(both), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json_of(capsys, "score", judged)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda lines: lines[1:], 3, "must begin with the line of its review"),
        (lambda lines: lines[:1], 3, "has no judged pair: none of its 0 labels is copy or different"),
        (lambda _: ["[1]"], 3, "must be a JSON object"),
        (lambda _: ['{"review": {"id": 1}}'], 3, "must have the review's id, scheme, pages and strata"),
        (
            lambda lines: [*lines, lines[1].replace('"label": "', '"label": "no')],
            3,
            "must have the label copy, different or skipped",
        ),
        (lambda lines: [*lines, _other(lines[1])], 3, "contradicts an earlier line"),
        (lambda lines: [lines[0], '{"id_a": "a"}'], 3, "must have id_a, id_b, and a stratum of the review"),
        (
            lambda lines: [line.replace("crawl.jsonl", "moved.jsonl") for line in lines],
            3,
            "must have labels of pages in the files",
        ),
        (
            lambda lines: [lines[0].replace('"pages": 262', '"pages": 261'), *lines[1:]],
            3,
            "must be the files of the review",
        ),
        (
            lambda lines: [re.sub('"pages": (?!262)[0-9]+', '"pages": 1', lines[0]), *lines[1:]],
            3,
            "must not have more labels of a stratum than the review has pairs in it",
        ),
        (lambda lines: [lines[0].replace("spotsieve", "manku"), *lines[1:]], 2, "scheme.name must be manku"),
        (None, 3, "none.jsonl cannot be read"),
    ],
)
def test_labels_that_do_not_fit_are_one_line(
    judged: Path, tmp_path: Path, change: Any, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / ("none.jsonl" if change is None else "labels.jsonl")
    if change is not None:
        lines = (judged / "labels.jsonl").read_text("utf-8").splitlines()
        labels.write_text("\n".join(change(lines)), "utf-8")
    capsys.readouterr()
    assert main(["score", str(judged / "crawl.jsonl"), "--labels", str(labels)]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def _other(line: str) -> str:
    return line.replace('"copy"', '"different"') if '"copy"' in line else line.replace('"different"', '"copy"')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["calibrate", "c.jsonl"], "--scheme must be given without --labels"),
        (["calibrate", "c.jsonl", "--labels", "l", "--scheme", "minhash"], "--scheme must not be used with --labels"),
        (["calibrate", "c.jsonl", "--labels", "l", "--precision", "2"], "--precision must be above 0 and at most 1"),
        (["score", "c.jsonl", "--labels", "l", "--html", "a.html"], "--html must not be used with --labels"),
    ],
)
def test_flags_that_do_not_go_together_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
