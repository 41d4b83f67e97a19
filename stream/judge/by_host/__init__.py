"""Judges pages with a memory of every host: which text is template there, and which pages share distinctive text.

memory.py            how many pages of a host have each block and each title word: what is template text
distinctive_text.py  the columns by which pages are compared, and a page's text without template text
thresholds.py        the named thresholds of the rule, and the criteria that combine them
pairs.py             the rule for two pages
confirmation.py      applies the rule to the pairs of a page and its indexed candidates
resolution.py        the sequential resolution of a record, with hosts that learn from each page
page_history.py      pages that were judged before: each gets its first verdict again
learning.py          what a page teaches its host, and what an entry stores for the same when it is read back
"""
