"""`spotsieve sample` makes a labelled set from your own pages, with planted copies."""

import argparse
import contextlib
import sys
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK, InputError, SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_settings_arguments,
    check_names,
    local_path,
    settings_of,
)

MAX_PAGES = 20_000
ABOUT = """Reads the same files as `spotsieve filter`, and writes the folder SET for `spotsieve score`. --pages of the
text pages are chosen by digests of their texts, so that pages with equal texts are chosen together. For --copies of
them, copies are planted later in the stream: the text is edited to a known extent, and half of the copies use the
template of another page. Pages with equal texts are copies, too; other similar pages are ignored, because they may or
may not be copies. Pages with fewer than 20 words of distinctive text are skipped. Exit codes: 0 written; 2 wrong
setting or usage; 3 a file that cannot be read, or no page that a copy can be made of."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve sample`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages; - is standard input")
    parser.add_argument("-o", "--out", type=local_path, required=True, metavar="SET", help="the folder to write")
    parser.add_argument("--pages", type=int, default=2_000, metavar="N", help="number of pages to choose (%(default)s)")
    parser.add_argument(
        "--copies", type=float, default=0.25, metavar="SHARE", help="share of these pages that get a copy (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another seed chooses other pages (%(default)s)"
    )
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Choose pages, plant copies, write the set, and return the exit code."""
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.engine.warmup import announced_compiling
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.research.labelling.distinctive_text import FEWEST_WORDS, PageSample, read_own
    from spotsieve.stream.research.labelling.planting import ABOUT as EDITS
    from spotsieve.stream.research.labelling.planting import (
        EXACT,
        FEWEST_COPIED_WORDS,
        PlantedEdit,
        count_kinds,
        pairs_of,
        plant,
        write_set,
    )
    from spotsieve.stream.research.models.term_counter import batches_of

    _check(options)
    settings = settings_of(options)
    inputs = check_inputs(options.files)
    chosen = PageSample(options.pages, options.seed)
    with contextlib.closing(ProgressLine(sys.stderr, total_bytes(inputs))) as line:
        with announced_compiling(line.say):
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
        raise InputError("FILES", "must hold pages of text, and hold none", None, "use the files of a crawl")
    if not kinds:
        rule = f"hold no copies, and none of {chosen.pages:,} pages has enough words to plant a copy of it"
        then = f"use pages with at least {FEWEST_COPIED_WORDS} words outside of their template, or raise --copies"
        raise InputError("FILES", rule, None, then)
    write_set(options.out, stream, pairs)
    show(
        f"{len(stream):,} pages in {options.out}: {len(pages):,} of {chosen.pages:,} pages, and planted copies of them"
    )
    about = {**{kind.value: EDITS[kind] for kind in PlantedEdit}, EXACT: "pages with the text of an earlier page"}
    show(*(f"  {kind:<12}{number:>6}  {about[kind]}" for kind, number in kinds))
    for number, what in (
        (len(taken) - len(pages), f"pages were skipped: they have fewer than {FEWEST_WORDS} words of distinctive text"),
        (chosen.repeated, "pages were skipped: an earlier page has their id"),
    ):
        if number:
            show(f"  {number:,} {what}")
    return EXIT_OK


def _check(options: argparse.Namespace) -> None:
    """Raises SettingError for a wrong flag."""
    from spotsieve.stream.research.evaluation.trial import PAGES_FILE
    from spotsieve.stream.research.labelling.page_texts import TEXTS_FILE
    from spotsieve.stream.research.scoring.truth import PAIRS_FILE, TRUTH_FILE

    if not 2 <= options.pages <= MAX_PAGES:
        raise SettingError(
            "--pages", f"must be in 2..{MAX_PAGES}", options.pages, "2000 pages give figures to the percent"
        )
    if not 0 <= options.copies <= 1:
        raise SettingError("--copies", "must be a share in 0..1", options.copies, "such as 0.25")
    out: Path = options.out
    if out.exists() and not out.is_dir():
        raise SettingError("--out", "must be a folder", str(out), "choose another name")
    if (out / TEXTS_FILE).exists():
        rule = f"must not hold the texts of another set, in {TEXTS_FILE}, which `spotsieve score` would read"
        raise SettingError("--out", rule, str(out), "choose another folder, or remove this file")
    for name in (PAGES_FILE, PAIRS_FILE, TRUTH_FILE):
        check_names({"out": out / name}, options.files, options)
