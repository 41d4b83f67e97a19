"""Owns `python -m tests.schemes`: the tables and plots of docs/schemes.md, measured again.

    .venv/bin/python -m tests.schemes [SET ...]

Every scheme with its defaults, and over its threshold, on each set (none named: those of ../shared/data). What stands
in docs/schemes.md between two comments is replaced, and the plots in docs/schemes/; the rest is written by people.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from stream.cli import main as spotsieve
from stream.evaluation.provenance import measured_on

ROOT = Path(__file__).resolve().parents[1]
SETS = tuple(ROOT.parent / "shared" / "data" / name for name in ("news", "docs", "newsgroups"))
BEGIN = "<!-- From here to the end of this section written by `python -m tests.schemes`. -->"
END = "<!-- End of what is written by `python -m tests.schemes`. -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, draw and write; 0, or spotsieve's exit code where it fails."""
    parser = argparse.ArgumentParser("python -m tests.schemes", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("sets", nargs="*", type=Path, default=SETS, metavar="SET")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "schemes.md", help="(%(default)s)")
    options = parser.parse_args(arguments)
    plots = options.page.with_suffix("")
    plots.mkdir(exist_ok=True)
    parts = [f"Measured on {', '.join(measured_on(datetime.now(UTC)))}; CPU on a machine that others use is more."]
    for folder in options.sets:
        print(folder.name, file=sys.stderr, flush=True)
        said = io.StringIO()
        plot = plots / f"{folder.name}.svg"
        with contextlib.redirect_stdout(said):
            code = spotsieve(["score", str(folder), "--scheme", "all", "--build-models"])
            code = code or spotsieve(
                ["score", str(folder), "--scheme", "all", "--build-models", "--sweep", "--plot", str(plot), "--json"]
            )
        if code:
            return code
        table, meanings = said.getvalue().split("\n{")[0].split("\n\n")[:2]
        parts += [f"### {folder.name}", f"```\n{table}\n```", f"![{folder.name}]({plots.name}/{plot.name})"]
    parts.append(meanings.strip())
    text = options.page.read_text("utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    options.page.write_text("\n\n".join([before + BEGIN, *parts, END + after]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
