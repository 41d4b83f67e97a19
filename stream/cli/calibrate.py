"""`spotsieve calibrate` finds settings: a threshold from labels, or a table of sampling ratios from a sample."""

import argparse
import contextlib
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.options import add_settings_arguments, estimated, local_file, reviewed, settings_of, show_json

if TYPE_CHECKING:
    from spotsieve.stream.research.models.sampling import SizeClass

CALIBRATED = "adaptive-shingles"
SIZES = "500,1000,2000,3000,5000"
SMALLEST = 16
LARGEST_SMALLEST = 64
_COMMENT = "# "
ABOUT = """Reads the same files as `spotsieve filter`, and prints lines for the configuration. With --labels, which the
page of `spotsieve review` exports, FILES are the reviewed files. They are filtered with every value of the scheme's
threshold. Of the values that reach --precision, the one with the highest recall is recommended; without --precision,
the one with the highest F1. Precision and recall are estimated from the labels and the strata of the review, with
intervals of 95 %; `lost` has the interval of the precision. A second table has the verdicts by fresh text, which needs
no labels (`spotsieve score --help`). Without --labels, for adaptive-shingles: a sample of some
thousand pages is enough, and at most 10,000 distinct texts are used. In each class of pages, by number of words, all
pairs are compared by all shingles and by samples of 1/2, 1/4, ... of them. The precision of a ratio is the share of the
pairs found with sampling that are also found without, averaged over the samples of all remainders. The smallest ratio
that reaches --precision is recommended, or 1/1; a class without pairs gets the ratio of the class below it. w,
resemblance and min_shingles come from the settings. Exit codes: 0 printed; 2 wrong setting or usage; 3 a file that
cannot be read, labels of other pages, or fewer than two texts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve calibrate`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages; - is standard input")
    parser.add_argument(
        "--labels", type=local_file, metavar="LABELS", help="JSONL: labels that the page of `spotsieve review` exported"
    )
    parser.add_argument("--scheme", metavar="NAME", help=f"without --labels: {CALIBRATED}")
    parser.add_argument(
        "--precision", type=float, help="minimum precision, such as 0.8; without --labels: for every class of pages"
    )
    parser.add_argument(
        "--sizes", metavar="WORDS,...", help=f"without --labels: first size of each further class ({SIZES})"
    )
    parser.add_argument(
        "--smallest", type=int, metavar="N", help=f"without --labels: smallest ratio to try, 1/N ({SMALLEST})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Measure and print the settings; returns the exit code."""
    return _by_labels(options) if options.labels else _by_sampling(options)


def _by_labels(options: argparse.Namespace) -> int:
    """Print the estimated quality of each value of the threshold, and the settings of the recommended one."""
    from spotsieve.stream.research.evaluation.choices import over_its_threshold
    from spotsieve.stream.research.labelling.estimates import (
        estimate_json,
        estimate_lines,
        fresh_text_lines,
        notes,
        recommend,
    )

    if options.precision is not None:
        _check_precision(options.precision)
    if options.scheme is not None:
        then = f"leave it out; without --labels, it selects the ratios of {CALIBRATED}"
        raise SettingError("--scheme", "must not be used with --labels, which name the scheme", options.scheme, then)
    for name in ("sizes", "smallest"):
        if getattr(options, name) is not None:
            rule = f"must not be used with --labels, because it is for the ratios of {CALIBRATED}"
            raise SettingError(f"--{name}", rule, getattr(options, name), "leave it out")
    labels, settings = reviewed(options)
    estimates = estimated(options, labels, settings, over_its_threshold(settings, settings.scheme))
    best = recommend(estimates, options.precision)
    missed = options.precision is not None and (best.precision is None or best.precision.value < options.precision)
    if options.json:
        figures = {
            "review": labels.review,
            "labels": len(labels.later),
            "skipped": labels.skipped,
            "recommended": best.choice.name,
            "reaches_precision": not missed,
            "choices": [estimate_json(one) for one in estimates],
        }
        show_json(figures)
        return EXIT_OK
    width = shutil.get_terminal_size().columns - len(_COMMENT) if sys.stdout.isatty() else None
    lines = (*notes(estimates, labels), *estimate_lines(estimates, width), *fresh_text_lines(estimates, width))
    show(*(f"{_COMMENT}{line}" for line in lines))
    if missed:
        show(f"# no value reaches a precision of {options.precision:g}: this is the most precise value")
    own, threshold = best.choice.settings.scheme, best.choice.settings.scheme.threshold
    names = (threshold.setting, *threshold.beside(getattr(own, threshold.setting)))
    values = [f"{name} = {json_text(getattr(own, name))}" for name in names]
    show(f"# recommended{': the configured value' * best.choice.own}", "[scheme]", f'name = "{own.name}"', *values)
    return EXIT_OK


