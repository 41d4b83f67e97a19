"""Judges pages with a memory of every host: which text is template there, and which pages share distinctive text.

memory.py            host memory: counts of pages for each block and title word, which define template text
distinctive_text.py  the columns by which pages are compared, and a page's text without template text
criteria.py          the named criteria of the rule, and the thresholds of each page
pairs.py             the rule for two pages
confirmation.py      applies the rule to the pairs of a page and its indexed candidates
resolution.py        the sequential resolution of a record, with hosts that learn from each page
page_history.py      pages that were judged before: each gets its first verdict again
learning.py          teaches hosts from pages, and selects what an entry stores of a page
"""
