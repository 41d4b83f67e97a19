"""Drops the near-duplicates of a pandas frame: python pandas_frame.py crawl.parquet novel.parquet.

The frame has the columns url and text.
"""

import sys

import pandas as pd

from spotsieve import Deduplicator


def without_copies(crawl: pd.DataFrame) -> pd.DataFrame:
    """The rows whose text is not a copy of the text of an earlier row."""
    rows = zip(range(len(crawl)), crawl["url"].fillna(""), crawl["text"].fillna(""), strict=True)
    with Deduplicator() as seen:
        kept = [not verdict.is_duplicate for verdict in seen.add_many(rows)]
    return crawl[kept]


if __name__ == "__main__":
    source, target = sys.argv[1:]
    without_copies(pd.read_parquet(source)).to_parquet(target)