def _by_sampling(options: argparse.Namespace) -> int:
    """Print the table of sizes and ratios for adaptive-shingles."""
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.base.settings.schemes import AdaptiveShinglesSettings
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.research.models.sampling import choose_ratios, merged, read_sample, share_processed

    sizes = _checked_sizes(options)
    settings = settings_of(options)
    own = settings.scheme if isinstance(settings.scheme, AdaptiveShinglesSettings) else AdaptiveShinglesSettings()
    inputs = check_inputs(options.files)
    line = ProgressLine(sys.stderr, total_bytes(inputs))
    with contextlib.closing(line):
        sample = read_sample(inputs, settings, own.w, line.update)
        line.say(f"comparing {len(sample):,} texts")
        levels = options.smallest.bit_length()
        classes = list(sample.classes(sizes, own.resemblance, own.min_shingles, levels))
    ratios = choose_ratios(classes, options.precision)
    share = share_processed(classes, ratios)
    table = merged([one.words for one in classes], ratios)
    if options.json:
        facts = {
            "pages": sample.pages,
            "texts": len(sample),
            "precision": options.precision,
            "w": own.w,
            "resemblance": own.resemblance,
            "min_shingles": own.min_shingles,
            "sizes": table[0],
            "ratios": table[1],
            "share_processed": share,
            "classes": [class_json(one, ratio) for one, ratio in zip(classes, ratios, strict=True)],
        }
        show_json(facts)
        return EXIT_OK
    show(f"# {sample.pages:,} pages, {len(sample):,} distinct texts; precision of each ratio, by words of a page")
    show(*(f"# {row}" for row in class_lines(classes, ratios)))
    show(f"# {share:.1%} of the shingles are sampled", "[scheme]", f'name = "{CALIBRATED}"', f"w = {own.w}")
    show(f"resemblance = {own.resemblance}", f"min_shingles = {own.min_shingles}")
    show(f"sizes = {json_text(table[0])}", f"ratios = {json_text(table[1])}")
    return EXIT_OK


def class_json(one: "SizeClass", ratio: int) -> dict[str, Any]:
    """A size class as JSON; precision and recall by the n of the ratio 1/n."""
    levels = range(len(one.trials.found))
    return {
        "words": one.words,
        "pages": one.pages,
        "shingles": round(one.trials.sampled[0]),
        "pairs": one.trials.similar,
        "precision": {str(1 << level): one.trials.precision(level) for level in levels},
        "recall": {str(1 << level): one.trials.recall(level) for level in levels},
        "ratio": ratio,
    }


def class_lines(classes: Sequence["SizeClass"], ratios: Sequence[int]) -> list[str]:
    """The size classes as a table with a heading."""
    levels = range(1, len(classes[0].trials.found))
    rows = [["words", "pages", "shingles", "pairs", *(f"1/{1 << level}" for level in levels), "chosen"]]
    for one, ratio in zip(classes, ratios, strict=True):
        precisions = [one.trials.precision(level) for level in levels]
        shares = ["-" if value is None else f"{value:.3f}" for value in precisions]
        counts = [f"{one.pages:,}", f"{one.trials.sampled[0]:,.0f}", f"{one.trials.similar:,}"]
        rows.append([f">= {one.words}", *counts, *shares, f"1/{ratio}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _check_precision(precision: float) -> None:
    """Raises SettingError unless the precision is in (0, 1]."""
    if not 0 < precision <= 1:
        raise SettingError("--precision", "must be above 0 and at most 1", precision, "such as 0.8")


def _checked_sizes(options: argparse.Namespace) -> list[int]:
    """The value of --sizes. Raises SettingError for a wrong flag."""
    from spotsieve.stream.sign.features.shingles import check_sizes

    if options.scheme is None or options.precision is None:
        absent = "--precision" if options.scheme else "--scheme"
        then = "use --labels to find a threshold, or --scheme and --precision"
        raise SettingError(absent, "must be given without --labels", None, then)
    if options.scheme != CALIBRATED:
        raise SettingError("--scheme", f"must be {CALIBRATED}", options.scheme, "the other schemes do not sample")
    _check_precision(options.precision)
    smallest = options.smallest = SMALLEST if options.smallest is None else options.smallest
    if not 2 <= smallest <= LARGEST_SMALLEST or smallest & (smallest - 1):
        rule = f"must be a power of two in 2..{LARGEST_SMALLEST}"
        raise SettingError("--smallest", rule, smallest, "16 tries 1/2, 1/4, 1/8 and 1/16")
    try:
        sizes = [int(size) for size in (options.sizes or SIZES).split(",")]
    except ValueError:
        raise SettingError("--sizes", "must be whole numbers", options.sizes, f"such as {SIZES}") from None
    check_sizes("--sizes", sizes)
    return sizes
