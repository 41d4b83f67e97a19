"""`spotsieve sample` makes a labelled set of one's own pages, in which copies are planted."""

import argparse
import contextlib
import sys
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK, InputError, SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import add_force_argument, add_settings_arguments, check_new, directory, settings_of

MOST_PAGES = 20_000
ABOUT = """FILES as of `spotsieve filter`. SET is a folder as `spotsieve score` reads it. Of the text pages --pages
are taken, by digests of their texts, so that pages with one text are taken together. Copies of --copies of them are
planted at later places: the text is edited by a known size, and half of them stand in the template of another page.
Pages of one text are copies too; other pages that are alike do not count, since nobody knows whether they are copies.
Pages with fewer than 20 words of their own are left out. Exit codes: 0 written; 2 wrong setting or usage; 3 a file
that cannot be read, or no page to plant a copy of."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve sample`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages; - is standard input")
    parser.add_argument("-o", "--out", type=directory, required=True, metavar="SET", help="the folder to write")
    parser.add_argument("--pages", type=int, default=2_000, metavar="N", help="how many pages to take (%(default)s)")
    parser.add_argument(
        "--copies", type=float, default=0.25, metavar="SHARE", help="share of them that get a copy (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed takes others (%(default)s)")
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Take pages, plant copies, write the set; the exit code."""
    from spotsieve.stream.base.progress import COMPILING, ProgressLine
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.research.labelling.distinctive_text import FEWEST_WORDS, PageSample, read_own
    from spotsieve.stream.research.labelling.planting import ABOUT as EDITS
    from spotsieve.stream.research.labelling.planting import FEWEST_COPIED_WORDS, PlantedEdit, plant
    from spotsieve.stream.research.labelling.set_files import EXACT, count_kinds, pairs_of, write_set
    from spotsieve.stream.research.models.term_counter import batches_of

    _check(options)
    settings = settings_of(options)
    inputs = check_inputs(options.files)
    chosen = PageSample(options.pages, options.seed)
    with contextlib.closing(ProgressLine(sys.stderr, total_bytes(inputs))) as line:
        line.say(COMPILING)
        for batch, bytes_read in batches_of(inputs, settings):
            chosen.add(batch)
            line.update(chosen.pages, 0, bytes_read)
        line.say("reading the texts")
        taken = chosen.taken()
        pages = read_own(taken)
        stream = plant(pages, options.copies, options.seed)
        line.say("comparing the texts")
        pairs = pairs_of(stream, pages)
    kinds = list(count_kinds(stream, pairs))
    if not chosen.pages:
        raise InputError("FILES", "must hold pages of text, and hold none", None, "give the files of a crawl")
    if not kinds:
        rule = f"hold no copies, and no page to plant one of: of {chosen.pages:,} pages none has the words"
        then = f"give pages of at least {FEWEST_COPIED_WORDS} words beside their template, or raise --copies"
        raise InputError("FILES", rule, None, then)
    write_set(options.out, stream, pairs)
    show(
        f"{len(stream):,} pages in {options.out}: {len(pages):,} of {chosen.pages:,} pages, and planted copies of them"
    )
    about = {**{kind.value: EDITS[kind] for kind in PlantedEdit}, EXACT: "pages with the text of an earlier one"}
    show(*(f"  {kind:<12}{number:>6}  {about[kind]}" for kind, number in kinds))
    for number, what in (
        (len(taken) - len(pages), f"pages were left out: they have fewer than {FEWEST_WORDS} words of their own"),
        (chosen.repeated, "pages were left out: an earlier page has their id"),
    ):
        if number:
            show(f"  {number:,} {what}")
    return EXIT_OK


def _check(options: argparse.Namespace) -> None:
    """Raises SettingError for a wrong flag."""
    from spotsieve.stream.research.evaluation.trial import PAGES_FILE
    from spotsieve.stream.research.scoring.truth import PAIRS_FILE, TRUTH_FILE

    if not 2 <= options.pages <= MOST_PAGES:
        raise SettingError("--pages", f"must be in 2..{MOST_PAGES}", options.pages, "2000 give figures to the percent")
    if not 0 <= options.copies <= 1:
        raise SettingError("--copies", "must be a share in 0..1", options.copies, "such as .25")
    out: Path = options.out
    if out.exists() and not out.is_dir():
        raise SettingError("--out", "must be a folder", str(out), "choose another name")
    if not options.force:
        for name in (PAGES_FILE, PAIRS_FILE, TRUTH_FILE):
            check_new({"out": out / name})
