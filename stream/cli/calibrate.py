"""`spotsieve calibrate` finds a scheme's table of sizes and sampling ratios, from a sample and a wished precision."""

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spotsieve.stream.cli.settings import add_settings_arguments, settings_of
from spotsieve.stream.errors import EXIT_OK, SettingError
from spotsieve.stream.text_safety import show

if TYPE_CHECKING:
    from spotsieve.stream.models.sampling_trials import SizeClass

CALIBRATED = "adaptive-shingles"
SIZES = "500,1000,2000,3000,5000"
LARGEST_SMALLEST = 64
ABOUT = """FILES as of `spotsieve filter`; a sample of some thousand pages of the crawl is enough, and of more than
10,000 different texts the first are taken. For each class of pages, by their words, all pairs are compared by all
shingles and by samples of 1/2, 1/4, ... of them. The precision of a ratio is the share of the pairs found with
sampling that are found without, on average over the samples of all remainders. The smallest ratio that reaches
--precision is taken, 1/1 if none does; a class in which no pair is found takes the ratio of the class below it. w,
resemblance and min_shingles are those of the settings. What is printed goes into the configuration. Exit codes: 0
printed; 2 wrong setting or usage; 3 a file that cannot be read, or fewer than two texts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve calibrate`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages; - is standard input")
    parser.add_argument("--scheme", required=True, metavar="NAME", help=f"the scheme: {CALIBRATED}")
    parser.add_argument("--precision", required=True, type=float, help="least precision of every class, such as .8")
    parser.add_argument(
        "--sizes", default=SIZES, metavar="WORDS,...", help="words at which the next class begins (%(default)s)"
    )
    parser.add_argument(
        "--smallest", type=int, default=16, metavar="N", help="smallest ratio that is tried: 1/N (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Measure and print the table; the exit code."""
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.models.calibrating import read_sample
    from spotsieve.stream.models.sampling_trials import choose_ratios, merged, share_processed
    from spotsieve.stream.progress import ProgressLine
    from spotsieve.stream.settings.schemes import AdaptiveShinglesSettings

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


def _checked(options: argparse.Namespace) -> list[int]:
    """The sizes. Raises SettingError for a wrong flag."""
    from spotsieve.stream.features.sampling import check_sizes

    if options.scheme != CALIBRATED:
        raise SettingError("--scheme", f"must be {CALIBRATED}", options.scheme, "the other schemes sample nothing")
    if not 0 < options.precision <= 1:
        raise SettingError("--precision", "must be above 0 and at most 1", options.precision, "such as .8")
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
