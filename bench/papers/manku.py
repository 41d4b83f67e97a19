"""Manku, Jain, Das Sarma 2007, section 3: the number of tables against the number of candidates of a query."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.papers.page import paragraphs, table
from spotsieve.stream.sign.fingerprints.permuted_tables import TableDesign, design_tables

TITLE = "Manku, Jain, Das Sarma, WWW 2007"
K = 3
TABLES = (20, 16, 10, 4)
PAPER = {20: ("31 to 33", 8), 16: ("28", 64), 10: ("25 or 26", 512), 4: ("16", 262_144)}
"""Tables -> matched bits (p), and candidates of a query per table at n = 2^34."""
SIZES = (20, 22, 24)
QUERIES = 4_096
AT_ONCE = 2**20

ABOUT = """\
Section 3, k = 3: how many tables, and how many fingerprints a query is compared with. A table whose p leading bits are
matched gives 2^(d - p) of 2^d random fingerprints. Theirs: d = 34, 8 billion pages, by that formula. Ours: the same
designs (`stream/sign/fingerprints/permuted_tables.py`), 2^20 to 2^24 random fingerprints and 4,096 random queries,
all tables
together, measured beside the formula. (The paper's text is not kept here; its figures are those of its section 3.)
"""
SAYS = """\
The measured numbers are the formula's. Theirs at d = 34 follow from ours by a factor of 2^10 for 2^24: nothing in the
method is another one at a larger n. What cannot be compared are their times, of compressed tables on many machines;
what a page costs in our index on disk is in docs/measured/speed.md ("index at 1,000,000 fingerprints"). In the stream a
bucket ends at `index.bucket_cap` = 256 pages: with 4 tables that is reached at 2^24 random fingerprints, with 10 at
2^33. Pages of a crawl are no random fingerprints: those of one template fill a bucket much sooner.

Their batch query mode (sec. 4), a file of queries against the whole store, is `spotsieve query`: all buckets are read
in key order, or in one pass where many are wanted.
"""


def section(data: Path) -> list[str]:  # noqa: ARG001 - measured on random fingerprints, without any set
    """The section's lines of docs/measured/papers.md."""
    designs = {tables: design_tables(K, tables) for tables in TABLES}
    measured = dict(candidates(designs))
    rows: list[list[object]] = []
    for tables, design in designs.items():
        bits = sorted({mask.bit_count() for mask in design.masks})
        row: list[object] = [tables, PAPER[tables][0], _span(bits), f"{PAPER[tables][1]:,}"]
        row.append(f"{expected(design, 34) / tables:,.1f}")
        for d in SIZES:
            row += [f"{expected(design, d):,.3f}", f"{measured[tables, d]:,.3f}"]
        rows.append(row)
    titles = ["tables", "paper p", "our p", "paper, a table at 2^34", "by our p"]
    for d in SIZES:
        titles += [f"2^{d} expected", "measured"]
    return paragraphs(ABOUT.splitlines(), table(titles, rows), SAYS.splitlines())


def expected(design: TableDesign, d: int) -> float:
    """Candidates of a query among 2^d random fingerprints, in all tables of a design."""
    return sum(2.0 ** (d - mask.bit_count()) for mask in design.masks)


def candidates(
    designs: dict[int, TableDesign], sizes: tuple[int, ...] = SIZES
) -> Iterator[tuple[tuple[int, int], float]]:
    """(tables, d) -> the mean number of 2^d random fingerprints that share a bucket with a query, all tables together.

    The fingerprints of a smaller d are the first ones of a larger d.
    """
    random = np.random.default_rng(2007)
    queries = random.integers(0, 2**64, QUERIES, np.uint64)
    wanted = {tables: np.sort(design.keys(queries), axis=0) for tables, design in designs.items()}
    met = dict.fromkeys(designs, 0)
    done = 0
    for d in sizes:
        while done < 2**d:
            fingerprints = random.integers(0, 2**64, min(AT_ONCE, 2**d - done), np.uint64)
            done += len(fingerprints)
            for tables, design in designs.items():
                met[tables] += shared(design.keys(fingerprints), wanted[tables])
        for tables, count in met.items():
            yield (tables, d), count / QUERIES


def shared(keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> int:
    """Pairs of a fingerprint and a query with an equal key: uint64[n, T], and uint64[q, T] with ascending columns."""
    count, low = 0, np.uint64(2**16 - 1)
    for key, of in zip(keys.T, wanted.T, strict=True):
        some = np.zeros(2**16, np.bool_)  # The low bits of a wanted key reject most other keys.
        some[of & low] = True
        likely = key[some[key & low]]
        count += int((np.searchsorted(of, likely, side="right") - np.searchsorted(of, likely)).sum())
    return count


def _span(bits: list[int]) -> str:
    return str(bits[0]) if len(bits) == 1 else f"{bits[0]} to {bits[-1]}"
