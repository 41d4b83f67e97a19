"""Holds a table of HTML elements by their effect on blocks and tokens, and tracks foreign content (svg, math).

A block is a run of text between the tags of block-level elements. `<br>` and embedded content separate tokens but do
not end the block. Every other tag, known or not, has no effect: `<b>w</b>ord` is the single token `word`. For each
block the scanner records, without a tree, the last block tag before it (LEADS) and which elements of SECTIONS are open
around it. All of these elements require their end tags, so valid HTML leaves no such element open. An
element that a page leaves open is around no block.

Foreign content follows the HTML standard (13.2.6.5): no tag switches to raw text, some start tags end it, and inside
its integration points HTML continues. Only a tree would know whether the element of an end tag is open outside, or
inside an integration point. So an end tag of an HTML element ends foreign content, and an end tag of svg, math or an
integration point closes it whatever is open inside. When the outermost root ends, the scanner restores the sections,
links and lead that were open around it, because a tree would close everything that was opened inside.

    stack = the open roots and integration points as ROLES, 4 bits each, the innermost in the lowest bits
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import part

INLINE, BLOCK, BREAK, HIDDEN, HIDDEN_BREAK, SCRIPT, TEXTAREA, XMP, PLAINTEXT, TEMPLATE, FOREIGN = range(11)

ELEMENTS: dict[int, tuple[str, ...]] = {
    # Blocks of the HTML standard's rendering section (15.3.3 ff), table parts, options, and the document's own parts.
    BLOCK: tuple(
        "address article aside blockquote body caption center col colgroup datalist dd details dialog dir div dl dt "
        "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li "
        "listing main marquee menu nav ol optgroup option p pre search section select summary table tbody td tfoot th "
        "thead tr ul".split()
    ),
    # Embedded content and controls: they separate words, but the paragraph continues.
    BREAK: tuple("applet audio br button canvas embed image img input meter object progress rp rt video".split()),
    # Hidden elements: the content up to the end tag is skipped, and the words around it are not separated.
    HIDDEN: ("noembed", "noframes", "noscript", "style", "title"),
    HIDDEN_BREAK: ("iframe",),
    SCRIPT: ("script",),
    TEXTAREA: ("textarea",),
    XMP: ("xmp",),
    PLAINTEXT: ("plaintext",),
    TEMPLATE: ("template",),
    FOREIGN: ("math", "svg"),
}

# The last block tag before a block, for the scorecard. AFTER is an end tag; a page begins as if after <body>.
AFTER, LEAD_BODY, LEAD_PLAIN, LEAD_OTHER = 0, 15, 17, 18
LEADS: dict[int, tuple[str, ...]] = {
    1: ("p",),
    2: ("div",),
    3: ("li", "option"),
    4: ("td", "th"),
    5: ("h1",),
    6: ("h2",),
    7: ("h3",),
    8: ("h4", "h5", "h6"),
    9: ("pre", "listing"),
    10: ("blockquote",),
    11: ("dd",),
    12: ("dt",),
    13: ("section",),
    14: ("article",),
    LEAD_BODY: ("body", "html"),
    16: ("figcaption", "caption", "legend", "summary"),
}

# Roles of elements in foreign content, that is, inside svg and math.
SVG, MATH, FOREIGN_OBJECT, DESCRIPTION, ICON_TITLE = 1, 2, 3, 4, 5
FIRST_TEXT_POINT, LAST_TEXT_POINT, BREAKOUT = 6, 10, 11
ROLES: dict[int, tuple[str, ...]] = {
    SVG: ("svg",),
    MATH: ("math",),
    FOREIGN_OBJECT: ("foreignobject",),
    DESCRIPTION: ("desc",),
    ICON_TITLE: ("title",),
    **{FIRST_TEXT_POINT + place: (name,) for place, name in enumerate(("mi", "mo", "mn", "ms", "mtext"))},
    # Start tags that end foreign content (HTML standard, 13.2.6.5), except <font>, which depends on its attributes.
    BREAKOUT: tuple(
        "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu "
        "meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var".split()
    ),
}

SECTIONS: tuple[tuple[str, ...], ...] = (
    ("ul", "ol", "menu", "dir"),
    ("table",),
    ("dl",),
    ("nav",),
    ("header",),
    ("footer",),
    ("aside",),
    ("form",),
    ("select",),
    ("h1", "h2", "h3", "h4", "h5", "h6"),
    ("article",),
    ("main",),
    ("blockquote",),
    ("pre",),
    ("figure",),
)
"""Section i has bit i of a block's sections, and four bits of a word that count its nesting depth, up to 15."""
NO_SECTION = 15
DEEPEST_SECTION = 15

