"""The pages of the benchmark in other letters: the same markup, and as many words."""

import pytest

from bench.speed.letters import ALPHABETS, in_alphabet, measure_letters
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


def test_a_quick_run_measures_every_alphabet() -> None:
    figures = measure_letters(1, 20, lambda _: None)
    assert {f"us.{name}" for name in ALPHABETS} | {f"ratio.{name}" for name in ALPHABETS[1:]} < figures.keys()
