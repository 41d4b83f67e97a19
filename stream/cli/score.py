"""`spotsieve score` filters labelled sets in memory, and prints precision, recall and lost pages."""

import argparse
import contextlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_settings_arguments,
    check_names,
    compile_for,
    estimated,
    file_name,
    local_file,
    local_path,
    reviewed,
    settings_of,
    show_json,
)
from spotsieve.stream.research.evaluation import ALL, THRESHOLD

if TYPE_CHECKING:
    from spotsieve.stream.files.outputs import FileOutputs
    from spotsieve.stream.research.evaluation.planning import ScoreRequest
    from spotsieve.stream.research.evaluation.trial import SetResult

ABOUT = """A SET is a folder with pages.jsonl.xz (one JSON object per line, in stream order: id, url, fetched_at,
content_type, body), pairs.tsv.gz (id_a id_b similarity kind; id_a is earlier; all pairs that are not negative) and
truth.tsv.gz (id kind). A page is a duplicate if its similarity to an earlier page is at least --positive, novel if its
similarity to all earlier pages is below --negative, and ignored otherwise. With --scheme, each scheme has its defaults,
except the one that the settings name. With --scheme all, schemes without their model are skipped, with a hint. With
--labels, which the page of `spotsieve review` exports, the SETs are the reviewed files; precision, recall and lost
pages are estimated from the labels, with intervals of 95 %. Fresh text needs no labels: a word is fresh if it is in a
run of ten or more words without a 3-gram of the other page. A page is lost if it is dropped although 40 % and 20 of its
words or more are fresh against its original. It is missed if an earlier emitted page contains it and is at most twice
as long: no word is fresh, and 85 % of the 3-grams occur. Words gone are fresh words of dropped pages against all
emitted pages. Pages with fewer than 20 words are not judged. The text is that of texts.jsonl.xz (id, text) in the SET,
otherwise the main text without template text. If the SETs are files of pages, as `spotsieve filter` reads them, only
fresh text is measured. Exit codes: 0 scored, whatever the figures; 2 wrong setting
or usage; 3 a set that cannot be read, or whose pages and labels do not fit together; 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve score`."""
    parser.epilog = ABOUT
    parser.add_argument(
        "sets", nargs="+", type=local_path, metavar="SET", help="folder of a labelled set, or file of pages"
    )
    parser.add_argument(
        "--labels", type=local_file, metavar="LABELS", help="JSONL: score reviewed files of pages with these labels"
    )
    parser.add_argument(
        "--read-verdicts",
        type=local_file,
        metavar="FILE",
        dest="recorded",
        help="score these verdicts (of filter, or the directory of backfill) on files of pages without labels",
    )
    parser.add_argument(
        "--scheme",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        dest="schemes",
        help=f"after the sets: print one table of these schemes, with their figures and costs; {ALL}: all schemes",
    )
    parser.add_argument(
        "--sweep",
        nargs="?",
        action="append",
        const=THRESHOLD,
        default=[],
        metavar="NAME=VALUES",
        dest="sweeps",
        help="after the sets: print one table of these values of a setting of one scheme, such as scheme.k=0..10 or "
        "scheme.tau=0.3,0.5,0.7; may be repeated, for all combinations. Without a value, or "
        f"{THRESHOLD}: the threshold of each scheme, over the values that the scheme defines",
    )
    parser.add_argument(
        "--idf-model",
        action="append",
        default=[],
        metavar="MODEL",
        dest="models",
        help="a model of `spotsieve model build`, for the schemes whose terms it counts; may be repeated",
    )
    parser.add_argument(
        "--build-models",
        action="store_true",
        help="for schemes without their model: count the terms of each set and discard the model afterwards; such a "
        "scheme knows the statistics of the pages in advance",
    )
    parser.add_argument(
        "--verdicts",
        type=file_name,
        metavar="FILE",
        help="JSONL: the verdict of each page, as `spotsieve filter` writes it",
    )
    parser.add_argument(
        "--plot",
        type=local_path,
        metavar="FILE",
        help="also plot precision and recall, F1 over cost, and F1 over the threshold (--sweep): FILE in .svg or .png",
    )
    parser.add_argument(
        "--html",
        type=local_path,
        metavar="FILE",
        help="also write a report in a single file: tables, plots, and the settings and digests used",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; for several sets an object by name")
    # The numbers in the help come from stream/research/scoring/truth.py, which would slow --help down; a test compares
    # them.
    parser.add_argument("--positive", type=float, metavar="SIMILARITY", help="minimum similarity of a duplicate (0.6)")
    parser.add_argument("--negative", type=float, metavar="SIMILARITY", help="novel below this similarity (0.2)")
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Score the sets and return the exit code."""
    if options.labels:
        return _score_labels(options)
    if options.recorded or any(path.is_file() for path in options.sets):
        return _score_files(options)
    from spotsieve.stream.files.outputs import FileOutputs
    from spotsieve.stream.research.evaluation.choices import read_models
    from spotsieve.stream.research.evaluation.planning import ScoreRequest
    from spotsieve.stream.research.evaluation.trial import PAGES_FILE
    from spotsieve.stream.research.labelling.page_texts import TEXTS_FILE
    from spotsieve.stream.research.scoring.truth import NEGATIVE, PAIRS_FILE, POSITIVE, TRUTH_FILE

    options.positive = POSITIVE if options.positive is None else options.positive
    options.negative = NEGATIVE if options.negative is None else options.negative
    _check(options)
    _check_drawing(options)
    names = (PAGES_FILE, PAIRS_FILE, TRUTH_FILE, TEXTS_FILE)
    inputs = [*(str(folder / name) for folder in options.sets for name in names), *options.models]
    outputs_by_flag = {"verdicts": options.verdicts, "plot": options.plot, "html": options.html}
    check_names(outputs_by_flag, inputs, options)
    settings, models = settings_of(options), read_models(options.models)
    outcomes = list["SetResult"]()
    with (
        TemporaryDirectory(prefix="spotsieve-models-") as built,
        FileOutputs.open(out=None, duplicates=None, verdicts=options.verdicts, rejected=None) as outputs,
    ):
        request = ScoreRequest(
            options.schemes,
            options.sweeps,
            settings,
            lambda values: settings_of(options, values),
            models,
            Path(built) if options.build_models else None,
        )
        for folder in options.sets:
            outcomes.append(_score_set(folder, request, options, outputs))
        outputs.complete()
    _show(outcomes, options)
    _draw(outcomes, options)
    return EXIT_OK


def _score_labels(options: argparse.Namespace) -> int:
    """Print the quality of the settings, or of the named schemes, estimated from the labels of a review."""
    from spotsieve.stream.research.evaluation.choices import (
        named_schemes,
        over_given_values,
        over_its_threshold,
        read_models,
        single,
        with_model,
    )
    from spotsieve.stream.research.labelling.estimates import estimate_json, estimate_lines, fresh_text_lines, notes

    if options.recorded:
        rule = "must not be used with --labels"
        raise SettingError("--read-verdicts", rule, options.recorded, "labels score the verdicts of settings")
    _refuse(options, "with --labels")
    labels, settings = reviewed(options)
    models = read_models(options.models)
    if options.sweeps == [THRESHOLD]:
        choices = over_its_threshold(settings, settings.scheme)
    elif options.sweeps:
        choices = over_given_values(options.sweeps, lambda values: settings_of(options, values), models)
    else:
        schemes = [with_model(scheme, models) for scheme in named_schemes(options.schemes, settings)]
        choices = [single(settings, scheme) for scheme in schemes]
    estimates = estimated(options, labels, settings, choices)
    if options.json:
        show_json([estimate_json(one) for one in estimates])
    else:
        show(*estimate_lines(estimates), *notes(estimates, labels), *fresh_text_lines(estimates))
    return EXIT_OK


def _score_files(options: argparse.Namespace) -> int:
    """Print the fresh text of files of pages, by recorded verdicts or by those of the settings or named schemes."""
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.files import check_inputs
    from spotsieve.stream.research.evaluation.choices import read_models
    from spotsieve.stream.research.evaluation.planning import ScoreRequest, choose
    from spotsieve.stream.research.labelling.estimates import crawl_json, crawl_lines, score_choices, score_recorded
    from spotsieve.stream.research.labelling.population import read_verdicts
    from spotsieve.stream.research.scoring.comparison import fresh_lines

    _refuse(options, "without labels")
    settings, models, table = settings_of(options), read_models(options.models), options.schemes or options.sweeps
    if options.recorded and table:
        raise SettingError("--read-verdicts", "must not be used with --scheme or --sweep", None, "score one by one")
    inputs = check_inputs([str(path) for path in options.sets])
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        if options.recorded:
            line.say("reading the texts of the pages")
            recorded = read_verdicts(Path(options.recorded), None)
            scores = {options.recorded: score_recorded(inputs, settings, recorded)}
        else:
            request = ScoreRequest(
                options.schemes, options.sweeps, settings, lambda values: settings_of(options, values), models, None
            )
            choices, left_out = choose(request, models)
            _show_left_out(left_out)
            compile_for(choices, line.say)
            scores = score_choices(inputs, settings, choices, line.say)
    if options.json:
        shown = {name: crawl_json(score) for name, score in scores.items()}
        show_json(shown if table else next(iter(shown.values())))
    elif table:
        show(*fresh_lines({name: score.fresh for name, score in scores.items()}))
    else:
        show(*crawl_lines(next(iter(scores.values()))))
    return EXIT_OK


def _refuse(options: argparse.Namespace, where: str) -> None:
    """Raises SettingError for a flag that only a labelled set can have. where: the use of the command without one"""
    for name in ("build_models", "verdicts", "plot", "html", "positive", "negative"):
        given = getattr(options, name)
        if given is not None and given is not False:  # 0 is a similarity.
            flag = f"--{name.replace('_', '-')}"
            raise SettingError(flag, f"must not be used {where}", None, "it needs a labelled set")


def _score_set(
    folder: Path, request: "ScoreRequest", options: argparse.Namespace, outputs: "FileOutputs"
) -> "SetResult":
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.research.evaluation.planning import plan
    from spotsieve.stream.research.evaluation.trial import SetResult, score_set
    from spotsieve.stream.research.labelling.page_texts import set_texts
    from spotsieve.stream.research.scoring import load_truth

    truth = load_truth(folder, options.positive, options.negative)
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        planned = plan(folder, request, lambda what, done, _: line.say(f"{what} of {folder}: {done:,}"))
        compile_for(planned.choices, line.say)
        line.close()
        _show_left_out(planned.left_out)
        line.say(f"reading the texts of {folder}")
        texts = set_texts(folder, truth.ids, request.settings)
        scored = score_set(folder, truth, planned.choices, line, outputs.verdicts, texts)
    return SetResult(folder, truth, planned.choices, scored, planned.left_out, planned.modelled)


def _show_left_out(left_out: Mapping[str, str]) -> None:
    """Name the schemes that are not scored. left_out: the reason for each"""
    for name, why in left_out.items():
        show(f"spotsieve: skipped {name}: {why}", to=sys.stderr)


def _show(outcomes: Sequence["SetResult"], options: argparse.Namespace) -> None:
    """Print the figures of each set: of one scheme, or a table of several."""
    from spotsieve.stream.research.scoring.comparison import (
        MEANINGS,
        as_text,
        comparison_json,
        comparison_text,
        result_json,
    )
    from spotsieve.stream.research.scoring.fresh_text import fresh_line

    def lines_of(one: "SetResult") -> list[str]:
        if table:
            return comparison_text(one.scored)
        fresh = [] if one.first.fresh is None else [f"text      {fresh_line(one.first.fresh)}"]
        return [*as_text(one.first.scores).split("\n"), *fresh]

    table, several = options.schemes or options.sweeps, len(outcomes) > 1
    if options.json:
        shown = {str(one.folder): comparison_json(one.scored) if table else result_json(one.first) for one in outcomes}
        show_json(shown if several else next(iter(shown.values())))
        return
    for number, one in enumerate(outcomes):
        show(*([""] if number else []), *([str(one.folder)] if several else []), *lines_of(one))
    if table:
        show("", *MEANINGS.split("\n"))


def _draw(outcomes: Sequence["SetResult"], options: argparse.Namespace) -> None:
    """Write the plot and the report. Sets are named by their folders, or by their paths if these names are equal."""
    from spotsieve.stream.files.outputs import write_whole

    names = [one.folder.resolve().name for one in outcomes]
    if len(set(names)) < len(names):
        names = [str(one.folder) for one in outcomes]
    if options.plot:
        from spotsieve.stream.research.evaluation.plots import plot

        write_whole(options.plot, plot(outcomes, names, options.plot.suffix[1:].lower()))
    if options.html:
        from spotsieve.stream.research.evaluation.report import html_page

        write_whole(options.html, html_page(outcomes, names, datetime.now(UTC)).encode())


def _check_drawing(options: argparse.Namespace) -> None:
    """Raises SettingError, before any work, if the plot or the report could not be written afterwards."""
    for flag, path, needed, endings in (
        ("--plot", options.plot, ("matplotlib",), (".svg", ".png")),
        ("--html", options.html, ("matplotlib", "jinja2"), (".html", ".htm")),
    ):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise SettingError(flag, f"must end in {' or '.join(endings)}", str(path), "choose another name")
        if not path.absolute().parent.is_dir() or path.is_dir():
            raise SettingError(flag, "must be a file in a folder that exists", str(path), "create the folder first")
        for package in needed:
            if importlib.util.find_spec(package) is None:
                then = "run: pip install 'spotsieve[report]'"
                raise SettingError(flag, f"needs the Python package {package}", None, then)


def _check(options: argparse.Namespace) -> None:
    several = len(options.schemes) > 1 or ALL in options.schemes
    if options.verdicts and len(options.sets) > 1:
        raise SettingError("--verdicts", "needs a single SET", len(options.sets), "score the sets one by one")
    if options.verdicts and several:
        raise SettingError("--verdicts", "needs a single scheme", ", ".join(options.schemes), "score them one by one")
    if options.sweeps and options.verdicts:
        raise SettingError("--sweep", "must not be used with --verdicts", None, "score the choices one by one")
    if THRESHOLD in options.sweeps and len(options.sweeps) > 1:
        rule = f"must be {THRESHOLD} alone, or NAME=VALUES"
        raise SettingError("--sweep", rule, ", ".join(options.sweeps), "sweep one by one")
    if options.sweeps and several and THRESHOLD not in options.sweeps:
        schemes = f"--scheme {' '.join(options.schemes)}"
        then = "sweep the schemes one by one, or use --sweep without a value for the threshold of each scheme"
        raise SettingError("--sweep", "with a setting needs a single scheme", schemes, then)
    for flag, bound in (("--positive", options.positive), ("--negative", options.negative)):
        if not 0 <= bound <= 1:
            raise SettingError(flag, "must be a similarity in 0..1", bound, "such as 0.6")
    if not options.negative <= options.positive:
        raise SettingError("--negative", "must be at most --positive", options.negative, "swap the bounds")
