"""Owns `spotsieve score`: labelled sets through the filter in memory, and what its verdicts are worth."""

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stream.cli.settings import add_settings_arguments, settings_of
from stream.errors import EXIT_OK, SettingError
from stream.text_safety import show

if TYPE_CHECKING:
    from stream.config import Settings
    from stream.files.writer import Outputs
    from stream.scoring import Scores

ABOUT = """A SET is a folder with pages.jsonl.xz (a JSON object a line, in stream order: id, url, fetched_at,
content_type, body), pairs.tsv.gz (id_a id_b similarity kind; id_a earlier; every pair that is not negative) and
truth.tsv.gz (id kind). A page is a duplicate if an earlier one has a similarity of at least --positive with it, novel
if all are below --negative, and ignored otherwise. Exit codes: 0 scored, whatever the figures; 2 wrong setting or
usage; 3 a set that cannot be read, or whose pages and labels do not fit together; 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve score`."""
    from stream.scoring.truth import NEGATIVE, POSITIVE

    parser.epilog = ABOUT
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET", help="folder of a labelled set")
    parser.add_argument(
        "--verdicts", metavar="FILE", help="JSONL: a verdict for each page, as `spotsieve filter` has it"
    )
    parser.add_argument("--json", action="store_true", help="print JSON; for several sets an object by their names")
    parser.add_argument(
        "--positive", type=float, default=POSITIVE, help="least similarity of a duplicate (%(default)s)"
    )
    parser.add_argument("--negative", type=float, default=NEGATIVE, help="novel below this similarity (%(default)s)")
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Score the sets; the exit code."""
    from stream.files.progress import ProgressLine
    from stream.files.writer import Outputs
    from stream.schemes.registry import scheme_of
    from stream.scoring.report import as_json, as_text
    from stream.warm import compile_kernels

    _check(options)
    settings = settings_of(options)
    with contextlib.closing(ProgressLine(sys.stderr, None)) as notice:
        notice.say("compiling the kernels; after the first time they are read from a cache")
        compile_kernels(scheme_of(settings.scheme))
    found = {}
    with Outputs.open(out=None, duplicates=None, verdicts=options.verdicts, rejected=None) as outputs:
        for folder in options.sets:
            found[str(folder)] = _score_set(folder, settings, options, outputs)
        outputs.complete()
    several = len(found) > 1
    if options.json:
        shown = {name: as_json(scores) for name, scores in found.items()}
        show(*json.dumps(shown if several else next(iter(shown.values())), indent=2).split("\n"))
    else:
        for number, (name, scores) in enumerate(found.items()):
            show(*([""] if number else []), *([name] if several else []), *as_text(scores).split("\n"))
    return EXIT_OK


def _score_set(folder: Path, settings: "Settings", options: argparse.Namespace, outputs: "Outputs") -> "Scores":
    from stream.files.progress import ProgressLine
    from stream.files.report import verdict_line
    from stream.files.trial import Trial, pages_of, read_batches
    from stream.scoring import check_verdicts, load_truth, score
    from stream.signature import page_id_text

    truth = load_truth(folder, options.positive, options.negative)
    trial = Trial(settings)
    originals: list[tuple[str, str | None]] = []
    dropped = 0
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        for batch in read_batches(pages_of(folder), settings):
            for page, verdicts, row in trial.judge(batch):
                original = verdicts.originals[row]
                originals.append(
                    (
                        page.label or page_id_text(page.source, page.partition, page.offset),
                        original.id if original else None,
                    )
                )
                dropped += original is not None
                if outputs.verdicts is not None:
                    outputs.verdicts.write_line(verdict_line(page, verdicts, row, settings.scheme.name))
            line.update(len(originals), dropped, 0)
    return score(truth, check_verdicts(truth, originals, str(folder)))


def _check(options: argparse.Namespace) -> None:
    if options.verdicts and len(options.sets) > 1:
        raise SettingError("--verdicts", "must have one SET", len(options.sets), "score the sets one by one")
    if not options.negative <= options.positive:
        raise SettingError("--negative", "must be at most --positive", options.negative, "swap the bounds")
