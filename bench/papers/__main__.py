"""`python -m bench.papers [NAME ...]` reproduces figures of papers and writes docs/measured/papers.md."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.command import MEASURED, reports_errors, say
from bench.papers import page
from bench.quality.sets import DATA
from spotsieve.stream.base.errors import InputError

DOCUMENT = MEASURED / "papers.md"


@reports_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the document. Returns 0 for any figures, 2 for wrong usage, 3 without labelled sets."""
    papers = page.find_papers()
    parser = argparse.ArgumentParser("python -m bench.papers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(papers)}; all if none is named")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help="folder of the labelled sets")
    parser.add_argument("--out", type=Path, default=DOCUMENT, metavar="FILE", help="(%(default)s)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in papers]
    if unknown:
        parser.error(f"NAME must be one of {', '.join(papers)}, got {unknown[0]!r}")
    if not options.data.is_dir():
        raise InputError(str(options.data), "must hold labelled sets", None, "name their folder with --data")
    for name in options.names or papers:
        say(f"{name} ...")
        lines = papers[name].section(options.data)
        text = options.out.read_text("utf-8") if options.out.exists() else page.HEAD
        options.out.write_text(page.with_section(text, name, papers[name].TITLE, lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
