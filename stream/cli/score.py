"""Owns `spotsieve score`: labelled sets through the filter in memory, and what its verdicts are worth."""

import argparse
import contextlib
import itertools
import json
import math
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream.cli.settings import add_settings_arguments, settings_of
from stream.config_load import unknown_scheme
from stream.config_schemes import SCHEME_SETTINGS
from stream.errors import EXIT_OK, SettingError
from stream.text_safety import show

if TYPE_CHECKING:
    from stream.config import Settings
    from stream.files.trial import Trial
    from stream.files.writer import Outputs
    from stream.page import Page
    from stream.scoring.comparison import Scored
    from stream.verdict import Verdicts

ALL = "all"
MOST_SWEPT = 200
ABOUT = """A SET is a folder with pages.jsonl.xz (a JSON object a line, in stream order: id, url, fetched_at,
content_type, body), pairs.tsv.gz (id_a id_b similarity kind; id_a earlier; every pair that is not negative) and
truth.tsv.gz (id kind). A page is a duplicate if an earlier one has a similarity of at least --positive with it, novel
if all are below --negative, and ignored otherwise. With --scheme each scheme has its own defaults, except the one that
the settings name. Exit codes: 0 scored, whatever the figures; 2 wrong setting or usage; 3 a set that cannot be read, or
whose pages and labels do not fit together; 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve score`."""
    from stream.scoring.truth import NEGATIVE, POSITIVE

    parser.epilog = ABOUT
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET", help="folder of a labelled set")
    parser.add_argument(
        "--scheme", nargs="+", action="extend", default=[], metavar="NAME", dest="schemes",
        help=f"after the sets: print one table of these schemes, their figures and what they cost; {ALL}: of all",
    )  # fmt: skip
    parser.add_argument(
        "--sweep", action="append", default=[], metavar="NAME=VALUES", dest="sweeps",
        help="print one table of a scheme with each of these values of a setting, such as scheme.k=0..10 or "
        "scheme.tau=.3,.5,.7; may be repeated: every value with every other",
    )  # fmt: skip
    parser.add_argument(
        "--idf-model", action="append", default=[], metavar="MODEL", dest="models",
        help="with --scheme: a model that `spotsieve model build` wrote, for the scheme whose terms it counts; may be "
        "repeated",
    )  # fmt: skip
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
    from stream.warm import compile_kernels

    _check(options)
    settings = settings_of(options)
    chosen = _swept(options) if options.sweeps else _schemes_of(options.schemes, settings, options.models)
    with contextlib.closing(ProgressLine(sys.stderr, None)) as notice:
        for one in chosen.values():
            notice.say(f"compiling the kernels of {one.scheme.name}; after the first time they are read from a cache")
            compile_kernels(scheme_of(one.scheme))
    found: dict[str, dict[str, Scored]] = {}
    with Outputs.open(out=None, duplicates=None, verdicts=options.verdicts, rejected=None) as outputs:
        for folder in options.sets:
            found[str(folder)] = {name: _score_set(folder, one, options, outputs) for name, one in chosen.items()}
        outputs.complete()
    _show(found, options)
    return EXIT_OK


def _schemes_of(names: list[str], settings: "Settings", models: list[str]) -> dict[str, "Settings"]:
    """The settings of each scheme that is named, each once; without a name those of the settings themselves.

    models: files, each for the schemes that count its terms. Of all schemes those without their model are left out.
    """
    from stream.schemes.idf import read_model
    from stream.schemes.registry import TERMS

    by_terms = {model.about: {"idf_model": path, "idf_digest": digest}
                for path, (model, digest) in ((path, read_model(path)) for path in models)}  # fmt: skip
    chosen: dict[str, Settings] = {}
    for name in SCHEME_SETTINGS if ALL in names else names or [settings.scheme.name]:
        if name not in SCHEME_SETTINGS:
            raise unknown_scheme("--scheme", name)
        scheme = settings.scheme if name == settings.scheme.name else SCHEME_SETTINGS[name]()
        if name in TERMS and not getattr(scheme, "idf_model", ""):
            found = by_terms.get(TERMS[name](scheme).about)
            if found is None and ALL in names:
                show(f"spotsieve: {name} is left out: --idf-model names no model of its terms", to=sys.stderr)
                continue
            scheme = scheme.model_copy(update=found)
        chosen[name] = settings.model_copy(update={"scheme": scheme})
    return chosen


