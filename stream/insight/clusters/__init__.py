"""Groups duplicates into clusters: pages are connected if one is a copy of the other.

grouping.py    verdicts as statements, connected pages, and the canonical page of each cluster
sources.py     statements from files and from a state's log; a page and its cluster as a line of JSON or CSV
"""
