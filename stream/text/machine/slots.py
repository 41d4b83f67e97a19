"""The state of a kernel run: which number of an int64 array holds what, and how a block is written down.

The state is one array, so that a function that is called now and then needs one argument. Each name here is a byte
offset into it. The addresses are those of the arrays named in stream/text/batch.py.
"""

TOKEN_COUNT, WORD_LENGTH, TRACE_LENGTH = 0, 8, 16
BLOCK_COUNT, BLOCK_START = 24, 32
LINKS, IN_LINK, SECTIONS, LEAD = 40, 48, 56, 64
TITLE_START, TITLE_END = 72, 80
TOKENS, BLOCKS, SPELLED, TRACE = 88, 96, 104, 112
PAGES, LEAVES, ENTITY_KEYS, ENTITY_VALUES = 120, 128, 136, 144
NAMES, TRAITS, NAME_MULTIPLIER = 152, 160, 168
STATE_SLOTS = 24
LAST_CLEARED = TITLE_END

BLOCK_SHIFT = 5
"""A block takes 2^5 bytes: the number of tokens before its end: int32; how many of these are in links: int32; how deep
each section is open around it: uint64, 4 bits each (stream/text/html/elements.py); its lead: int32."""
BLOCK_LINKS, BLOCK_SECTIONS, BLOCK_LEAD = 4, 8, 16

MARKUP, ESCAPABLE, RAW = 0, 1, 2
"""Kinds of text. In MARKUP '<' ends it, in ESCAPABLE '<' is text, in RAW '<' and '&' are text. In the last two NUL
separates tokens."""
