"""Filters that a user could assemble from public packages: the peers of ours, for quality, speed and public data.

extractors.py finds the text of a page. methods.py compares texts one by one, batch.py all at once. filters.py lists the
filters, and `python -m bench.peers` runs one over a file. cost.py measures commands.
"""
