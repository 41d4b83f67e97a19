"""`spotsieve calibrate`: what is printed is a configuration, with the smallest ratios that are precise enough."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_OK, EXIT_SETTING
from spotsieve.stream.cli import main
from spotsieve.stream.research.models.sampling import SizeClass, choose_ratios, sampling_trials
from tests.fixtures.filter_crawl import lines, page
from tests.reference.shingles import shingles_of, words_of


def story(seed: int, words: int, changed: float) -> str:
    """One of 20 stories, with this share of its words replaced and a last word of its own."""
    own, others = random.Random(seed % 20), random.Random(1_000 + seed)
    whole = [f"w{own.randrange(5_000)}" for _ in range(words)]
    return " ".join([*(f"x{seed}" if others.random() < changed else word for word in whole), f"y{seed}"])


CHANGED = (0.0, 0.05, 0.08, 0.1, 0.12)


@cache
def pages() -> list[dict[str, Any]]:
    """100 short pages, then 100 long ones."""
    return [
        page(seed, f"p{number}-{seed}") | {"body": f"<p>{story(seed, words, CHANGED[seed // 20])}</p>"}
        for number, words in enumerate((60, 700))
        for seed in range(100)
    ]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(lines([*pages(), *pages()[:30]]) + b"broken\n" + lines([page(999, "short") | {"body": "word"}]))
    return path


def calibrate(crawl: Path, *more: object) -> int:
    given = ["--scheme", "adaptive-shingles", "--precision", "0.8", *map(str, more)]
    return main(["calibrate", str(crawl), *given])


def calibrated(crawl: Path, capsys: pytest.CaptureFixture[str], *more: object) -> dict[str, Any]:
    assert calibrate(crawl, "--json", *more) == EXIT_OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_is_printed_is_a_configuration_that_filters(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        calibrate(crawl, "--sizes", "500", "--set", "scheme.name=adaptive-shingles", "--set", "scheme.w=3") == EXIT_OK
    )
    printed = capsys.readouterr().out
    assert "# 231 pages, 200 distinct texts" in printed
    assert "w = 3\n" in printed
    config = crawl.with_name("s.toml")
    config.write_text(printed, "utf-8")
    main(["filter", str(crawl), "--json", "-c", str(config)])
    summary = json.loads(capsys.readouterr().out)
    assert 30 < summary["duplicate"] < 200


def test_the_table_is_the_one_that_the_trials_of_each_class_ask_for(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = calibrated(
        crawl,
        capsys,
        "--sizes",
        "500",
        "--smallest",
        "8",
        "--set",
        "scheme.name=adaptive-shingles",
        "--set",
        "scheme.resemblance=0.5",
        "--set",
        "scheme.min_shingles=2",
    )
    expected = []
    for words, bodies in ((0, pages()[:100]), (500, pages()[100:])):
        rows = [sorted(set(shingles_of(words_of(one["body"].encode(), True), 5, 5))) for one in bodies]
        shingles = np.array([one for row in rows for one in row], np.uint64)
        bounds = np.cumsum([0, *map(len, rows)])
        expected.append(SizeClass(words, 100, sampling_trials(shingles, bounds, 0.5, 2, 4)))
    ratios = choose_ratios(expected, 0.8)
    assert ratios[0] < ratios[1]
    assert (found["sizes"], found["ratios"]) == ([500], ratios)
    assert [one["precision"]["4"] for one in found["classes"]] == [one.trials.precision(2) for one in expected]
    assert [one["recall"]["8"] for one in found["classes"]] == [one.trials.recall(3) for one in expected]
    counted = [(one["pages"], one["shingles"], one["pairs"], one["ratio"]) for one in found["classes"]]
    assert counted == [
        (100, one.trials.sampled[0], one.trials.similar, n) for one, n in zip(expected, ratios, strict=True)
    ]
    sampled = sum(one.trials.sampled[0] / n for one, n in zip(expected, ratios, strict=True))
    assert found["share_processed"] == pytest.approx(sampled / sum(one.trials.sampled[0] for one in expected))


def test_classes_that_agree_are_one_and_a_higher_precision_samples_more(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    least = calibrated(crawl, capsys, "--precision", "0.01")
    assert (least["sizes"], least["ratios"], least["share_processed"]) == ([], [16], 1 / 16)
    most = calibrated(crawl, capsys, "--precision", "1")
    assert most["share_processed"] > least["share_processed"]
    assert [one["words"] for one in most["classes"]] == [0, 500, 1000, 2000, 3000, 5000]


def test_batches_change_nothing(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (calibrated(crawl, capsys, "--set", f"service.batch_pages={size}") for size in (1, 50))
    assert one == other


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ("--scheme", "minhash"),
            "--scheme must be adaptive-shingles, got 'minhash'; the other schemes do not sample",
        ),
        (("--precision", "80"), "--precision must be above 0 and at most 1, got 80.0; such as 0.8"),
        (("--precision", "nan"), "--precision must be above 0 and at most 1, got nan"),
        (("--smallest", "12"), "--smallest must be a power of two in 2..64, got 12; 16 tries 1/2, 1/4, 1/8 and 1/16"),
        (("--sizes", "500,400"), "--sizes must ascend within 1..1000000000, got [500, 400]"),
        (("--sizes", "few"), "--sizes must be whole numbers, got 'few'; such as 500,1000,2000,3000,5000"),
        (("--sizes", "9" * 30), "--sizes must ascend within 1..1000000000"),
        (("--set", "scheme.name=adaptive"), "did you mean adaptive-shingles?"),
    ],
)
def test_a_wrong_flag_is_one_line(
    crawl: Path, more: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(crawl, *more) == EXIT_SETTING
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_no_more_texts_are_taken_than_can_be_compared(
    crawl: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotsieve.stream.research.models.sampling.MOST_TEXTS", 120)
    for size in (1, 50, 512):
        found = calibrated(crawl, capsys, "--set", f"service.batch_pages={size}")
        assert (found["pages"], found["texts"]) == (120, 120)
        assert [one["pages"] for one in found["classes"]][:2] == [100, 20]


def test_a_sample_without_pairs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = tmp_path / "one.jsonl"
    one.write_bytes(lines([pages()[0], pages()[0], page(1, "short") | {"body": "four words are few"}]))
    assert calibrate(one) == EXIT_INPUT
    assert "FILES must contain at least 2 different texts of 5 words or more, got 1" in capsys.readouterr().err
    assert calibrate(tmp_path / "none.jsonl") == EXIT_INPUT
