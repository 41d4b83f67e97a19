"""Labels the near-duplicates of a Polars frame: python polars_frame.py crawl.parquet labelled.parquet.

The frame has the columns url and text. The columns copy_of (a row number) and score are added.
"""

import sys

import polars as pl

from spotsieve import Deduplicator


def with_originals(crawl: pl.DataFrame) -> pl.DataFrame:
    """The frame with the original of each copy, null for other rows."""
    rows = crawl.select(pl.int_range(pl.len()), pl.col("url").fill_null(""), pl.col("text").fill_null("")).iter_rows()
    with Deduplicator() as seen:
        verdicts = list(seen.add_many(rows))
    return crawl.with_columns(
        pl.Series("copy_of", [int(one.original.id) if one.is_duplicate else None for one in verdicts], pl.Int64),
        pl.Series("score", [one.score for one in verdicts], pl.Float64),
    )


if __name__ == "__main__":
    source, target = sys.argv[1:]
    with_originals(pl.read_parquet(source)).write_parquet(target)
