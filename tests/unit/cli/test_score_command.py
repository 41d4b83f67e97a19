"""`spotsieve score`: verdicts as those of `spotsieve filter`, figures as those of the programs in ../shared/data."""

import itertools
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.errors import EXIT_SETTING
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS
from spotsieve.stream.cli import main
from spotsieve.stream.research.scoring.fresh_text import words_of
from spotsieve.stream.sign.schemes.registry import SCHEMES, TERMS
from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.labelled_sets import LABELS, PAIRS, labelled, refusal, write_labels

__all__ = ["labelled"]


def score_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["score", "--json", *map(str, arguments)]) == 0
    scores: dict[str, Any] = json.loads(capsys.readouterr().out)
    return scores


def test_a_set_is_filtered_and_scored(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = score_json(capsys, labelled)["pages"]
    assert (pages["duplicates"], pages["novel"], pages["found"], pages["lost"], pages["f1"]) == (1, 3, 1, 0, 1.0)
    assert main(["score", str(labelled)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "pages     1 duplicate, 3 novel, 0 ignored\n          precision 1.000  recall 1.000  F1 1.000"
    )
    assert shown.endswith("\ntext      lost by fresh text 0, missed 0, words gone 0; 3 of 4 pages judged\n")


def test_fresh_text_is_that_of_the_set_s_distinctive_texts(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score_json(capsys, labelled)["fresh_text"] == {
        "pages": 4,
        "judged": 3,
        "dropped": 1,
        "absent": 0,
        "lost": 0,
        "missed": 0,
        "words_gone": 0,
    }
    texts = {"p1": article(1), "p2": article(1), "copy": f"{article(1)} {article(2)}", "short": article(2)[:80]}
    own = [{"id": name, "text": text} for name, text in texts.items()]
    (labelled / "texts.jsonl.xz").write_bytes(lzma.compress(lines(own)))
    fresh = score_json(capsys, labelled)["fresh_text"]
    assert (fresh["judged"], fresh["lost"], fresh["missed"]) == (3, 1, 1)
    assert 0 < fresh["words_gone"] < len(article(2).split()), "p2 is emitted, and short has the first words"
    table = score_json(capsys, labelled, "--scheme", "spotsieve")["spotsieve"]
    assert table["fresh_text"] == fresh
    assert main(["score", str(labelled), "--scheme", "spotsieve"]) == 0
    titles, row = (line.split("  ") for line in capsys.readouterr().out.splitlines()[:2])
    shown = dict(zip(filter(None, titles), filter(None, row), strict=True))
    assert {title.strip(): int(shown[title]) for title in shown if title.strip() in ("t lost", "t missed", "gone")} == {
        "t lost": 1,
        "t missed": 1,
        "gone": fresh["words_gone"],
    }


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """A file of pages without labels: two pages, a copy of the first, and a page that one of the tests calls a copy."""
    path = tmp_path / "crawl.jsonl"
    path.write_bytes(lines([page(1), page(2), page(1, "copy", "another template"), page(3)]))
    return path


def test_pages_without_labels_are_scored_by_fresh_text(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = score_json(capsys, crawl)
    assert found["fresh_text"]["dropped"] == 1
    assert (found["lost"], found["missed"]) == ([], [])
    found = score_json(capsys, crawl, "--set", "scheme.name=chain", "--set", "scheme.min_features=9000")
    assert found["missed"] == [{"id": "copy", "contained_in": "p1"}]
    assert main(["score", str(crawl)]) == 0
    assert capsys.readouterr().out == (
        "pages     1 of 4 dropped\ntext      lost by fresh text 0, missed 0, words gone 0; 4 of 4 pages judged\n"
    )


def test_recorded_verdicts_are_scored_by_fresh_text(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    filter_json(capsys, crawl, "--verdicts", verdicts)
    given = read_json(verdicts)
    assert score_json(capsys, crawl, "--read-verdicts", verdicts) == score_json(capsys, crawl)
    given[2] |= {"verdict": "novel", "duplicate_of": None}
    given[3] |= {"verdict": "duplicate", "duplicate_of": "p1", "scheme": "of another program"}
    verdicts.write_bytes(lines(given))
    found = score_json(capsys, crawl, "--read-verdicts", verdicts)
    words = len(words_of(article(3)))
    assert found["lost"] == [{"id": "p3", "duplicate_of": "p1", "fresh": words, "words": words}]
    assert found["missed"] == [{"id": "copy", "contained_in": "p1"}]
    gone = found["fresh_text"]["words_gone"]
    assert words - 20 < gone <= words, "few of its 3-grams are those of p2 by chance"
    assert main(["score", str(crawl), "--read-verdicts", str(verdicts)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "pages     1 of 4 dropped",
        f"text      lost by fresh text 1, missed 1, words gone {gone}; 4 of 4 pages judged",
        f"  lost    p3: {words} of {words} words, original p1",
        "  missed  copy: contained in p1",
    ]
    given[3] |= {"duplicate_of": "of another file"}
    verdicts.write_bytes(lines(given[:1] + given[2:]))
    found = score_json(capsys, crawl, "--read-verdicts", verdicts)
    fresh = found["fresh_text"]
    assert (fresh["pages"], fresh["absent"], fresh["lost"], found["skipped"]) == (3, 1, 0, 1)
    assert main(["score", str(crawl), "--read-verdicts", str(verdicts)]) == 0
    assert "  1 pages were skipped: they have no verdict" in capsys.readouterr().out


def test_schemes_and_sweeps_are_one_table_of_pages_without_labels(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = score_json(capsys, crawl, "--scheme", "chain", "subhash")
    assert list(found) == ["chain", "subhash"]
    assert found["chain"] == score_json(capsys, crawl, "--set", "scheme.name=chain")
    assert main(["score", str(crawl), "--scheme", "subhash", "--sweep", "scheme.min_tokens=1,9000"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["by", "fresh", "text", "dropped", "lost", "missed", "words", "gone"],
        ["subhash", "min_tokens=1", "1", "0", "0", "0"],
        ["subhash", "min_tokens=9000", "0", "0", "1", "0"],
    ]
    assert main(["score", str(crawl), "--scheme", "all"]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == [name for name in SCHEMES if name not in TERMS]
    assert [line.split(": ")[1] for line in shown.err.splitlines()] == [f"skipped {name}" for name in TERMS]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--verdicts", "v.jsonl"], "--verdicts must not be used without labels; it needs a labelled set"),
        (["--build-models"], "--build-models must not be used without labels; it needs a labelled set"),
        (["--positive", "0.5"], "--positive must not be used without labels; it needs a labelled set"),
        (["--plot", "p.svg"], "--plot must not be used without labels; it needs a labelled set"),
        (
            ["--read-verdicts", "v.jsonl", "--scheme", "chain"],
            "--read-verdicts must not be used with --scheme or --swe",
        ),
        (["--read-verdicts", "v.jsonl", "--labels", "l.jsonl"], "--read-verdicts must not be used with --labels"),
    ],
)
def test_flags_that_need_labels_are_refused_without_them(
    crawl: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = refusal(capsys, crawl, *arguments)
    assert (code, message in error) == (2, True), error


def test_recorded_verdicts_of_other_pages_or_of_a_labelled_set_are_refused(
    crawl: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    filter_json(capsys, crawl, "--verdicts", verdicts)
    code, error = refusal(capsys, labelled, "--read-verdicts", verdicts)
    assert (code, f"{labelled} cannot be read: Is a directory" in error) == (3, True)
    crawl.write_bytes(lines([page(9)]))
    code, error = refusal(capsys, crawl, "--read-verdicts", verdicts)
    assert (code, "has no verdict for any of the 1 pages in the files" in error) == (3, True)


def test_several_sets_are_shown_by_their_names(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = labelled.with_name("other")
    other.symlink_to(labelled)
    scores = score_json(capsys, labelled, other)
    assert scores[str(labelled)] == scores[str(other)]
    assert main(["score", str(labelled), str(other)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{labelled}\npages ")
    assert f"\n\n{other}\npages " in shown


def test_settings_reach_the_filter(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "s.toml"
    config.write_text('[scheme]\nname = "chain"\nmin_features = 9000\n', "utf-8")
    assert score_json(capsys, labelled, "-c", config)["pages"]["found"] == 0
    given = ("-c", config, "--set", "scheme.min_features=8")
    assert score_json(capsys, labelled, *given)["pages"]["found"] == 1


def test_verdicts_are_those_of_filter(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = tmp_path / "score.jsonl", tmp_path / "filter.jsonl"
    score_json(capsys, labelled, "--verdicts", ours)
    filter_json(capsys, labelled / "pages.jsonl.xz", "--verdicts", theirs)
    assert read_json(ours) == read_json(theirs)
    assert [line["verdict"] for line in read_json(ours)] == ["novel", "novel", "duplicate", "unchecked"]


def test_several_schemes_are_one_table_with_the_figures_that_each_has_alone(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compared = score_json(capsys, labelled, "--scheme", "chain", "subhash")
    assert list(compared) == ["chain", "subhash"]
    for name, figures in compared.items():
        cost = figures.pop("cost")
        assert figures == score_json(capsys, labelled, "--set", f"scheme.name={name}")
        assert cost.keys() == {"candidates", "cpu_us", "log_bytes", "state_bytes"}
        assert cost["cpu_us"] > 0
        assert cost["log_bytes"] > 100
    assert compared["chain"]["pages"]["f1"] == 1.0
    assert main(["score", str(labelled), "--scheme", "chain", "--scheme", "subhash"]) == 0
    titles, chain, subhash, blank, *meanings = capsys.readouterr().out.splitlines()
    assert titles.split("  ")[0] == "scheme"
    assert chain.split()[:5] == ["chain", "1.000", "1.000", "1.000", "0"]
    assert len(chain.split()) == 15
    assert (subhash.split()[0], blank) == ("subhash", "")
    assert "candidates, postings" in " ".join(meanings)


def test_the_state_of_a_scheme_with_more_keys_takes_more_bytes_a_page(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manku = ("--set", "scheme.name=manku", "--set", "scheme.tables=4")
    many, few = (score_json(capsys, labelled, *given, "--scheme", "manku")["manku"]["cost"] for given in ((), manku))
    assert many["state_bytes"] > few["state_bytes"] + 16 * 8, "a key of 8 bytes in each of 16 tables more"
    assert many["log_bytes"] == few["log_bytes"]


def test_the_named_scheme_keeps_its_settings_and_others_have_their_defaults(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--set", "scheme.name=chain", "--set", "scheme.min_features=9000")
    compared = score_json(capsys, labelled, *given, "--scheme", "chain", "subhash")
    assert (compared["chain"]["pages"]["found"], compared["subhash"]["pages"]["found"]) == (0, 1)


def test_all_schemes_are_compared_at_once_and_those_without_their_model_are_left_out(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = []
    for name in TERMS:
        path = labelled / f"{name}.idf"
        assert main(["model", "build", str(labelled / "pages.jsonl.xz"), "--scheme", name, "-o", str(path)]) == 0
        models += ["--idf-model", path]
    capsys.readouterr()
    assert list(score_json(capsys, labelled, "--scheme", "all", *models)) == list(SCHEMES)
    assert main(["score", str(labelled), "--scheme", "all", "--json"]) == 0
    shown = capsys.readouterr()
    assert list(json.loads(shown.out)) == [name for name in SCHEMES if name not in TERMS]
    assert [line.split(": ")[1] for line in shown.err.splitlines()] == [f"skipped {name}" for name in TERMS]
    assert "add --build-models to count the scored pages, or build a model with `spotsieve model build --s" in shown.err
    assert (
        "build one: spotsieve model build --scheme imatch FILES" in refusal(capsys, labelled, "--scheme", "imatch")[1]
    )


def test_models_of_the_set_are_built_on_request_and_equal_those_of_model_build(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = labelled / "tokens.idf"
    assert main(["model", "build", str(labelled / "pages.jsonl.xz"), "--scheme", "imatch", "-o", str(path)]) == 0
    capsys.readouterr()
    built = score_json(capsys, labelled, "--scheme", "all", "--build-models")
    assert list(built) == list(SCHEMES)
    found = built["imatch"]
    given = score_json(capsys, labelled, "--scheme", "imatch", "chain", "--idf-model", path)["imatch"]
    assert {**found, "cost": None} == {**given, "cost": None}
    assert sorted(file.name for file in labelled.iterdir()) == [
        "pages.jsonl.xz",
        "pairs.tsv.gz",
        "tokens.idf",
        "truth.tsv.gz",
    ]


def test_each_set_has_the_models_of_its_own_pages(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = labelled.with_name("other")
    other.mkdir()
    pages = [page(1), page(2), page(3), page(1, "copy", "another template")]
    (other / "pages.jsonl.xz").write_bytes(lzma.compress(lines(pages)))
    write_labels(other, "id\tkind\np1\ts\np2\ts\np3\ts\ncopy\tcluster\n", PAIRS)
    options = ("--scheme", "imatch", "--build-models", "--set", "scheme.name=imatch", "--set", "scheme.idf_max=1")
    both = score_json(capsys, labelled, other, *options)
    for folder in (labelled, other):
        alone = score_json(capsys, folder, *options)["imatch"]
        assert {**both[str(folder)]["imatch"], "cost": None} == {**alone, "cost": None}
    costs = [both[str(folder)]["imatch"]["cost"]["log_bytes"] for folder in (labelled, other)]
    assert costs[0] != costs[1]


def test_a_sweep_without_a_value_runs_every_scheme_s_threshold_a_run_for_each_row(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swept = score_json(capsys, labelled, "--scheme", "all", "--build-models", "--sweep")
    expected = [
        (f"{name} {threshold.setting}={value:g}", name, {threshold.setting: value, **beside})
        for name in SCHEMES
        for threshold in [SCHEME_SETTINGS[name].threshold]
        for value, beside in threshold.swept.items()
    ]
    assert list(swept) == [row for row, *_ in expected]
    for row, name, settings in [one for place, one in enumerate(expected) if one[1] == "imatch" or not place % 6]:
        given = [argument for key, value in settings.items() for argument in ("--set", f"scheme.{key}={value}")]
        (alone,) = score_json(
            capsys, labelled, "--set", f"scheme.name={name}", *given, "--build-models", "--scheme", name
        ).values()
        for figures in (swept[row], alone):
            figures["cost"].pop("cpu_us")
        assert swept[row] == alone


def test_the_cpu_of_a_row_includes_signing_though_its_pages_were_signed_for_another(
    labelled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr("spotsieve.stream.research.evaluation.trial.time.process_time", lambda: float(next(seconds)))
    swept = score_json(capsys, labelled, "--scheme", "subhash", "--sweep")
    assert {figures["cost"]["cpu_us"] for figures in swept.values()} == {2e6 / 4}, "a second each, of 4 pages"


def test_the_threshold_that_the_settings_have_is_among_those_swept(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--set", "scheme.name=chain", "--set", "scheme.tables=16")
    swept = score_json(capsys, labelled, *given, "--sweep", "threshold")
    assert list(swept) == [f"chain max_distance_bits={k}" for k in range(8)]
    found = {bits: swept[f"chain max_distance_bits={bits}"]["cost"]["state_bytes"] for bits in (2, 3)}
    assert found[3] > found[2] + 6 * 8, "of 3 bits these 16 tables, of 2 the 10 that the scheme takes"
    tau = ("--set", "scheme.name=minhash", "--set", "scheme.resemblance=.53")
    assert "minhash resemblance=0.53" in score_json(capsys, labelled, *tau, "--sweep", "threshold")


def test_a_scheme_that_there_is_none_of_is_refused_with_all_names_and_the_nearest(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = refusal(capsys, labelled, "--scheme", "chain", "minhas")
    assert code == 2
    assert f"--scheme must be one of {', '.join(SCHEMES)}, got 'minhas'; did you mean minhash?" in error


def test_a_sweep_is_one_table_with_the_figures_that_each_choice_has_alone(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swept = score_json(
        capsys, labelled, "--scheme", "subhash", "--sweep", "scheme.k=0..2", "--sweep", "scheme.min_tokens=1,9000"
    )
    assert list(swept) == [f"subhash k={k} min_tokens={least}" for k in range(3) for least in (1, 9000)]
    for name, figures in swept.items():
        _, k, least = name.split()
        figures.pop("cost")
        given = ("--set", "scheme.name=subhash", "--set", f"scheme.{k}", "--set", f"scheme.{least}")
        assert figures == score_json(capsys, labelled, *given)
    assert swept["subhash k=2 min_tokens=9000"]["pages"]["found"] == 0
    assert main(["score", str(labelled), "--sweep", "scheme.min_containment=.3,.9"]) == 0
    titles, *rows = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert titles.startswith("scheme")
    assert [row.split("  ")[0] for row in rows] == ["spotsieve min_containment=.3", "spotsieve min_containment=.9"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep", "scheme.k"], "--sweep must be NAME=VALUE,VALUE or NAME=FIRST..LAST, or threshold, got 'scheme.k'"),
        (["--sweep", "scheme.k=1,"], "--sweep must be NAME=VALUE,VALUE or NAME=FIRST..LAST"),
        (["--sweep", "scheme.k=0..999999999"], "--sweep must have at most 200 combinations of values"),
        (["--sweep", "scheme.k=0..3"], "scheme.k is not a setting of the scheme spotsieve, but of "),
        (["--scheme", "subhash", "--sweep", "scheme.k=9..11"], "scheme.k should be less than or equal to 10, got '11'"),
        (["--scheme", "subhash", "chain", "--sweep", "scheme.k=1,2"], "--sweep with a setting needs a single scheme"),
        (["--scheme", "all", "--sweep", "scheme.k=1,2"], "--sweep with a setting needs a single scheme"),
        (["--sweep", "threshold", "--sweep", "scheme.k=1,2"], "--sweep must be threshold alone, or NAME=VALUES"),
        (["--verdicts", "v.jsonl", "--sweep", "scheme.minima=1,2"], "--sweep must not be used with --verdicts"),
    ],
)
def test_a_sweep_that_is_none_is_refused(
    labelled: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = refusal(capsys, labelled, *arguments)
    assert (code, message in error) == (2, True), error


@pytest.mark.parametrize("schemes", [["chain", "subhash"], ["all"]])
def test_one_file_of_verdicts_takes_one_scheme(
    labelled: Path, schemes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, labelled, "--verdicts", labelled / "v.jsonl", "--scheme", *schemes)[0] == 2


@pytest.mark.parametrize("name", ["pages.jsonl.xz", "pairs.tsv.gz", "truth.tsv.gz"])
def test_a_set_without_one_of_its_files_is_refused(
    labelled: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (labelled / name).unlink()
    code, error = refusal(capsys, labelled)
    assert code == 3
    assert str(labelled) in error
    assert name in error


def test_neither_a_folder_nor_a_file_with_pages_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = refusal(capsys, tmp_path / "nowhere")
    assert (code, f"{tmp_path / 'nowhere'} must be a folder" in error) == (3, True)
    (tmp_path / "pages.jsonl").touch()
    code, error = refusal(capsys, tmp_path / "pages.jsonl")
    assert (code, "have no pages of text" in error) == (3, True)


def test_a_page_that_the_labels_do_not_know_is_refused(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_labels(labelled, LABELS.replace("p2\t", "p3\t"), PAIRS)
    code, error = refusal(capsys, labelled)
    assert (code, "must be in truth.tsv.gz, got 'p2'" in error) == (3, True)


def test_a_label_without_a_page_is_refused(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_labels(labelled, LABELS + "p9\tthin\n", PAIRS)
    code, error = refusal(capsys, labelled)
    assert (code, "such as 'p9'" in error) == (3, True)


def test_a_record_that_is_no_page_is_refused(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (labelled / "pages.jsonl.xz").write_bytes(lzma.compress(lines([page(1)]) + b"broken\n"))
    code, error = refusal(capsys, labelled)
    assert (code, "must be JSON" in error) == (3, True)


def test_one_file_of_verdicts_takes_one_set(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, labelled, labelled, "--verdicts", labelled / "v.jsonl")[0] == 2


def test_bounds_must_be_similarities_in_order(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "swap the bounds" in refusal(capsys, labelled, "--positive", "0.1")[1]
    for flag, bound in (("--positive", "1.5"), ("--positive", "nan"), ("--negative", "-1")):
        assert f"{flag} must be a similarity in 0..1" in refusal(capsys, labelled, flag, bound)[1]


@pytest.mark.parametrize("name", mostly_long(["docs", "news", "newsgroups"], 1))
@pytest.mark.parametrize("flag", ["--json", "--positive=0.6"])
def test_score_py_and_adds_py_print_the_same_to_the_last_digit(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, flag: str
) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    assert main(["score", str(shared_data / name), "--verdicts", str(verdicts), flag]) == 0
    command = [sys.executable, str(shared_data / "score.py"), str(shared_data / name), str(verdicts), flag]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True, timeout=400)
    ours = capsys.readouterr().out
    if flag != "--json":
        assert ours.split("\ntext  ")[0] == theirs.stdout.removesuffix("\n")
        return
    scores = json.loads(ours)
    fresh = scores.pop("fresh_text")
    assert scores == json.loads(theirs.stdout)
    command[1] = str(shared_data / "adds.py")
    adds = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=400).stdout)
    assert (fresh["pages"], fresh["judged"]) == (adds["pages"], adds["judged"])
    assert (fresh["lost"], fresh["missed"], fresh["words_gone"]) == (adds["lost"], adds["missed"], adds["gone"])


def test_no_output_is_written_over_a_file_of_the_set(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = labelled / "pages.jsonl.xz"
    before = {path: path.read_bytes() for path in labelled.iterdir()}
    for command in (
        ["score", labelled, "--verdicts", pages],
        ["score", labelled, "--verdicts", labelled / "texts.jsonl.xz"],
        ["score", labelled, "--verdicts", labelled / "truth.tsv.gz"],
        ["score", labelled, "--idf-model", labelled / "model", "--verdicts", labelled / "model"],
        ["sample", pages, "--out", labelled],
        ["explain", "p1", "--verdicts", pages, "--html", pages],
    ):
        assert main([*map(str, command), "--force"]) == EXIT_SETTING
        assert "must not go to the same place as" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in labelled.iterdir()} == before
