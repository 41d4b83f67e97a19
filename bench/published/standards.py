"""`python -m bench.published.standards` runs the tests and tables that the web's standards publish through the intake.

A case passes if the filter finds what the standard says. Every other case has a reason, or the run fails.
"""

import argparse
import json
import platform
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.published.repositories import CLONES, Repository, RepositoryFile, commit_of, files_of
from spotsieve.stream.sign.intake.charset import declared_in_markup, find_codec, to_utf8
from spotsieve.stream.sign.intake.content import find_media_type, read_content_type
from spotsieve.stream.sign.text.html import elements
from tests.conftest import REPOSITORY
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.lexbor import HIDDEN, separate
from tests.reference.text import KINDS, Words

DOCUMENT = REPOSITORY / "docs" / "measured" / "standards.md"
_BEFORE_MOVE = "9329e64694e7835d0dcff9811e22856ef6ad16f9"
"""The last commit of html5lib-tests with the tests of tree construction, which are in web-platform-tests since."""


class StandardCase(NamedTuple):
    """A case of a test. expected and found are equal where the filter does what the standard says.

    reason: a key of REASONS for a case that does not pass; "" for an unknown reason
    """

    text: str
    expected: object
    found: object
    reason: str = ""


class StandardTest(NamedTuple):
    """A test or table of a standard. cases: yields None for a case that is left out"""

    name: str
    repository: Repository
    cases: Callable[[RepositoryFile], Iterator[StandardCase | None]]
    left_out: str = ""


REASONS = {
    "protects scripts": "the standard replaces text in these sets by one U+FFFD to protect scripts; the filter runs no "
    "script, and reads the text",
    "undefined byte": "the standard reads an undefined byte as a control character, the filter as U+FFFD: both "
    "separate words, and the byte is evidence against the declared set",
    "new Big5": "Python's codec has the Hong Kong characters of 2004, and these are of 2008",
    "symbol": "a symbol in another form, such as a wave dash for a full-width tilde: both separate words",
    "lenient label": "the filter reads a label that the standard ignores, because of a quotation mark, a bracket or a "
    "blank; a wrong label does little, because valid UTF-8 is UTF-8 whatever is declared",
    "lenient type": "the filter reads a media type with a wrong character before, behind or in it, and does not read "
    "types that are made of symbols",
    "script": "a script writes the declaration, and the filter runs none",
    "noscript": "the filter reads <noscript> as with scripting; where no text follows its end tag, as without",
    "copy": "<selectedcontent> shows a copy of an option, which the filter reads once",
    "frameset": "a tree builder drops all text of a page of frames; the filter keeps it",
    "moved": "a tree builder moves text in a table before the table; the filter reads it where it is, in a block of "
    "its own",
    "block": "the filter ends a block at a tag that a tree builder ignores",
    "ruby": "<rb> does not separate words for the filter",
    "NUL": "the standard reads NUL in svg and math as U+FFFD; the filter leaves it out everywhere",
}


def labels(file: RepositoryFile) -> Iterator[StandardCase | None]:
    """Every label of a character set must find the codec of its set."""
    for group in json.loads(file.content):
        for encoding in group["encodings"]:
            expected = find_codec(encoding["name"])
            for label in encoding["labels"]:
                reason = "protects scripts" if encoding["name"] == "replacement" else ""
                yield StandardCase(label, expected, find_codec(label), reason)


_INDEX_SETS = {"jis0208": ("euc-jp", "shift_jis"), "jis0212": ("euc-jp",)}
_SYMBOLS = frozenset("～∥－￠￡￢")


def index(file: RepositoryFile) -> Iterator[StandardCase | None]:
    """Every character of an index must be what its bytes are read as, in a page of that set."""
    name = Path(file.place).stem.removeprefix("index-")
    for line in file.content.decode().split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        pointer, point = line.split("\t")[:2]
        expected = chr(int(point, 16))
        for label in _INDEX_SETS.get(name, (name,)):
            raw = _bytes_of(name, label, int(pointer))
            if raw is None:
                continue
            found = to_utf8(raw, label).text.decode()
            reason = "undefined byte" if "\x7f" <= expected <= "\x9f" else ""
            reason = "symbol" if expected in _SYMBOLS and len(found) == 1 else reason
            reason = "new Big5" if name == "big5" else reason
            yield StandardCase(f"{label} {raw.hex()}", expected, found, reason)


def _bytes_of(index_name: str, label: str, pointer: int) -> bytes | None:
    """The bytes of a pointer by the standard's encoders; None if the set has no bytes for it."""
    if index_name == "big5":
        lead, trail = divmod(pointer, 157)
        return bytes([lead + 0x81, trail + (0x40 if trail < 0x3F else 0x62)])
    if index_name in ("euc-kr", "gb18030"):
        lead, trail = divmod(pointer, 190)
        offset = 0x41 if index_name == "euc-kr" or trail >= 0x3F else 0x40
        return bytes([lead + 0x81, trail + offset])
    if label == "shift_jis":
        lead, trail = divmod(pointer, 188)
        return bytes([lead + (0x81 if lead < 0x1F else 0xC1), trail + (0x40 if trail < 0x3F else 0x41)])
    if label == "euc-jp":
        row, column = divmod(pointer, 94)
        mark = b"\x8f" if index_name == "jis0212" else b""
        return mark + bytes([row + 0xA1, column + 0xA1]) if row < 94 else None
    return bytes([pointer + 0x80])


