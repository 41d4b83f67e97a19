#!/bin/sh
# Replaces the near-duplicates of a WARC file by revisit records, which name the page that is kept:
# sh warc_revisits.sh crawl.warc.gz smaller.warc.gz
set -eu
spotsieve filter "$1" --out "$2" --revisits
