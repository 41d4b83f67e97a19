"""`python -m bench.quality` runs the selected measurements and writes docs/measured/quality.md."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.command import MEASURED, reports_errors, say
from bench.quality.extracts import Extracts
from bench.quality.figures import PARTS, Figures, Run
from bench.quality.keep import Part, keep, kept_parts, part_of, with_sections_of
from bench.quality.ours import settings_with
from bench.quality.plots import draw_plots
from bench.quality.report import as_markdown
from bench.quality.sets import find_sets, load_set
from bench.targets import exit_code
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

QUICK_PAGES = 300
ABOUT = (
    "Measure quality on every labelled set: docs/measured/quality.md and its plots; "
    "a part of it or --quick to standard output."
)


@reports_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the document. Returns 0 for any figures, 2 for wrong settings, 3 without a valid set."""
    options = _parser().parse_args(arguments)
    return _measure(options, _shown(sys.argv[1:] if arguments is None else arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.quality", description=ABOUT)
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[*PARTS, "all"],
        default="all",
        metavar="PART",
        help=f"{', '.join(PARTS)} or all (default)",
    )
    parser.add_argument("--sets", nargs="+", type=Path, default=[], metavar="DIR", help="more sets, or with --only")
    parser.add_argument("--only", action="store_true", help="only the sets named by --sets")
    parser.add_argument("-c", "--config", type=Path, metavar="FILE", help="settings to be measured, TOML")
    parser.add_argument("--set", action="append", default=[], dest="given", metavar="NAME=VALUE", help="one setting")
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK_PAGES} pages of each set, few rounds")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where the document goes (all: docs/measured/quality.md)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep each part's figures there, use those of others")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep what the peers extract there for another run")
    return parser


def _measure(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    base = dict(assignment.split("=", 1) for assignment in options.given if "=" in assignment)
    settings = settings_with(base, options.config)
    folders = options.sets if options.only else find_sets(options.sets)
    if not folders:
        raise InputError("../shared/data", "must hold labelled sets", None, "name a set's folder with --sets")
    sets = [load_set(folder, QUICK_PAGES if options.quick else None) for folder in folders]
    compile_kernels(scheme_in_scope(settings))
    run = Run(sets, base, options.config, options.quick, say, Extracts(options.cache))
    figures = Figures()
    chosen = [name for name in PARTS if "all" in options.parts or name in options.parts]
    kept = kept_parts(options.keep, run, set(chosen)) if options.keep else []
    for part in kept:
        part.add_to(figures)
    for name in chosen:
        _measure_part(name, run, options.keep).add_to(figures)
    whole = len(chosen) + len(kept) == len(PARTS) and not options.quick
    target = options.out or (MEASURED / "quality.md" if whole else None)
    plots = draw_plots(figures, target.with_suffix(""), settings) if target else {}
    text = as_markdown(run, figures, f"python -m bench.quality {' '.join(arguments)}".rstrip(), plots)
    if target:
        before = target.read_text("utf-8") if target.exists() else ""
        target.write_text(with_sections_of(text, before), "utf-8")
        say(f"{target} is written")
    else:
        print(text)
    return exit_code(text) if whole else 0


def _measure_part(name: str, run: Run, folder: Path | None) -> Part:
    say(f"{name} ...")
    began, figures = time.monotonic(), Figures()
    PARTS[name](run, figures)
    part = part_of(name, run, figures, time.monotonic() - began)
    say(f"{name}: {part.seconds:.0f} s")
    if folder is not None:
        keep(folder, part)
    return part


def _shown(arguments: Sequence[str]) -> list[str]:
    """The arguments without those that change no figure: the document names no folder of this machine."""
    hidden = {
        place + step
        for place, given in enumerate(arguments)
        if given in ("--cache", "--keep", "--out")
        for step in (0, 1)
    }
    return [given for place, given in enumerate(arguments) if place not in hidden]


if __name__ == "__main__":
    sys.exit(main())
