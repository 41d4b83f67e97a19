"""Measures `spotsieve filter` over the same pages in other letters, and over their text as plain text.

The scanner reads words of ASCII letters in strides, and other words letter by letter.
"""

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from zlib import crc32

import orjson

from bench.peers.cost import measure
from bench.speed.pages import bench_messages
from bench.speed.real_pages import LETTERS, words_replaced
from spotsieve.stream.sign.features.shown_text import PARAGRAPH_END, read_text

_TO_CYRILLIC = str.maketrans(LETTERS + LETTERS.upper(), "абцдефгхийклмнопярстувжзыьАБЦДЕФГХИЙКЛМНОПЯРСТУВЖЗЫЬ")
_TO_ACCENTED = str.maketrans("aeouAEOU", "àéöüÀÉÖÜ")
_FIRST_IDEOGRAPH, _IDEOGRAPHS = 0x4E00, 5_000
_PAIRS = re.compile(r"..?", re.DOTALL)


def _in_ideographs(word: str) -> str:
    """An ideograph for each two letters."""
    return _PAIRS.sub(lambda pair: chr(_FIRST_IDEOGRAPH + crc32(pair[0].encode()) % _IDEOGRAPHS), word)


_WRITTEN: Mapping[str, Callable[[str], str]] = {
    "with accents": lambda word: word.translate(_TO_ACCENTED),
    "Cyrillic": lambda word: word.translate(_TO_CYRILLIC),
    "ideographs": _in_ideographs,
    "mixed": lambda word: word if crc32(word.encode()) & 1 else word.translate(_TO_CYRILLIC),
}
"""A word in each of the other alphabets."""
ALPHABETS = "Latin", *_WRITTEN, "plain text"


def measure_letters(
    rounds: int = 5, pages: int = 8_000, progress: Callable[[str], None] = print
) -> dict[str, float | int]:
    """CPU of `filter` a page in us, without the start of the command, by alphabet: medians of rounds in turn.

    ratio.NAME: of an alphabet to Latin letters, the median over the rounds
    """
    costs = {name: list[float]() for name in ALPHABETS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        messages = [orjson.loads(value) for _, value in bench_messages(pages, 1)]
        files = {name: folder / f"{name}.jsonl" for name in ALPHABETS}
        for name, file in files.items():
            with file.open("wb") as writing:
                writing.writelines(orjson.dumps(in_alphabet(message, name)) + b"\n" for message in messages)
        first = folder / "first.jsonl"
        first.write_bytes(orjson.dumps(messages[0]) + b"\n")
        _cpu_seconds(first)  # Compiles the kernels, or reads them from the cache.
        for number in range(rounds):
            start = _cpu_seconds(first)
            for name, file in files.items():
                costs[name].append((_cpu_seconds(file) - start) / pages * 1e6)
            progress(f"  round {number + 1}: " + ", ".join(f"{name} {costs[name][-1]:.0f} us" for name in ALPHABETS))
    ratios = {
        name: statistics.median(one / latin for one, latin in zip(costs[name], costs["Latin"], strict=True))
        for name in ALPHABETS[1:]
    }
    return {
        "pages": pages,
        **{f"us.{name}": round(statistics.median(cost), 1) for name, cost in costs.items()},
        **{f"ratio.{name}": round(ratio, 3) for name, ratio in ratios.items()},
    }


def in_alphabet(message: dict[str, str], name: str) -> dict[str, str]:
    """A message whose page is written in one of ALPHABETS."""
    body = message["body"]
    if name == "plain text":
        text = read_text(body.encode(), True).text.replace("\n", PARAGRAPH_END)
        return message | {"body": text, "content_type": "text/plain"}
    return message | {"body": words_replaced(body, _WRITTEN[name]) if name in _WRITTEN else body}


def _cpu_seconds(file: Path) -> float:
    """CPU seconds of the whole command over a file, with its threads."""
    command = [sys.executable, "-m", "spotsieve.stream", "filter", str(file), "--out", os.devnull, "--force"]
    return measure(command).cpu_s
