"""`python -m bench.quality.families` prints the lost and missed pages of generated families of pages.

The families need no data: tests/fixtures/families/ makes them. A page is lost if it was dropped although it must be
emitted, and missed if it was emitted although its original was emitted before. The last column names the bounds of
tests/fixtures/families/measure.py that are not kept.
"""

import argparse
import sys
from collections.abc import Sequence

from bench.command import reports_errors
from tests.fixtures.families import FAMILIES, family_pages
from tests.fixtures.families.measure import FamilyFigures, lost_fault, measure, missed_fault

WIDTHS = "{:34}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}  {}"
HEADER = ("family", "pages", "novel", "lost", "copies", "missed", "dropped", "over the bound")


@reports_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the chosen families and print a row for each. Returns 1 if a bound is not kept, 2 for a wrong setting."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.families if name not in FAMILIES]
    if unknown:
        parser.error(f"Unknown families: {', '.join(unknown)}. Choose from {', '.join(FAMILIES)}.")
    settings = {name.replace(".", "__"): value for name, value in (given.split("=", 1) for given in options.given)}
    print(WIDTHS.format(*HEADER), flush=True)
    kept = True
    for name in options.families or FAMILIES:
        figures = measure(family_pages(name, options.seed, options.size), **settings)
        kept &= _print_figures(name, figures, options.kinds, options.show)
    return 0 if kept else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.quality.families", description=__doc__.split("\n")[0])
    parser.add_argument("families", nargs="*", metavar="NAME", help=", ".join(FAMILIES))
    parser.add_argument(
        "--size", type=float, default=1.0, metavar="S", help="factor of the number of pages (default 1)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the generator (default 1)")
    parser.add_argument("--set", action="append", default=[], dest="given", metavar="NAME=VALUE", help="one setting")
    parser.add_argument("--kinds", action="store_true", help="a row for each kind of page, too")
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="show N lost and N missed pages of each family"
    )
    return parser


def _print_figures(name: str, figures: FamilyFigures, kinds: bool, show: int) -> bool:
    """Print the rows of a family. Returns whether it keeps its bounds."""
    fields = ("pages", "novel", "lost", "copies", "missed", "dropped")
    faults = {"lost": lost_fault(name, figures), "missed": missed_fault(name, figures)}
    over = [what for what, fault in faults.items() if fault]
    print(WIDTHS.format(name, *(figures.total(one) for one in fields), ", ".join(over)).rstrip(), flush=True)
    if kinds:
        for kind, counts in sorted(figures.kinds.items()):
            print(WIDTHS.format(f"  {kind[:31]}", *(getattr(counts, one) for one in fields), "").rstrip())
    for page, original in figures.lost_pages[:show]:
        print(f"    lost    {page.url} ({page.kind}, {len(page.text.split())} words) as a copy of {original}")
    for page in figures.missed_pages[:show]:
        print(f"    missed  {page.url} ({page.kind}, {len(page.text.split())} words), a copy of {page.copy_of}")
    return not over


if __name__ == "__main__":
    sys.exit(main())
