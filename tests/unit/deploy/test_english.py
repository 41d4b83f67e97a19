"""Checks the English of the tree: no phrases of the dialect that our text has grown out of.

It searches the docstrings, comments and string literals of Python files, and Markdown files. It also finds a phrase
that is split by a line break, or by the end of one literal and the beginning of the next. Rewrite the sentence; where
the phrase is right, add it to EXCEPTIONS with a reason.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import tracked_names


class Phrase(NamedTuple):
    """A phrase that is wrong nearly always.

    hints: lower-case texts; every match contains one of them. Searching a plain text is fast, so this comes first.
    pattern: the phrase; a space also matches a line break
    planted: a sentence that contains it
    write: what to write in its place
    """

    name: str
    hints: tuple[str, ...]
    pattern: str
    planted: str
    write: str


BE = "(?:is|are|was|were|be|been)"
PHRASES = (
    Phrase(
        "none of",
        ("that there", "none of"),
        rf"\bthat there {BE} none\b|\bnone of (?:them|these|those|which|whom) {BE}\b|\bthere {BE} none of\b",
        "a value that there is none of is refused",
        "name the thing: Unknown values are rejected.",
    ),
    Phrase(
        "of which there",
        ("of which",),
        rf"\bof which (?:there|it) {BE}\b|\b(?:that|those|one|ones) of which\b",
        "a key of which there is none, and that of which it knows",
        "name the thing instead of 'which'",
    ),
    Phrase(
        "as of a file",
        ("as of",),
        r"\b[Aa]s of [\w./]+\.(?:py|md)\b",
        "bounds: int64[n + 1], as of walk.py",
        "the meaning itself, or a type that says it",
    ),
    Phrase(
        "as of a name",
        ("as of",),
        r"\b[Aa]s of (?:`|[A-Z][a-z]\w+\b|\w+\(|[a-z]+_\w+)(?!\.\w+\.py)",
        "sizes: as of Signatures",
        "the meaning itself, or a type that says it",
    ),
    Phrase(
        "whom",
        ("whom",),
        r"\b(?:[Ww]hom|[Tt]o whom)\b",
        "Whom the pages of a round meet",
        "the noun: candidates, readers",
    ),
    Phrase(
        "anew",
        (" anew",),
        r"\b(?i:begin|beginn?ings?|begins|began|begun|made|make|makes|making|read|reads|start|starts|started) anew\b",
        "begin anew with another directory",
        "restart, recreate, read again",
    ),
    Phrase("to the byte", ("to the byte",), r"\bto the byte\b", "the states are equal to the byte", "byte-identical"),
    Phrase(
        "what is other",
        ("what is other",),
        r"\b[Ww]hat is other\b",
        "what is other for these pages",
        "what differs, overrides",
    ),
    Phrase(
        "what is left",
        ("what is left",),
        r"\b[Ww]hat is left\b",
        "what is left if every page goes",
        "the rest; the noun",
    ),
    Phrase(
        "so many",
        ("so many",),
        r"\bSo many\b|\b(?i:after|at least|at most|by|every|of|one in|than|the first|for|with) so many\b",
        "a page after so many",
        "the number's name, or 'this many'",
    ),
    Phrase(
        "so much of", ("so much of",), r"\b[Ss]o much of\b", "so much of one is in the other", "the share or number of"
    ),
    Phrase(
        "is one that",
        ("one that", "those that", "that of", "those of"),
        rf"\b{BE} (?:one|those) that\b|\b{BE} (?:that|those) of (?:a|an|the|one)\b",
        "the settings are those that the state was made with",
        "the settings of the state: a noun, not a pronoun",
    ),
    Phrase(
        "those that there are",
        ("that there", "what there"),
        r"\b(?:all|one|ones|those|than|what) that there (?:are|is|was|were)\b|\bwhat there (?:is|are|was|were)\b",
        "all that there are",
        "the noun: all shards, the existing keys",
    ),
    Phrase(
        "nobody knows",
        ("nobody",),
        r"\b(?:that|which|where|whom|if|because|since) nobody (?:\w+s|knew|took|has)\b",
        "a key that nobody knows",
        "an adjective or the passive: an unknown key, unread messages",
    ),
    Phrase(
        "is told",
        (" told",),
        rf"\b{BE} told\b(?! apart)",
        "a wait is told when it is over",
        "published, reported, logged, passed",
    ),
    Phrase(
        "hears of",
        ("hear of", "hears of", "heard of"),
        r"\b[Hh]ear(?:s|d)? of\b",
        "hears of an error after a commit",
        "receives, is notified of",
    ),
    Phrase(
        "let through",
        ("let through", "lets through"),
        r"\b[Ll]ets? through\b",
        "pages that are let through",
        "novel, emitted",
    ),
    Phrase(
        "is filed",
        (" filed",),
        rf"\b(?:{BE}|not|and|nothing is) filed\b|\bfiled under\b",
        "each page is filed",
        "indexed",
    ),
    Phrase(
        "passed on unchecked",
        ("passed on",),
        r"\b[Pp]assed on\b(?! to)",
        "it is passed on unchecked",
        "emitted unchecked",
    ),
    Phrase(
        "what it has of",
        ("has of", "have of", "had of", "holds of"),
        r"\b(?:has|have|had|holds) of (?:a|an|it|the|them|this|one another|each other)\b",
        "what a page has of the other one",
        "containment, or the noun",
    ),
    Phrase(
        "of at the beginning",
        ("",),
        r'"""(?:Of|To|By|For|From|Under|With) (?:what|which|whom)\b|"""Of (?:a|an|all|any|each|every|the|its|those)\b',
        '"""Of what each signature holds."""',
        "the noun first: Digest of text and URL",
    ),
    Phrase(
        "by itself alone",
        ("self alone",),
        r"\bby (?:it|them)self alone\b|\beach by itself alone\b",
        "by itself alone",
        "alone",
    ),
    Phrase(
        "what it was",
        ("what it was", "what they were"),
        r"\bwhat it was\b|\bwhat they were\b",
        "it is what it was",
        "unchanged; the old value",
    ),
)

EXCEPTIONS = {
    "stream/demo/": (
        "text of the generated articles",
        "is told",
    ),
    "stream/engine/": (
        "text of the built-in pages that compile the kernels",
        "whom",
    ),
    "stream/sign/features/spots.py": (
        "stop-words",
        "whom",
    ),
    "stream/sign/schemes/": (
        "comparisons with the sets, orders and counts of the papers",
        "is one that, what it has of",
    ),
    "tests/unit/local/test_variants.py": (
        '"as of Monday" is text of a generated page',
        "as of a name",
    ),
}
"""Files and folders (they end in a slash) that may hold phrases: path -> (the reason, names of the phrases).

