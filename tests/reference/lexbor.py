"""The tokens of a page by lexbor (selectolax), a full HTML parser, and the page of figures that compares the kernel's.

`python -m tests.reference.lexbor` writes docs/measured/kernel-vs-lexbor.md.
"""

import json
import lzma
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser, LexborNode

from spotsieve.stream.sign.text.html import elements
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.text import KINDS, Words

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
REPORT = ROOT / "docs" / "measured" / "kernel-vs-lexbor.md"
HIDDEN = (elements.HIDDEN, elements.HIDDEN_BREAK, elements.SCRIPT, elements.TEMPLATE)


def pages_of(name: str) -> Iterator[tuple[str, bytes]]:
    """(id, page) of every page of a labelled set."""
    with lzma.open(DATA / name / "pages.jsonl.xz") as lines:
        for line in lines:
            record = json.loads(line)
            yield record["id"], record["body"].encode()


def lexbor_tokens(page: bytes) -> list[str]:
    """Tokens of the text nodes of lexbor's tree in document order, with the kernel's rules for elements and words."""
    words = Words()
    node: LexborNode | None = LexborHTMLParser(page).root
    while node is not None:
        kind = KINDS.get(node.tag or "", elements.INLINE)
        if node.tag == "-text":
            for character in node.text_content or "":
                words.read(character)
        below = None
        if kind in HIDDEN:
            separate(words, kind)
        else:
            separate(words, kind)
            below = node.child
        if below is not None:
            node = below
            continue
        while node is not None and node.next is None:
            node = node.parent
            if node is not None:
                separate(words, KINDS.get(node.tag or "", elements.INLINE))
        node = node.next if node is not None else None
    words.end_block()
    return [word for block in words.blocks for word in block]


def separate(words: Words, kind: int) -> None:
    if kind == elements.BLOCK:
        words.end_block()
    elif kind not in (elements.INLINE, elements.HIDDEN, elements.SCRIPT):
        words.end_word()


def equal_share(first: list[str], second: list[str]) -> float:
    """2 |A n B| / (|A| + |B|) over the multisets of tokens; 1 for two empty ones."""
    if not first and not second:
        return 1.0
    common = sum((Counter(first) & Counter(second)).values())
    return 2 * common / (len(first) + len(second))


def kernel_tokens(page: bytes) -> list[str]:
    """The kernel's tokens of an HTML page."""
    return [word for block in tokens_of(page, True) for word in block]


def compare(name: str, every: int = 1) -> list[tuple[float, bool, str]]:
    """(share of equal tokens, whether the sequences are equal, page id) of pages of a set, the worst first."""
    rows = []
    for page_id, page in islice(pages_of(name), 0, None, every):
        ours, theirs = kernel_tokens(page), lexbor_tokens(page)
        rows.append((equal_share(ours, theirs), ours == theirs, page_id))
    return sorted(rows)


# Where the kernel differs on purpose: it has no tree, and it reads a page as a browser with scripting shows it.
KNOWN_DIFFERENCES = {
    "<noscript>a<!--</noscript>-->b</noscript>c": "lexbor parses without scripting, so <noscript> holds markup for it; "
    "the kernel skips it as raw text up to the first </noscript>, as a browser with scripting does",
    "<head><noscript><img>text</noscript></head>b": "the same: without scripting, an element that has no place in the "
    "head ends <noscript> there, and its text becomes text of the body",
    "a<noscript>b<p>c": "with scripting the rest of the page is raw text, and without it text of the page; where the "
    "end tag is missing, the kernel reads <noscript> as without scripting",
    "<script src=x.js />a": "a self-closing slash has no meaning in HTML, so a browser hides the rest of the page; "
    "where the end tag is missing, the kernel takes the element for an empty one, and keeps the text",
    "<div><template shadowrootmode=open>a</template>b</div>": "lexbor does not know declarative shadow roots, which "
    "browsers show",
    "<svg></h1><style>x<span>y": "the kernel has no tree, so it cannot know whether <h1> is open outside of "
    "<svg>; the end tag of any block ends foreign content, and outside of it <style> is raw text",
    "<frameset>x<frame>y</frameset>z": "a tree builder drops all text of a frameset page; the kernel keeps it, for a "
    "page is never judged empty that has text",
    "<body>x</body>y</html>z": "a tree builder moves text behind </body> into the body, where it touches the text "
    "before; the kernel ends a block at these tags",
    "<colgroup>x</colgroup>y": "text that is not allowed in a table part is moved before the table; "
    "the kernel ends a block at the tag where it stands",
}


def write_report() -> None:
    """Write docs/measured/kernel-vs-lexbor.md; page ids only, no content of the pages."""
    lines = [
        "# The kernel's tokens and lexbor's",
        "",
        "Written by `python -m tests.reference.lexbor`. For every page: the tokens of the text kernel, and those of",
        "the text nodes of lexbor's tree (selectolax) in document order, both with the rules of",
        (
            "`stream/sign/text/html/elements.py` (what ends a block, parts words, is hidden) and the same word rules. "
            "The share"
        ),
        "of equal tokens is 2 |A n B| / (|A| + |B|) over the multisets of tokens; the sequences are compared as well.",
        "",
        "| set | pages | average share | lowest share | pages with equal sequences |",
        "|---|---|---|---|---|",
    ]
    worst = []
    for name in ("news", "docs"):
        rows = compare(name)
        average = sum(share for share, _, _ in rows) / len(rows)
        same = sum(equal for _, equal, _ in rows)
        lines.append(f"| {name} | {len(rows)} | {average:.5f} | {rows[0][0]:.5f} | {same} |")
        worst += [(share, page_id) for share, equal, page_id in rows[:20] if not equal]
    lines += ["", "## Worst pages", ""]
    if worst:
        lines += [f"- {page_id}: {share:.5f}" for share, page_id in sorted(worst)]
    else:
        lines += [
            "None: on every page both give the same tokens in the same order. The pages of both sets were written by a",
            "serializer, so their tags nest; the cases below show where hand-written markup would part the two.",
        ]
    lines += ["", "## Known differences, on made-up pages", "", "| page | kernel | lexbor | why |", "|---|---|---|---|"]
    for page, reason in KNOWN_DIFFERENCES.items():
        ours, theirs = kernel_tokens(page.encode()), lexbor_tokens(page.encode())
        lines.append(f"| `{page}` | {' '.join(ours)} | {' '.join(theirs)} | {reason} |")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    write_report()
