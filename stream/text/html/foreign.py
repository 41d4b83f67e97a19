"""Follows svg and math without a tree: which tags in them are foreign elements, and which are HTML again.

The rules are the HTML standard's (13.2.6.5). In foreign content no tag switches to raw text, some start tags end it,
and inside some elements, its integration points, HTML goes on. Only a tree would know whether the element of an end tag
is open outside, or inside an integration point. So an end tag of an HTML element ends foreign content, and an end tag
of svg, math or an integration point closes it whatever is open inside. Where the outermost root ends, the scanner puts
back the sections, links and lead that stood around it, since a tree ends with it what was opened in it.

    stack = the open roots and integration points, innermost in the lowest 4 bits, as roles of html/elements.py
"""

import numpy as np

from spotsieve.stream.jit import part
from spotsieve.stream.text.html.elements import (
    BREAK,
    BREAKOUT,
    FIRST_TEXT_POINT,
    FOREIGN_OBJECT,
    ICON_TITLE,
    INLINE,
    LAST_TEXT_POINT,
    MATH,
    SVG,
)

DEEPEST_FOREIGN = 16
"""What is opened deeper is not noted."""
_U0, _ROLE, _STEP = np.uint64(0), np.uint64(15), np.uint64(4)
_FULL = np.uint64(4 * (DEEPEST_FOREIGN - 1))


@part
def is_foreign(stack):  # uint64 -> bool
    """Whether a tag now is one of a foreign element."""
    top = np.int64(stack & _ROLE)
    return top in (SVG, MATH)


@part
def has_cdata(stack):  # uint64 -> bool
    """Whether CDATA sections count."""
    top = np.int64(stack & _ROLE)
    return top != 0 and top != FOREIGN_OBJECT


@part
def foreign_depth(stack):  # uint64 -> int64
    """How many roots and integration points are open."""
    depth = np.int64(0)
    while stack != _U0:
        stack >>= _STEP
        depth += 1
    return depth


@part
def left_foreign(stack):  # uint64 -> uint64
    """The stack where foreign content ends: at the next integration point, or in the page."""
    while is_foreign(stack):
        stack >>= _STEP
    return stack


@part
def foreign_after(stack, role, kind, closing, empty):  # uint64, int64, int64, bool, bool -> uint64
    """The stack behind a tag. empty: whether it closes itself"""
    opens = role != 0 and role != BREAKOUT
    if closing:
        if opens:
            rest = stack
            while rest != _U0 and np.int64(rest & _ROLE) != role:
                rest >>= _STEP
            return rest >> _STEP if rest != _U0 else stack
        return left_foreign(stack) if role == BREAKOUT or INLINE < kind <= BREAK else stack
    if role == BREAKOUT:
        return left_foreign(stack)
    top = np.int64(stack & _ROLE)
    if role in (SVG, MATH):
        opens = top == role or not is_foreign(stack)
    elif FOREIGN_OBJECT <= role <= ICON_TITLE:
        opens = top == SVG
    elif FIRST_TEXT_POINT <= role <= LAST_TEXT_POINT:
        opens = top == MATH
    if opens and not empty and stack >> _FULL == _U0:
        return stack << _STEP | np.uint64(role)
    return stack
