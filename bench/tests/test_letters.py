"""The pages of the benchmark in other letters: the same markup, and as many words."""

import os
import time
from pathlib import Path

import pytest

from bench.speed import letters
from bench.speed.letters import ALPHABETS, in_alphabet, measure_letters
from spotsieve.stream.cli import main
from spotsieve.stream.sign.features.shown_text import words_of

PAGE = {
    "url": "https://lamps.example/",
    "content_type": "text/html",
    "body": "<title>Lamps</title><p class=lead>The Blue lamp &amp; the Red &eacute;toile, since 1999."
    "<script>var lamp</script>",
}
BODIES = {
    "Latin": PAGE["body"],
    "with accents": PAGE["body"]
    .replace("Lamps", "Làmps")
    .replace("The Blue lamp", "Thé Blüé làmp")
    .replace("the Red", "thé Réd")
    .replace("toile, since", "töilé, sincé"),
    "Cyrillic": PAGE["body"]
    .replace("Lamps", "Лампс")
    .replace("The Blue lamp", "Тхе Блуе ламп")
    .replace("the Red", "тхе Ред")
    .replace("toile, since", "тоиле, синце"),
    "plain text": "The Blue lamp & the Red étoile, since 1999.",
}


@pytest.mark.parametrize("name", ALPHABETS)
def test_a_page_in_other_letters_keeps_its_markup_and_its_words(name: str) -> None:
    written = in_alphabet(PAGE, name)
    assert written["url"] == PAGE["url"]
    if name in BODIES:
        assert written["body"] == BODIES[name]
    if name == "mixed":
        kinds = {word.form.isascii() for word in words_of(written["body"])}
        assert kinds == {True, False}
    if name == "ideographs":
        assert written["body"].startswith("<title>")
        assert "<p class=lead>" in written["body"]
        assert all("一" <= character < "\u6188" for character in written["body"] if not character.isascii())
    assert written["content_type"] == ("text/plain" if name == "plain text" else "text/html")


def test_a_quick_run_measures_every_alphabet(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, files = letters._cpu_seconds, set[Path]()

    def seconds_of(file: Path) -> float:
        """CPU seconds of the command for the first file, else of the same work in this process."""
        if not files:
            files.add(file)
            return whole(file)
        files.add(file)
        before = time.process_time()
        assert main(["filter", str(file), "--out", os.devnull, "--force"]) == 0
        return time.process_time() - before

    monkeypatch.setattr(letters, "_cpu_seconds", seconds_of)
    figures = measure_letters(1, 20, lambda _: None)
    assert len(files) == 1 + len(ALPHABETS)
    assert {f"us.{name}" for name in ALPHABETS} | {f"ratio.{name}" for name in ALPHABETS[1:]} < figures.keys()