def content_types(file: RepositoryFile) -> Iterator[StandardCase | None]:
    """A Content-Type must give the media type and the character set that the standard parses from it."""
    for case in json.loads(file.content):
        if isinstance(case, str):
            continue
        given = case["input"]
        media_type = (case["output"] or "").partition(";")[0]
        yield StandardCase(given, media_type, find_media_type(given), "lenient type")
        if "encoding" in case:
            label = find_codec(read_content_type(given)[1])
            yield StandardCase(given, find_codec(case["encoding"]), label, "" if case["encoding"] else "lenient label")


def declarations(file: RepositoryFile) -> Iterator[StandardCase | None]:
    """The declaration in a page must give its character set: that of its byte order mark, or of its markup."""
    for case in file.content.split(b"#data\n")[1:]:
        page, _, rest = case.partition(b"\n#encoding\n")
        expected = find_codec(rest.split(b"\n")[0].strip().decode())
        found = find_codec(declared_in_markup(page)) or find_codec("windows-1252")
        if to_utf8(page).text == page.removeprefix(b"\xef\xbb\xbf") != page:
            found = "utf-8"
        reason = "script" if b"<script" in page else ""
        reason = "lenient label" if found == find_codec("iso-8859-2") else reason
        yield StandardCase(page.decode("latin-1"), expected, found, reason)


_DATA = re.compile(r"(?:^|\n)#data\n")
_NODE = re.compile(r"\|( +)(.*)", re.DOTALL)


def trees(file: RepositoryFile) -> Iterator[StandardCase | None]:
    """The visible words of the tree must be those of our blocks, in the same order."""
    for case in _DATA.split(file.content.decode("utf-8", "surrogateescape"))[1:]:
        page, _, rest = case.partition("\n#errors\n")
        if "#document-fragment" in rest or "#errors" in page:
            yield None
            continue
        expected = _words_of_tree(rest.partition("#document\n")[2].rstrip("\n").split("\n"))
        found = _words_of(page)
        yield StandardCase(page, expected, found, find_word_reason(page, expected, found))


def _words_of(page: str) -> list[str]:
    return [word for block in tokens_of(page.encode("utf-8", "surrogateescape"), True) for word in block]


def _words_of_tree(lines: Sequence[str]) -> list[str]:
    """The words of a tree that is written with a node on each line, indented by its depth."""
    words, open_kinds, hidden_at = Words(), list[tuple[int, int]](), None
    for depth, node in _nodes(lines):
        while open_kinds and open_kinds[-1][0] >= depth:
            level, kind = open_kinds.pop()
            hidden_at = None if hidden_at == level else hidden_at
            if hidden_at is None:
                separate(words, kind)
        if hidden_at is not None:
            continue
        if node.startswith('"'):
            for character in node[1:-1]:
                words.read(character)
        elif node.startswith("<") and not node.startswith("<!"):
            name = node[1:-1].rpartition(" ")[2]
            kind = KINDS.get(name, elements.INLINE)
            separate(words, kind)
            open_kinds.append((depth, kind))
            hidden_at = depth if kind in HIDDEN else None
    words.end_block()
    return [word for block in words.blocks for word in block]


