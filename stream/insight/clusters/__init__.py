"""Finds clusters of copies: pages that are connected because one was called a copy of the other.

statements.py  what a line or a message says of a page: its verdict, and the pages that it is a copy of
seen.py        which pages were met before, in 8 bytes each
grouping.py    which pages are connected, and which of a cluster is its canonical page
listing.py     a page and its cluster as a line of JSON or CSV
"""
