"""`spotsieve calibrate` finds settings by a sample: a threshold by labels, or a table of sampling ratios."""

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import add_settings_arguments, file_name, settings_of

if TYPE_CHECKING:
    from spotsieve.stream.research.models.sampling import SizeClass

CALIBRATED = "adaptive-shingles"
SIZES = "500,1000,2000,3000,5000"
LARGEST_SMALLEST = 64
ABOUT = """FILES as of `spotsieve filter`. With --labels, which the page of `spotsieve review` exports, they are those
that were reviewed: they are filtered under every value of the scheme's threshold, and the value with the greatest
recall of those that reach --precision is taken, or that with the greatest F1. Precision and recall are estimated from
the labels, by the strata that they were drawn from, with intervals of 95 %; the interval of `lost` is that of the
precision. Without --labels, for adaptive-shingles: a sample of some thousand pages of the crawl is enough, and of more
than 10,000 different texts the first are taken. For each class of pages, by their words, all pairs are compared by all
shingles and by samples of 1/2, 1/4, ... of them. The precision of a ratio is the share of the pairs found with
sampling that are found without, on average over the samples of all remainders. The smallest ratio that reaches
--precision is taken, 1/1 if none does; a class in which no pair is found takes the ratio of the class below it. w,
resemblance and min_shingles are those of the settings. What is printed goes into the configuration. Exit codes: 0
printed; 2 wrong setting or usage; 3 a file that cannot be read, labels of other pages, or fewer than two texts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve calibrate`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages; - is standard input")
    parser.add_argument(
        "--labels", type=file_name, metavar="LABELS", help="JSONL: labels that the page of `spotsieve review` exported"
    )
    parser.add_argument("--scheme", metavar="NAME", help=f"without --labels: {CALIBRATED}")
    parser.add_argument(
        "--precision", type=float, help="least precision, such as .8; without --labels: of every class of pages"
    )
    parser.add_argument(
        "--sizes", default=SIZES, metavar="WORDS,...", help="words at which the next class begins (%(default)s)"
    )
    parser.add_argument(
        "--smallest", type=int, default=16, metavar="N", help="smallest ratio that is tried: 1/N (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Measure and print the settings; the exit code."""
    return _by_labels(options) if options.labels else _by_sampling(options)


def _by_labels(options: argparse.Namespace) -> int:
    """Print what each value of the threshold is worth by the labels, and the lines of the one to take."""
    from spotsieve.stream.cli.options import estimated, reviewed
    from spotsieve.stream.research.labelling.estimates import (
        estimate_json,
        estimate_lines,
        notes,
        recommend,
        threshold_choices,
    )

    if options.precision is not None:
        _check_precision(options.precision)
    if options.scheme is not None:
        then = f"without --labels it finds the ratios of {CALIBRATED}"
        raise SettingError("--scheme", "must not stand beside --labels, which name it", options.scheme, then)
    labels, settings = reviewed(options)
    found = estimated(options, labels, settings, threshold_choices(settings))
    taken = recommend(found, options.precision)
    missed = options.precision is not None and (taken.precision is None or taken.precision.value < options.precision)
    if options.json:
        figures = {
            "review": labels.review,
            "labels": len(labels.later),
            "skipped": labels.skipped,
            "recommended": taken.choice.name,
            "reaches_precision": not missed,
            "choices": [estimate_json(one) for one in found],
        }
        show(*json.dumps(figures, indent=2).split("\n"))
        return EXIT_OK
    show(*(f"# {line}" for line in (*notes(found, labels), *estimate_lines(found))))
    if missed:
        show(f"# no value reaches a precision of {options.precision:g}: this is the most precise")
    own, threshold = taken.choice.settings.scheme, taken.choice.settings.scheme.threshold
    names = (threshold.setting, *threshold.beside(getattr(own, threshold.setting)))
    lines = [f"{name} = {json.dumps(getattr(own, name))}" for name in names]
    show(f"# recommended{': as it is set' * taken.choice.own}", "[scheme]", f'name = "{own.name}"', *lines)
    return EXIT_OK


def _by_sampling(options: argparse.Namespace) -> int:
    """Print the table of sizes and ratios of adaptive-shingles."""
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.base.settings.schemes import AdaptiveShinglesSettings
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.research.models.page_sample import read_sample
    from spotsieve.stream.research.models.sampling import choose_ratios, merged, share_processed

    sizes = _checked(options)
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
        found = {
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
        show(*json.dumps(found, indent=2).split("\n"))
        return EXIT_OK
    show(f"# {sample.pages:,} pages, {len(sample):,} different texts; precision of each ratio, by words of a page")
    show(*(f"# {row}" for row in class_lines(classes, ratios)))
    show(f"# {share:.1%} of the shingles are sampled", "[scheme]", f'name = "{CALIBRATED}"', f"w = {own.w}")
    show(f"resemblance = {own.resemblance}", f"min_shingles = {own.min_shingles}")
    show(f"sizes = {json.dumps(table[0])}", f"ratios = {json.dumps(table[1])}")
    return EXIT_OK


def class_json(one: "SizeClass", ratio: int) -> dict[str, Any]:
    """A class with its figures by name; precision and recall by n of the ratio 1/n."""
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
    """A table for people: the titles, then a line for each class."""
    levels = range(1, len(classes[0].trials.found))
    rows = [["words", "pages", "shingles", "pairs", *(f"1/{1 << level}" for level in levels), "taken"]]
    for one, ratio in zip(classes, ratios, strict=True):
        found = [one.trials.precision(level) for level in levels]
        shares = ["-" if value is None else f"{value:.3f}" for value in found]
        counts = [f"{one.pages:,}", f"{one.trials.sampled[0]:,.0f}", f"{one.trials.similar:,}"]
        rows.append([f">= {one.words}", *counts, *shares, f"1/{ratio}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _check_precision(precision: float) -> None:
    """Raises SettingError for one that is no share."""
    if not 0 < precision <= 1:
        raise SettingError("--precision", "must be above 0 and at most 1", precision, "such as .8")


def _checked(options: argparse.Namespace) -> list[int]:
    """The sizes. Raises SettingError for a wrong flag."""
    from spotsieve.stream.sign.features.shingles import check_sizes

    if options.scheme is None or options.precision is None:
        absent = "--precision" if options.scheme else "--scheme"
        then = "give --labels to find a threshold, or --scheme and --precision"
        raise SettingError(absent, "must be given where there is no --labels", None, then)
    if options.scheme != CALIBRATED:
        raise SettingError("--scheme", f"must be {CALIBRATED}", options.scheme, "the other schemes sample nothing")
    _check_precision(options.precision)
    smallest = options.smallest
    if not 2 <= smallest <= LARGEST_SMALLEST or smallest & (smallest - 1):
        rule = f"must be a power of two in 2..{LARGEST_SMALLEST}"
        raise SettingError("--smallest", rule, smallest, "16 tries 1/2, 1/4, 1/8 and 1/16")
    try:
        sizes = [int(size) for size in options.sizes.split(",")]
    except ValueError:
        raise SettingError("--sizes", "must be whole numbers", options.sizes, f"such as {SIZES}") from None
    check_sizes("--sizes", sizes)
    return sizes