def _nodes(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Depth and text of each node. The text of a text node may have several lines."""
    depth, text = 0, ""
    for line in lines:
        found = None if text else _NODE.fullmatch(line)
        if found is not None:
            depth, text = len(found[1]), found[2]
        elif text:
            text += "\n" + line
        if text and (not text.startswith('"') or (text.endswith('"') and len(text) > 1)):
            yield depth, text
            text = ""


_WORD_REASONS = (
    ("noscript", r"<noscript"),
    ("copy", r"<selectedcontent"),
    ("frameset", r"<frameset"),
    ("moved", r"<table"),
    ("ruby", r"<rb>"),
    ("NUL", r"\0"),
    ("block", r"</(?:body|html|option)>"),
)


def find_word_reason(page: str, expected: Sequence[str], found: Sequence[str]) -> str:
    """The reason of other words. A word of the tree that our blocks lack has a reason in noscript and copies only."""
    lost = Counter("".join(expected)) - Counter("".join(found))
    for reason, pattern in _WORD_REASONS[:2] if lost else _WORD_REASONS:
        if re.search(pattern, page, re.IGNORECASE):
            return reason
    return ""


def tokens(file: RepositoryFile) -> Iterator[StandardCase | None]:
    """The words of the tokenizer's characters must be those of our blocks."""
    for case in json.loads(file.content).get("tests", []):
        page, output = case["input"], case["output"]
        if case.get("doubleEscaped"):
            page, output = _unescape(page), [[one[0], *map(_unescape, one[1:])] for one in output]
        kinds = {KINDS.get(one[1], elements.INLINE) for one in output if one[0] in ("StartTag", "EndTag")}
        surrogates = any("\ud800" <= character <= "\udfff" for character in page)
        if "Data state" not in case.get("initialStates", ["Data state"]) or surrogates or not kinds <= _SHOWN:
            yield None
            continue
        words = Words()
        for token in output:
            if token[0] == "Character":
                for character in token[1]:
                    words.read(character)
            elif token[0] in ("StartTag", "EndTag"):
                separate(words, KINDS.get(token[1], elements.INLINE))
        words.end_block()
        yield StandardCase(page, [word for block in words.blocks for word in block], _words_of(page))


_SHOWN = {elements.INLINE, elements.BLOCK, elements.BREAK}


def _unescape(text: Any) -> Any:
    return re.sub(r"\\u([0-9A-Fa-f]{4})", lambda found: chr(int(found[1], 16)), text) if isinstance(text, str) else text


_ENCODING = "whatwg/encoding"
_HTML5LIB = "html5lib/html5lib-tests"
TESTS = (
    StandardTest("Encoding: labels", Repository(_ENCODING, r"^encodings\.json$"), labels),
    StandardTest("Encoding: indexes", Repository(_ENCODING, r"^index-(?!.*(ranges|katakana)).*\.txt$"), index),
    StandardTest(
        "MIME Sniffing: Content-Types (web-platform-tests, as kept by this repository)",
        Repository("servo/rust-url", r"^data-url/tests/.*mime-types\.json$"),
        content_types,
    ),
    StandardTest(
        "HTML: declared character sets",
        Repository(_HTML5LIB, r"^encoding/tests.*\.dat$", (), _BEFORE_MOVE),
        declarations,
    ),
    StandardTest(
        "HTML: tokenizer",
        Repository(_HTML5LIB, r"^tokenizer/.*\.test$", (), _BEFORE_MOVE),
        tokens,
        "other initial states, hidden elements and lone surrogates",
    ),
    StandardTest(
        "HTML: tree construction",
        Repository(_HTML5LIB, r"^tree-construction/[^/]*\.dat$", (), _BEFORE_MOVE),
        trees,
        "fragments",
    ),
)
HEAD = """# Published tests of the web's standards

Written by `make standards` (`ARGS=FOLDER` with clones of the repositories; a missing clone is made there where there is
network, by default in `~/.cache/spotsieve/published`). The tests of HTML compare the visible words of the standard's
tree or tokens with the words of our blocks, in their order.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all tests, and write the document. Returns 1 for a failure without a known reason."""
    parser = argparse.ArgumentParser("python -m bench.published.standards", description=__doc__)
    parser.add_argument("clones", nargs="?", type=Path, default=CLONES, help="folder of clones")
    clones = parser.parse_args(arguments).clones
    lines = [HEAD, f"Python {platform.python_version()}.", "", "| test | repository | cases | pass | rate | left out |"]
    lines.append("|---|---|---:|---:|---:|---|")
    failures: list[tuple[str, StandardCase]] = []
    for test in TESTS:
        commit = commit_of(test.repository, clones)
        if commit is None:
            print(f"{test.repository.name}: not in {clones}, and cannot be cloned", file=sys.stderr)
            return 2
        results = [case for file in files_of(test.repository, clones) for case in test.cases(file)]
        cases = [case for case in results if case is not None]
        failed = [case for case in cases if case.expected != case.found]
        left_out = f"{len(results) - len(cases)}: {test.left_out}" if len(results) > len(cases) else ""
        passed = len(cases) - len(failed)
        place = f"{test.repository.name} `{commit}`"
        lines.append(
            f"| {test.name} | {place} | {len(cases):,} | {passed:,} | {passed / len(cases):.2%} | {left_out} |"
        )
        failures += ((test.name.partition(" (")[0], case) for case in failed)
    lines += ["", "| test | reason | cases | example | standard | filter |", "|---|---|---:|---|---|---|"]
    classes = Counter((name, case.reason) for name, case in failures)
    for (name, reason), count in classes.items():
        case = min(
            (case for other, case in failures if (other, case.reason) == (name, reason)), key=lambda one: len(one.text)
        )
        cells = (name, reason or "unknown", str(count), *map(_shown, (case.text, case.expected, case.found)))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| reason | explanation |", "|---|---|"]
    used = {reason for _, reason in classes}
    lines += [
        f"| {name} | {text.replace('<', '`<').replace('>', '>`')} |" for name, text in REASONS.items() if name in used
    ]
    DOCUMENT.write_text("\n".join(lines) + "\n", "utf-8")
    for name, case in failures:
        if not case.reason:
            print(f"{name}: {case.text!r}: {case.expected!r}, found {case.found!r}", file=sys.stderr)
    print(DOCUMENT.relative_to(REPOSITORY))
    return 1 if "" in used else 0


def _shown(value: object) -> str:
    text = " ".join(value) if isinstance(value, list) else str(value)
    text = text.encode("unicode_escape").decode("ascii").replace("|", "/").replace("`", "'")[:100]
    return f"`{text}`" if text else "nothing"


if __name__ == "__main__":
    raise SystemExit(main())
