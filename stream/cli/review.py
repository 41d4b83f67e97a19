"""`spotsieve review` draws pairs of one's own pages and writes them as an HTML page, to be judged by eye."""

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
    file_name,
    save_newest,
    settings_of,
)

MOST_PAIRS = 5_000
ABOUT = """FILES as of `spotsieve filter`; they are read twice, so none is standard input. With --topic the newest
pages of the input topic are saved as PAGE.pages.jsonl.zst first, which `spotsieve calibrate` reads later. Pairs are
dropped pages with their originals, and near misses: pages that passed and that the loosest setting of the
scheme would drop, with their nearest earlier page. They are drawn by verdict, reason, hosts and score,
each stratum by the root of its size, the same ones for the same --seed. Without --verdicts the pages are judged as
`spotsieve filter` without a state does. PAGE is one file that loads nothing: open it in a browser, judge, and export
labels.jsonl, which `spotsieve calibrate --labels` and `spotsieve score --labels` read. Exit codes: 0 written; 2 wrong
setting or usage; 3 a file that cannot be read, verdicts of other pages, or nothing to review; 5 the broker is not
reached."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve review`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="*", metavar="FILE", help="files of pages")
    parser.add_argument(
        "--topic",
        action="store_true",
        help="in place of FILES: the newest pages of the input topic (topics.input), which are saved beside PAGE",
    )
    parser.add_argument(
        "--newest", type=int, default=NEWEST_PAGES, metavar="N", help="of --topic: about so many (%(default)s)"
    )
    parser.add_argument("-o", "--out", type=file_name, required=True, metavar="PAGE", help="the HTML file to write")
    parser.add_argument(
        "--verdicts", type=file_name, metavar="FILE", help="JSONL: the verdicts that are reviewed (filter --verdicts)"
    )
    parser.add_argument("--pairs", type=int, default=200, metavar="N", help="how many to draw (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed draws others (%(default)s)")
    add_force_argument(parser)
    add_scheme_arguments(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Draw the pairs and write the page; the exit code."""
    from spotsieve.stream.base.progress import COMPILING, ProgressLine
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.files.outputs import write_whole
    from spotsieve.stream.research.labelling.population import DROPPED, draw, find_population, read_verdicts
    from spotsieve.stream.research.labelling.review_page import review_page
    from spotsieve.stream.sign.schemes.registry import scheme_of

    _check(options)
    settings = settings_of(options)
    if options.topic:
        save_newest(settings, options.files[0], options.newest)
    inputs = check_inputs(options.files)
    recorded = read_verdicts(Path(options.verdicts), settings.scheme.name) if options.verdicts else None
    with contextlib.closing(ProgressLine(sys.stderr, total_bytes(inputs))) as line:
        line.say(COMPILING)
        compile_kernels(scheme_of(settings.scheme))
        population = find_population(inputs, settings, recorded, line.update)
        if not population.pairs:
            rule = f"have nothing to review: of {len(population.ids):,} pages none was dropped, and none came near"
            raise InputError("FILES", rule, None, "give more of the crawl, in which pages meet their copies")
        strata = draw(population, options.pairs, options.seed)
        line.say("laying the pages side by side")
        content = review_page(inputs, settings, population, strata, options.seed)
    write_whole(Path(options.out), content)
    drawn = [pair for stratum in strata for pair in stratum.drawn]
    dropped = sum(pair.drawn == DROPPED for pair in drawn)
    known = sum(pair.drawn == DROPPED for pair in population.pairs)
    near = len(population.pairs) - known
    show(
        f"{len(drawn):,} pairs in {options.out}, {len(content) / 1e6:.1f} MB: open it in a browser",
        f"  {dropped:,} of {known:,} dropped pages, {len(drawn) - dropped:,} of {near:,} near misses, "
        f"of {len(population.ids):,} pages",
    )
    for number, what in (
        (population.absent, "dropped pages are left out: their originals are not among the files"),
        (population.unjudged, "pages are left out: they have no verdict"),
        (population.repeated, "pages are left out: an earlier page has their id"),
    ):
        if number:
            show(f"  {number:,} {what}")
    return EXIT_OK


def _check(options: argparse.Namespace) -> None:
    """Raises SettingError for a wrong flag. With --topic, the file for its pages becomes the one of FILES."""
    if bool(options.files) == options.topic:
        rule = "must be given, or --topic" if not options.topic else "must not be given beside --topic"
        raise SettingError("FILES", rule, " ".join(options.files) or None, "say where the pages are, once")
    if options.newest < 1:
        raise SettingError("--newest", "must be at least 1", options.newest, f"{NEWEST_PAGES} give enough pairs")
    if "-" in options.files:
        raise SettingError("FILES", "must be files, which are read twice", "-", "write standard input to a file first")
    if not 1 <= options.pairs <= MOST_PAIRS:
        raise SettingError("--pairs", f"must be in 1..{MOST_PAIRS}", options.pairs, "200 take about an hour to judge")
    if Path(options.out).suffix.lower() not in (".html", ".htm"):
        raise SettingError("--out", "must end in .html or .htm", options.out, "choose another name")
    if not Path(options.out).absolute().parent.is_dir():
        raise SettingError("--out", "must be in a folder that exists", options.out, "make the folder first")
    if options.topic:
        pages = str(Path(options.out).with_suffix(".pages.jsonl.zst"))
        check_names({"out": options.out, "topic": pages}, [], False, options.force)
        options.files = [pages]
        return
    check_names({"out": options.out}, [*options.files, *filter(None, [options.verdicts])], False, options.force)