def _swept(options: argparse.Namespace) -> dict[str, "Settings"]:
    """The settings for every choice of one value of each sweep, by what is chosen. Raises SettingError."""
    axes = [_axis(sweep) for sweep in options.sweeps]
    count = math.prod(len(values) for _, values in axes)
    if count > MOST_SWEPT:
        raise SettingError("--sweep", f"must give at most {MOST_SWEPT} choices in all", count, "take wider steps")
    chosen = {}
    for values in itertools.product(*(values for _, values in axes)):
        given = dict(zip((name for name, _ in axes), values, strict=True))
        swept = settings_of(options, {"scheme.name": options.schemes[0] if options.schemes else None, **given})
        shown = (f"{name.removeprefix('scheme.')}={value}" for name, value in given.items())
        chosen[" ".join([swept.scheme.name, *shown])] = swept
    return chosen


def _axis(sweep: str) -> tuple[str, list[str]]:
    """NAME=1,2,5 or NAME=1..5 -> the setting's name, and its values."""
    name, _, values = sweep.partition("=")
    span = re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", values)
    if span:
        first, last = int(span[1]), int(span[2])
        return name, [str(value) for value in range(first, min(last, first + MOST_SWEPT) + 1)]
    if not name or not all(values.split(",")):
        raise SettingError("--sweep", "must be NAME=VALUE,VALUE or NAME=FIRST..LAST", sweep, "such as scheme.k=0..10")
    return name, values.split(",")


def _show(found: Mapping[str, Mapping[str, "Scored"]], options: argparse.Namespace) -> None:
    """Print the figures: of each set alone, or one table of its schemes."""
    table = options.schemes or options.sweeps
    from stream.scoring.comparison import MEANINGS, comparison_json, comparison_text
    from stream.scoring.report import as_json, as_text

    several = len(found) > 1
    if options.json:
        shown: dict[str, Any] = {}
        for name, by_scheme in found.items():
            (first, *_) = by_scheme.values()
            shown[name] = comparison_json(by_scheme) if table else as_json(first.scores)
        show(*json.dumps(shown if several else next(iter(shown.values())), indent=2).split("\n"))
        return
    for number, (name, by_scheme) in enumerate(found.items()):
        (first, *_) = by_scheme.values()
        lines = comparison_text(by_scheme) if table else as_text(first.scores).split("\n")
        show(*([""] if number else []), *([name] if several else []), *lines)
    if table:
        show("", *MEANINGS.split("\n"))


def _score_set(folder: Path, settings: "Settings", options: argparse.Namespace, outputs: "Outputs") -> "Scored":
    from stream.files.progress import ProgressLine
    from stream.files.report import verdict_line
    from stream.files.trial import Trial, pages_of, read_batches
    from stream.scoring import check_verdicts, load_truth, score
    from stream.scoring.comparison import Cost, Scored
    from stream.signature import page_id_text

    truth = load_truth(folder, options.positive, options.negative)
    trial = Trial(settings)
    originals: list[tuple[str, str | None]] = []
    dropped, candidates, cpu_seconds = 0, 0, 0.0
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        for batch in read_batches(pages_of(folder), settings):
            began = time.process_time()
            judged: list[tuple[Page, Verdicts, int]] = list(trial.judge(batch))
            cpu_seconds += time.process_time() - began
            for page, verdicts, row in judged:
                original = verdicts.originals[row]
                originals.append(
                    (
                        page.label or page_id_text(page.source, page.partition, page.offset),
                        original.id if original else None,
                    )
                )
                dropped += original is not None
                candidates += int(verdicts.candidates[row])
                if outputs.verdicts is not None:
                    outputs.verdicts.write_line(verdict_line(page, verdicts, row, settings.scheme.name))
            line.update(len(originals), dropped, 0)
    scores = score(truth, check_verdicts(truth, originals, str(folder)))
    pages = max(len(originals), 1)
    return Scored(
        scores,
        Cost(candidates / pages, cpu_seconds * 1e6 / pages, trial.log_bytes / pages, _bytes_of_a_filed_page(trial)),
    )


def _bytes_of_a_filed_page(trial: "Trial") -> float:
    filed, state_bytes = trial.state_bytes()
    return state_bytes / max(filed, 1)


def _check(options: argparse.Namespace) -> None:
    if options.verdicts and len(options.sets) > 1:
        raise SettingError("--verdicts", "must have one SET", len(options.sets), "score the sets one by one")
    if options.verdicts and (len(options.schemes) > 1 or ALL in options.schemes):
        raise SettingError("--verdicts", "must have one scheme", ", ".join(options.schemes), "score them one by one")
    if options.sweeps and (options.verdicts or len(options.schemes) > 1 or ALL in options.schemes):
        other = "--verdicts" if options.verdicts else f"--scheme {' '.join(options.schemes)}"
        raise SettingError("--sweep", "must be of one scheme, without --verdicts", other, "sweep one by one")
    if not options.negative <= options.positive:
        raise SettingError("--negative", "must be at most --positive", options.negative, "swap the bounds")
