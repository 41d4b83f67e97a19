"""`spotsieve review` draws pairs of your own pages and writes an HTML page, to label them by eye."""

import argparse
import contextlib
import sys
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK, InputError, SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import (
    NEWEST_PAGES,
    add_force_argument,
    add_scheme_arguments,
    add_settings_arguments,
    check_names,
    check_rereadable,
    local_file,
    save_newest,
    settings_of,
)

MAX_PAIRS = 5_000
ABOUT = """Reads the same files as `spotsieve filter`, several times, and therefore no standard input. With --topic, the
newest pages of the input topic are first saved as PAGE.pages.jsonl.zst, which `spotsieve calibrate` reads later. Pairs
are dropped pages with their originals, and near misses: novel pages that the loosest threshold of the scheme would
drop, with the most similar earlier page. The sample is stratified by verdict, reason, hosts, score and fresh text; each
stratum gets a share by the square root of its size, and the same --seed draws the same pairs. Dropped pages with much
text that their original lacks (`spotsieve score --help`) come first. Without --verdicts, the pages are judged as by
`spotsieve filter` without a state. PAGE is a single file that loads nothing: open it in a browser, label the pairs, and
export labels.jsonl for `spotsieve calibrate --labels` and `spotsieve score --labels`. Exit codes: 0 written; 2 wrong
setting or usage; 3 a file that cannot be read, verdicts of other pages, or nothing to review; 5 the broker cannot be
reached."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve review`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of pages")
    parser.add_argument(
        "--topic",
        action="store_true",
        help="instead of FILES: the newest pages of the input topic (topics.input), which are saved next to PAGE",
    )
    parser.add_argument(
        "--newest",
        type=int,
        metavar="N",
        help=f"with --topic: about this many pages ({NEWEST_PAGES})",
    )
    parser.add_argument("-o", "--out", type=local_file, required=True, metavar="PAGE", help="the HTML file to write")
    parser.add_argument(
        "--verdicts",
        type=local_file,
        metavar="FILE",
        help="the verdicts to review (of filter, or the directory of backfill)",
    )
    parser.add_argument("--pairs", type=int, default=200, metavar="N", help="number of pairs (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed draws other pairs (%(default)s)")
    add_force_argument(parser)
    add_scheme_arguments(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Draw the pairs, write the page, and return the exit code."""
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.files.outputs import write_whole
    from spotsieve.stream.research.labelling.population import DROPPED, draw, find_population, read_verdicts
    from spotsieve.stream.research.labelling.review_page import review_page
    from spotsieve.stream.research.scoring.fresh_text import fresh_line
    from spotsieve.stream.sign.schemes.registry import scheme_of

    _check(options)
    settings = settings_of(options)
    if options.topic:
        save_newest(settings, options.files[0], options.newest)
    inputs = check_inputs(options.files)
    recorded = read_verdicts(Path(options.verdicts), settings.scheme.name) if options.verdicts else None
    with contextlib.closing(ProgressLine(sys.stderr, total_bytes(inputs))) as line:
        compile_kernels(scheme_of(settings.scheme), line.say)
        population = find_population(inputs, settings, recorded, line.update)
        if not population.pairs:
            rule = f"have nothing to review: of {len(population.ids):,} pages none was dropped, and none is a near miss"
            raise InputError("FILES", rule, None, "use more pages of the crawl, with copies among them")
        strata = draw(population, options.pairs, options.seed)
        line.say("writing the review page")
        content = review_page(inputs, settings, population, strata, options.seed)
    write_whole(Path(options.out), content)
    drawn = [pair for stratum in strata for pair in stratum.drawn]
    dropped = sum(pair.drawn == DROPPED for pair in drawn)
    all_dropped = sum(pair.drawn == DROPPED for pair in population.pairs)
    near = len(population.pairs) - all_dropped
    show(
        f"{len(drawn):,} pairs in {options.out}, {len(content) / 1e6:.1f} MB: open it in a browser",
        f"  {dropped:,} of {all_dropped:,} dropped pages, {len(drawn) - dropped:,} of {near:,} near misses, "
        f"of {len(population.ids):,} pages",
        f"  {fresh_line(population.fresh)}",
    )
    for number, what in (
        (population.absent, "dropped pages were skipped: their originals are not in the files"),
        (population.unjudged, "pages were skipped: they have no verdict"),
        (population.repeated, "pages were skipped: an earlier page has their id"),
    ):
        if number:
            show(f"  {number:,} {what}")
    return EXIT_OK


def _check(options: argparse.Namespace) -> None:
    """Raises SettingError for a wrong flag. With --topic, options.files becomes the file for its pages."""
    if bool(options.files) == options.topic:
        rule = "must be given, or --topic" if not options.topic else "must not be used with --topic"
        raise SettingError("FILES", rule, " ".join(options.files) or None, "use one source of pages")
    if options.newest is not None and not options.topic:
        raise SettingError("--newest", "needs --topic, whose pages it counts", options.newest, "leave it out")
    options.newest = NEWEST_PAGES if options.newest is None else options.newest
    if options.newest < 1:
        raise SettingError("--newest", "must be at least 1", options.newest, f"{NEWEST_PAGES} pages give enough pairs")
    check_rereadable("FILES", options.files)
    if not 1 <= options.pairs <= MAX_PAIRS:
        raise SettingError(
            "--pairs", f"must be in 1..{MAX_PAIRS}", options.pairs, "200 pairs take about an hour to label"
        )
    if Path(options.out).suffix.lower() not in (".html", ".htm"):
        raise SettingError("--out", "must end in .html or .htm", options.out, "choose another name")
    if not Path(options.out).absolute().parent.is_dir():
        raise SettingError("--out", "must be in a folder that exists", options.out, "create the folder first")
    if options.topic:
        pages = str(Path(options.out).with_suffix(".pages.jsonl.zst"))
        check_names({"out": options.out, "topic": pages}, [], options)
        options.files = [pages]
        return
    check_names({"out": options.out}, [*options.files, *filter(None, [options.verdicts])], options)