# The traits of a tag: its kind in 4 bits, then its lead in 5 (not for end tags), its section in 4, its role in foreign
# content in 4, its number in HIDDEN_NAMES in 3, and whether it is <a>.
KIND_MASK, LEAD_SHIFT, LEAD_MASK, SECTION_SHIFT, SECTION_MASK = 15, 4, 31, 9, 15
ROLE_SHIFT, ROLE_MASK, HIDDEN_SHIFT, HIDDEN_MASK, LINK_SHIFT = 13, 15, 17, 7, 20
UNKNOWN_TRAITS = INLINE | LEAD_OTHER << LEAD_SHIFT | NO_SECTION << SECTION_SHIFT
LATER_TITLE_TRAITS = BLOCK | LEAD_OTHER << LEAD_SHIFT | NO_SECTION << SECTION_SHIFT
"""The traits of a <title> of XML behind the title of the page."""
HIDDEN_NAMES = ("", "noscript", "noembed", "noframes", "style", "title", "iframe", "script")
"""Elements whose raw text is hidden, by number; 0 is no such element."""
NOSCRIPT = HIDDEN_NAMES.index("noscript")

SLOT_BITS = 10
LONG_NAME = np.uint64(0xC2B2AE3D27D4EB4F)
"""Multiplier of bytes 8..15 of a tag name before they are folded into bytes 0..7."""


@dataclass(frozen=True, slots=True)
class ElementTable:
    """A hash table of tag names without collisions: the slot of a name is `name * multiplier >> 54`.

    names: uint64[1024], the folded name in its slot, 0 for an empty slot  traits: int32[1024]
    """

    names: NDArray[np.uint64]
    traits: NDArray[np.int32]
    multiplier: np.uint64


@cache
def element_table() -> ElementTable:
    """Build the table, with the first of a fixed order of multipliers that gives every known name its own slot."""
    inline = dict.fromkeys((name for names in ROLES.values() for name in names), INLINE) | {"a": INLINE}
    kinds = inline | {name: kind for kind, names in ELEMENTS.items() for name in names}
    folded = np.array([fold_name(name) for name in kinds], dtype=np.uint64)
    for trial in range(1 << 20):
        multiplier = np.uint64((0x9E3779B97F4A7C15 * (2 * trial + 1)) & 0xFFFFFFFFFFFFFFFF)
        slots = folded * multiplier >> np.uint64(64 - SLOT_BITS)
        if len(np.unique(slots)) == len(folded):
            break
    table = ElementTable(
        np.zeros(1 << SLOT_BITS, dtype=np.uint64), np.zeros(1 << SLOT_BITS, dtype=np.int32), multiplier
    )
    table.names[slots] = folded
    table.traits[slots] = [traits_of(name, kind) for name, kind in kinds.items()]
    return table


def traits_of(name: str, kind: int) -> int:
    """The traits of a known name."""
    lead = next((number for number, names in LEADS.items() if name in names), LEAD_OTHER)
    role = next((number for number, names in ROLES.items() if name in names), 0)
    own = lead << LEAD_SHIFT | section_of(name) << SECTION_SHIFT
    hidden = HIDDEN_NAMES.index(name) if name in HIDDEN_NAMES else 0
    return kind | own | role << ROLE_SHIFT | hidden << HIDDEN_SHIFT | (name == "a") << LINK_SHIFT


@part
def empty_traits(kind):  # int64 -> int64
    """The traits of an empty-element tag of XML: it parts words and blocks as its element does, and opens nothing."""
    if kind in (INLINE, HIDDEN, SCRIPT):
        kind = INLINE
    elif kind != BLOCK:
        kind = BREAK
    return np.int64(kind | AFTER << LEAD_SHIFT | NO_SECTION << SECTION_SHIFT)


def section_of(name: str) -> int:
    """The section that an element opens; NO_SECTION if it opens none."""
    return next((number for number, names in enumerate(SECTIONS) if name in names), NO_SECTION)


def fold_name(name: str) -> int:
    """A tag name in lower case, at most 16 bytes, as one 64-bit word."""
    padded = name.encode("ascii").ljust(16, b"\0")
    first, second = int.from_bytes(padded[:8], "little"), int.from_bytes(padded[8:], "little")
    return first ^ second * int(LONG_NAME) & 0xFFFFFFFFFFFFFFFF


DEEPEST_FOREIGN = 16
"""Elements opened deeper are not recorded."""
_U0, _ROLE, _STEP = np.uint64(0), np.uint64(15), np.uint64(4)
_FULL = np.uint64(4 * (DEEPEST_FOREIGN - 1))


@part
def is_foreign(stack):  # uint64 -> bool
    """Whether a tag at this point belongs to a foreign element."""
    top = np.int64(stack & _ROLE)
    return top in (SVG, MATH)


@part
def has_cdata(stack):  # uint64 -> bool
    """Whether CDATA sections are recognised."""
    top = np.int64(stack & _ROLE)
    return top != 0 and top != FOREIGN_OBJECT


@part
def foreign_depth(stack):  # uint64 -> int64
    """Number of open roots and integration points."""
    depth = np.int64(0)
    while stack != _U0:
        stack >>= _STEP
        depth += 1
    return depth


@part
def left_foreign(stack):  # uint64 -> uint64
    """The stack after foreign content ends: up to the next integration point, or empty."""
    while is_foreign(stack):
        stack >>= _STEP
    return stack


@part
def foreign_after(stack, role, kind, closing, empty):  # uint64, int64, int64, bool, bool -> uint64
    """The stack after a tag. empty: whether the tag closes itself"""
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
