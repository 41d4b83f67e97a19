"""Write wordlists.txt, the frozen function words of many languages, from lists of other projects and a few of our own.

Run it by hand: `python -m spotsieve.stream.sign.features.generate_wordlists LUCENE_JAR`. The environment needs
stopwordsiso 0.7.1, spacy 3.8.18 and wordfreq 3.1.1. LUCENE_JAR is the Maven artefact
org.apache.lucene:lucene-analysis-common:9.12.0. Put the digest that it prints into stream/sign/features/languages.py.
Other lists change verdicts.

The words of a language come from Lucene's list. Without one they are the words on which stopwords-iso and spaCy agree,
or the only list that exists. wordlist_sources.txt adds words. The lists are cut to MOST_WORDS by frequency in running
text, and no listed word is below LEAST_FREQUENCY. So the lists of all languages cover about the same share of text, and
a noisy long list (French 691, Breton 1203 words in stopwords-iso) brings no content words. The frequencies are
wordfreq's. The words of a language that wordfreq does not know are in wordlist_sources.txt, in order, because the other
lists are tiny or unranked. The antecedents are the most frequent words, until they cover ANTECEDENT_SHARE of running
text: at least 12, at most 24. English has the paper's antecedents and the stop-words of stream/sign/features/spots.py.
Languages that a page's own words hardly tell apart form one group, which has the words of all of them.
"""

import hashlib
import importlib
import json
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from spotsieve.stream.base.terminal import show
from spotsieve.stream.sign.features.spots import DEFAULT_ANTECEDENTS, DEFAULT_STOP_WORDS
from spotsieve.stream.sign.text.characters import JOINING, MARK, SEPARATOR, WORD, class_and_folding, normalised

SOURCES = Path(__file__).parent / "wordlist_sources.txt"
WRITTEN = Path(__file__).parent / "wordlists.txt"
MOST_WORDS = 130
LEAST_FREQUENCY = 1e-4
ANTECEDENT_SHARE = 0.20
FEWEST_ANTECEDENTS, MOST_ANTECEDENTS, UNRANKED_ANTECEDENTS = 12, 24, 18


@cache
def sources(kind: str) -> dict[str, list[str]]:
    """Words by name, from the lines of one kind in wordlist_sources.txt."""
    lines = [line.split() for line in SOURCES.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {name: words for found, name, *words in lines if found == kind}


def tokens_of(text: str) -> Iterator[str]:
    """Tokens of a list's entry, as the kernel makes them: normalised, cut at every non-letter."""
    word = ""
    for character in normalised(text) + " ":
        kind, _ = class_and_folding(character)
        if kind in (WORD, JOINING) or (kind == MARK and word):
            word += character
        elif kind == SEPARATOR:
            if word:
                yield word
            word = ""


def ranked_words(language: str, lucene: zipfile.ZipFile) -> list[tuple[str, float]]:
    """Words of a language with their shares of running text, the most frequent first."""
    if language in sources("ours"):
        ours = dict.fromkeys(word for entry in sources("ours")[language] for word in tokens_of(entry))
        return [(word, 0.0) for word in ours]
    word_frequency = importlib.import_module("wordfreq").word_frequency
    more = {word for entry in sources("more").get(language, ()) for word in tokens_of(entry)}
    found = (set(listed_words(language, lucene)) | more) - set(sources("dropped").get(language, ()))
    name = {"tl": "fil", "hr": "sh", "sr": "sh"}.get(language, language)
    # Tokens write a final sigma like any other sigma.
    shares = {
        word: word_frequency(word[:-1] + "ς" if word.endswith("σ") else word, name)
        for word in found
        if not any(map(str.isdigit, word))
    }
    shares = {word: share for word, share in shares.items() if share >= LEAST_FREQUENCY or word in more}
    kept = sorted(shares, key=lambda word: (-shares[word], word))
    return [(word, shares[word]) for word in kept[:MOST_WORDS]]


def listed_words(language: str, lucene: zipfile.ZipFile) -> Iterator[str]:
    """Tokens of a language in the lists that other projects maintain."""
    if language in sources("lucene"):
        path = f"org/apache/lucene/analysis/{sources('lucene')[language][0]}"
        for line in lucene.read(path).decode("utf-8").splitlines():
            yield from tokens_of(line.split("|")[0].split("#")[0])
        return
    iso = json.loads(files("stopwordsiso").joinpath("stopwords-iso.json").read_text("utf-8")).get(language, [])
    try:
        spacy = importlib.import_module(f"spacy.lang.{language}.stop_words").STOP_WORDS
    except ImportError:
        spacy = set()
    lists = [{token for entry in entries for token in tokens_of(entry)} for entries in (iso, spacy) if entries]
    yield from set.intersection(*lists) if lists else ()


def antecedent_count(language: str, words: list[tuple[str, float]]) -> int:
    """Number of the most frequent words that are antecedents."""
    if language in sources("leading"):
        return int(sources("leading")[language][0])
    covered = 0.0
    for count, (_, share) in enumerate(words):
        most = MOST_ANTECEDENTS if share > 0.0 else UNRANKED_ANTECEDENTS
        if count >= most or (count >= FEWEST_ANTECEDENTS and covered >= ANTECEDENT_SHARE):
            return count
        covered += share
    return len(words)


def spellings(language: str, word: str) -> tuple[str, ...]:
    """The word, and its spelling on pages that use other code points for some letters."""
    other = word
    pairs = sources("spelling").get(language, [])
    for one, another in zip(pairs[0::2], pairs[1::2], strict=True):
        other = normalised(other.replace(one, another))
    return (word,) if other == word else (word, other)


def group_lines(name: str, languages: list[str], lucene: zipfile.ZipFile) -> list[str]:
    """The three lines of one group."""
    antecedents: dict[str, None] = {}
    stop_words: dict[str, None] = {}
    for language in languages:
        if language == "en":
            antecedents |= dict.fromkeys(DEFAULT_ANTECEDENTS)
            stop_words |= dict.fromkeys(DEFAULT_STOP_WORDS)
            continue
        words = ranked_words(language, lucene)
        count = antecedent_count(language, words)
        antecedents |= dict.fromkeys(form for word, _ in words[:count] for form in spellings(language, word))
        stop_words |= dict.fromkeys(form for word, _ in words for form in spellings(language, word))
    others = [word for word in stop_words if word not in antecedents]
    return [" ".join([name, *languages]), " ".join(antecedents), " ".join(others)]


def main() -> None:
    """Write wordlists.txt and print its digest."""
    header = [
        "# Function words of many languages. A group: its name and languages, its antecedents, its other stop-words.",
        (
            "# Written by stream/sign/features/generate_wordlists.py from the lists of Apache Lucene (Apache-2.0, BSD: "
            "Savoy,"
        ),
        "# Snowball), stopwords-iso (MIT) and spaCy (MIT) and our own; kept and ordered by wordfreq's frequencies.",
    ]
    with zipfile.ZipFile(sys.argv[1]) as lucene:
        lines = [line for name, languages in sources("group").items() for line in group_lines(name, languages, lucene)]
    written = "\n".join([*header, *lines, ""]).encode("utf-8")
    WRITTEN.write_bytes(written)
    show(hashlib.sha256(written).hexdigest())


if __name__ == "__main__":
    main()
