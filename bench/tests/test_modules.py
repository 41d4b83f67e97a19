"""The table of districts: lines, files and imports."""

from pathlib import Path

from bench.modules import read_module, read_tree, table_of


def write(tree: Path, name: str, text: str) -> Path:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_imports_of_other_districts_are_counted_wherever_they_stand(tmp_path: Path) -> None:
    text = """
import numpy
from spotsieve.state.index import State
from spotsieve.stream import cli
from spotsieve.stream.judge.rules import Limits


def late():
    from spotsieve.stream.sign.schemes import Scheme
    from spotsieve.stream.sign.text import words
"""
    module = read_module(write(tmp_path, "stream/judge/by_host/pairs.py", text), tmp_path)
    assert module.district == "stream/judge"
    assert module.imports == {"state": 1, "stream/cli": 1, "stream/sign": 2}


def test_every_district_has_a_row_and_the_product_a_sum(tmp_path: Path) -> None:
    write(tmp_path, "stream/judge/rules.py", "import spotsieve.stream.base.page\n")
    write(tmp_path, "stream/warm.py", "one = 1\ntwo = 2\nthree = 3\n")
    write(tmp_path, "state/index.py", "one = 1\n")
    write(tmp_path, "bench/speed/page.py", "one = 1\n")
    assert table_of(read_tree(tmp_path))[2:] == [
        "| bench | 1 | 1 | 1 | - |",
        "| state | 1 | 1 | 1 | - |",
        "| stream | 1 | 3 | 3 | - |",
        "| stream/judge | 1 | 1 | 1 | base 1 |",
        "| stream and state | 3 | 5 | 1 | |",
    ]
