"""`python -m bench.exact` compares every exact scheme with brute force and writes docs/measured/exactness.md."""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.exact.cases import LARGEST_STORE, SMALLEST_STORE, CaseCounts, on_set, random_cases
from tests.conftest import REPOSITORY, SHARED_DATA
from tests.reference.acceptance import CLAIMS, WITHOUT_CLAIM

DOCUMENT = REPOSITORY / "docs" / "measured" / "exactness.md"
FIGURES = REPOSITORY / "docs" / "measured" / "exactness.json"
CASES = 100_000
SETS = ("news", "docs", "newsgroups")
HEAD = f"""# Exact schemes against brute force

Written by `make exact` (`ARGS=SCHEME` for one row). A case is a page that is judged against all pages before it: by the
scheme's search, and by comparing it with each of them, as the paper defines a copy. The two must name the same
original. Random cases are signatures in stores of {SMALLEST_STORE} to {LARGEST_STORE} pages, of which many lie just
within or beyond the threshold (`tests/reference/acceptance.py`); the other columns are all pages of a labelled set,
signed by the scheme. Buckets and candidates are not limited here: docs/decisions.md says what the defaults of `[index]`
cost.
"""
Results = Mapping[str, Sequence[CaseCounts]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and write the rows of the compared schemes. Returns 1 if a scheme misses what brute force finds."""
    parser = argparse.ArgumentParser("python -m bench.exact", description=__doc__)
    parser.add_argument(
        "schemes", nargs="*", metavar="SCHEME", help="only these schemes; the other rows stay unchanged"
    )
    parser.add_argument(
        "--cases", type=int, default=CASES, help=f"random cases per scheme; with fewer than {CASES:,} no row is written"
    )
    parser.add_argument("--sets", type=Path, default=SHARED_DATA, metavar="DIR", help="folder of labelled sets")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.schemes) - set(CLAIMS))
    if unknown:
        parser.error(f"not exact schemes: {', '.join(unknown)}; exact schemes are: {', '.join(CLAIMS)}")
    differing = 0
    for name in options.schemes or list(CLAIMS):
        row = _tried(name, options.cases, options.sets)
        differing += sum(tried.differing for tried in row)
        if options.cases >= CASES:
            _keep(name, row)
    return 1 if differing else 0


def _tried(name: str, cases: int, sets: Path) -> list[CaseCounts]:
    began = time.process_time()
    row = [random_cases(name, cases), *(on_set(name, sets / one) for one in SETS)]
    print(f"{name}: {row}, {time.process_time() - began:.0f} s of CPU", file=sys.stderr, flush=True)
    return row


def _keep(name: str, row: Sequence[CaseCounts]) -> None:
    kept = figures() if FIGURES.exists() else {}
    kept[name] = list(row)
    known = {one: [asdict(tried) for tried in kept[one]] for one in CLAIMS if one in kept}
    FIGURES.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    DOCUMENT.write_text(document(figures()), "utf-8")


def figures() -> dict[str, list[CaseCounts]]:
    """The stored comparison, by scheme: the random cases, then each of SETS."""
    loaded = json.loads(FIGURES.read_text("utf-8"))
    return {name: [CaseCounts(**tried) for tried in row] for name, row in loaded.items()}


def document(results: Results) -> str:
    """The text of the document."""
    lines = [
        HEAD,
        "| scheme | random cases | " + " | ".join(SETS) + " | differing |",
        "|---|" + "---|" * (len(SETS) + 2),
    ]
    for name, row in results.items():
        cells = [f"{tried.cases:,} ({tried.copies:,} copies)" for tried in row]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {sum(tried.differing for tried in row)} |")
    none = ", ".join(f"`{name}`" for name in sorted(WITHOUT_CLAIM))
    return "\n".join([*lines, "", f"No such claim is made for {none}.", ""])


if __name__ == "__main__":
    sys.exit(main())
