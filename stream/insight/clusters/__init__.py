"""Finds clusters of copies: pages connected by verdicts that name one as a copy of the other.

grouping.py  reads the verdict of a line or message, connects pages, and chooses each cluster's canonical page
sources.py   reads files of verdict lines, or judges a log; writes a page and its cluster as JSON or CSV
"""