The longest path that fits a file decides. A phrase that is no longer found under its path must leave the table."""

UNSEARCHED = {
    "docs/measured/": "texts of generated pages; they change when the pages are measured again",
    "tests/unit/deploy/test_english.py": "it names the phrases",
}
"""Files and folders (they end in a slash) that may hold every phrase: path -> the reason."""

_BREAK = r"""(?:\s+(?:\#\s*)?|\s*["']\s+[fr]?["'])"""
"""What may stand between two words: white space, the sign of the next comment line, the ends of two literals."""
_WRITTEN = re.compile(
    r'''[rRbBfF]{0,2}(?:"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\#[^\n]*''', re.DOTALL
)
"""A string literal or a comment of Python."""
_PATTERNS = {phrase.name: re.compile(phrase.pattern.replace(" ", _BREAK)) for phrase in PHRASES}


class Finding(NamedTuple):
    """A phrase in a file."""

    path: str
    line: int
    phrase: Phrase
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.text.split())!r}; write {self.phrase.write}"


def sources() -> Iterator[tuple[str, str]]:
    """The Python and Markdown files of the tree, except those that are exempt from every phrase: (path, text)."""
    for name in tracked_names("*.py", "*.md"):
        if name not in UNSEARCHED and not name.startswith(tuple(path for path in UNSEARCHED if path.endswith("/"))):
            yield name, (REPOSITORY / name).read_text("utf-8")


def findings(path: str, text: str) -> Iterator[Finding]:
    """The phrases in a file, by kind and place. In Python files, only string literals and comments are searched."""
    words = " ".join(re.sub(r"""["'#]""", " ", text.replace(' f"', " ")).split()).lower()
    matches = [
        (phrase, match)
        for phrase in PHRASES
        if any(hint in words for hint in phrase.hints)
        for match in _PATTERNS[phrase.name].finditer(text)
    ]
    if not matches:
        return
    written = [one.span() for one in _WRITTEN.finditer(text)] if path.endswith(".py") else [(0, len(text))]
    for phrase, match in matches:
        if any(begin <= match.start() < end for begin, end in written):
            yield Finding(path, text.count("\n", 0, match.start()) + 1, phrase, match[0])


def exception_for(path: str) -> str | None:
    """The longest path in EXCEPTIONS that is this file or a folder around it."""
    around = [one for one in EXCEPTIONS if path == one or (one.endswith("/") and path.startswith(one))]
    return max(around, key=len, default=None)


@cache
def tree_findings() -> list[Finding]:
    """All findings in the tree."""
    return [finding for path, text in sources() for finding in findings(path, text)]


def test_the_tree_holds_no_phrase_of_the_old_dialect() -> None:
    excused = {path: names.split(", ") for path, (_, names) in EXCEPTIONS.items()}
    found = [
        str(finding)
        for finding in tree_findings()
        if finding.phrase.name not in excused.get(exception_for(finding.path) or "", [])
    ]
    assert found == [], "\n".join(["rewrite these sentences:", *found])


def test_every_exception_is_needed_and_has_a_reason() -> None:
    needed = {(exception_for(finding.path), finding.phrase.name) for finding in tree_findings()}
    idle = [
        f"{path}: {name!r} is not found there (any more): remove it from EXCEPTIONS"
        for path, (_, names) in EXCEPTIONS.items()
        for name in names.split(", ")
        if (path, name) not in needed
    ]
    assert idle == []
    assert all(reason and names for reason, names in EXCEPTIONS.values())
    assert all((REPOSITORY / path).exists() for path in UNSEARCHED)


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.name)
def test_a_planted_phrase_is_found_in_docstrings_comments_texts_and_markdown(phrase: Phrase) -> None:
    words = phrase.planted.removeprefix('"""').removesuffix('"""')
    wrapped = words.replace(" ", "\n    ")
    modules = [f'"""{words}"""\n', f'def f() -> None:\n    """{wrapped}"""\n']
    if not phrase.planted.startswith('"""'):
        modules += [f"x = 1  # {words}\n", f'error = "{words}"\n', words.replace(" ", "\n# ").join(("# ", "\n"))]
        modules.append('error = (\n    "' + words.replace(" ", ' "\n    f"') + '"\n)\n')
        assert phrase in [finding.phrase for finding in findings("planted.md", words)]
    for module in modules:
        assert phrase in [finding.phrase for finding in findings("planted.py", module)], module


@pytest.mark.parametrize(
    "module",
    [
        "if value is told:\n    pass\n",
        "x = y if not filed else z\n",
        '"""The two are told apart by their names. As of 2024, it passed on to the next."""\n',
    ],
)
def test_names_of_code_and_ordinary_english_pass(module: str) -> None:
    assert list(findings("planted.py", module)) == []
