#!/bin/sh
# Removes the near-duplicates of a data set of Parquet files whose pages are in the column `text`:
# sh parquet_text.sh crawl.parquet novel.parquet
set -eu
spotsieve filter "$1" --out "$2" --set input.preset=huggingface
