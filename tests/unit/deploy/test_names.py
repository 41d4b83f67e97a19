"""Checks the names of classes: public classes are nouns, and no two of them share a name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import spotsieve

HERE = Path(spotsieve.__file__).parent
TOPS = ("stream", "state", "bench")

IRREGULAR = frozenset(
    "Begun Broken Brought Built Chosen Drawn Fallen Found Given Gone Grown Heard Held Hidden Kept Known Laid Lent Lost "
    "Made Met Said Seen Sent Shown Spent Spoken Standing Taken Taught Told Written".split()
)
"""Past participles that do not end in -ed."""

BARE = frozenset("Ahead Again Cut Done Into Left Over Put Read Set Split".split())
"""Words that are no name alone, though they may end one: a NumberSet is a set."""

NOUNS_IN_ED = frozenset("Bed Feed Need Seed Speed Thread Embed Shed Red".split())
NOUNS_IN_ING = frozenset(
    {
        "Tuning",  # the settings of a RocksDB database: the usual word
        "Mapping",
        "Posting",
        "Setting",
        "String",
        "Encoding",
        "Ring",
        "Heading",
    }
)
"""Words that end as participles do, and are nouns of their own."""

EXCEPTIONS = {"Put": "an operation of a write batch, named as in leveldb and RocksDB"}
"""Public classes that may break a rule: name -> the reason."""

Class = tuple[str, str]  # name, place


def public_classes(sources: Iterable[tuple[str, str]]) -> Iterator[Class]:
    """The public classes at the top level of modules: (name, place). sources: (path, text) of each module"""
    for place, text in sources:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, f"{place}:{node.lineno}"


def is_participle(name: str) -> bool:
    """Whether the last word of a class name is a participle, such as Told, NotFound or Judging."""
    words = re.findall(r"[A-Z][a-z0-9]*", name)
    last = words[-1] if words else name
    if last in IRREGULAR or name in BARE:
        return True
    if last.endswith("ed"):
        return last not in NOUNS_IN_ED
    return last.endswith("ing") and last not in NOUNS_IN_ING


def faults_of(classes: Iterable[Class]) -> list[str]:
    """One line for each class that breaks a rule."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in classes:
        places[name].append(place)
    faults = []
    for name, found in sorted(places.items()):
        if name in EXCEPTIONS:
            continue
        if is_participle(name):
            faults.append(f"{name} ({found[0]}) is a participle: name the class by a noun")
        if len(found) > 1:
            faults.append(f"{name} is the name of {len(found)} classes: {', '.join(found)}")
    return faults


def sources() -> Iterator[tuple[str, str]]:
    """The modules of the product and of bench/: (path, text)."""
    for top in TOPS:
        for path in sorted((HERE / top).rglob("*.py")):
            yield str(path.relative_to(HERE)), path.read_text(encoding="utf-8")


@cache
def tree_classes() -> list[Class]:
    """The public classes of these modules."""
    return list(public_classes(sources()))


def test_public_classes_are_nouns_and_their_names_are_unique() -> None:
    assert faults_of(tree_classes()) == []


def test_every_exception_is_needed_and_has_a_reason() -> None:
    names = {name for name, _ in tree_classes()}
    assert set(EXCEPTIONS) <= names
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize(
    "name", ["Told", "Heard", "NotFound", "Judged", "BatchesHeld", "Judging", "Broken", "JudgedPagesKept"]
)
def test_a_planted_participle_is_found(name: str) -> None:
    planted = public_classes([("stream/planted.py", f"class {name}:\n    pass\n")])
    assert faults_of(planted) == [f"{name} (stream/planted.py:1) is a participle: name the class by a noun"]


@pytest.mark.parametrize("name", ["JudgeTrace", "Speed", "Tuning", "SignedPages", "PageFeed"])
def test_a_noun_passes(name: str) -> None:
    assert faults_of(public_classes([("stream/planted.py", f"class {name}:\n    pass\n")])) == []


def test_a_planted_duplicate_is_found_and_private_and_nested_classes_are_not() -> None:
    one, other = (
        "class Summary:\n    pass\n",
        "class _Own:\n    class Summary:\n        pass\nclass Summary:\n    pass\n",
    )
    planted = list(public_classes([("stream/one.py", one), ("state/other.py", other)]))
    assert faults_of(planted) == ["Summary is the name of 2 classes: stream/one.py:1, state/other.py:4"]
    assert (
        faults_of(
            public_classes(
                [("stream/one.py", "class _Own:\n    pass\n"), ("state/other.py", "class _Own:\n    pass\n")]
            )
        )
        == []
    )
