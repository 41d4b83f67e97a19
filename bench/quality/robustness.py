"""The robustness bench: the share of edited copies that are found as duplicates of their own originals.

Originals: one page of each cluster of a set, with at least 100 words of main text that can be located in its HTML, in
an order fixed by the seed. All of them are submitted to an empty filter; then one kind of edited copy of each, at
another URL. A copy is found if its verdict names its own original. Every kind begins with the originals alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from bench.peers.extractors import trafilatura, whole_page
from bench.peers.methods import minhash, rensa_sketch
from bench.quality.edits import MarkedPage, draw_link_lists, inject, link_texts, mark, replace_words, words_of
from bench.quality.ours import ANY_SETTINGS, in_batches
from bench.quality.sets import LabelledSet
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.research.evaluation.trial import Trial

SEED = 4
LEAST_WORDS = 100
LEAST_LINK_WORDS = 30
REPLACED = (0.01, 0.02, 0.05, 0.10)
INJECTED = (100, 300)
OTHER_HOST = "another-site.example"


@dataclass(frozen=True, slots=True)
class EditKind:
    """A kind of edit. target: lower bound of the share found; None for those beside the issue's"""

    name: str
    edit: Callable[[MarkedPage, Random], str]
    target: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The originals: pages as the filter reads them, and the same pages with their main text marked."""

    pages: tuple[Page, ...]
    marked: tuple[MarkedPage, ...]
    vocabulary: tuple[str, ...]
    link_lists: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class RobustnessRow:
    """Shares found of one kind of edit, by our filter. target: lower bound; None for those beside the
    issues'.
    """

    name: str
    target: float | None
    same_host: float
    other_host: float

    @property
    def least(self) -> float:
        """The smaller of the two shares."""
        return min(self.same_host, self.other_host)


def draw_sample(labelled: LabelledSet, most: int, seed: int = SEED) -> Sample:
    """At most `most` originals; words and link lists come from all pages of the set."""
    places = list(range(len(labelled.pages)))
    Random(seed).shuffle(places)
    chosen: dict[int, tuple[Page, MarkedPage]] = {}
    for place in places:
        page, cluster = labelled.pages[place], labelled.clusters[place]
        text = labelled.main_texts.get(page.label, "")
        if cluster in chosen or len(words_of(text)) < LEAST_WORDS:
            continue
        marked = mark(page.label, page.body.decode("utf-8", "replace"), text)
        if marked is not None:
            chosen[cluster] = (page, marked)
        if len(chosen) == most:
            break
    vocabulary = {word.lower() for text in labelled.main_texts.values() for word in words_of(text)}
    lists = (link_texts(html) for html, markup in labelled.documents if markup)
    long_lists = tuple(tuple(texts) for texts in lists if sum(map(len, map(str.split, texts))) >= LEAST_LINK_WORDS)
    pages, marked_pages = zip(*chosen.values(), strict=True) if chosen else ((), ())
    return Sample(pages, marked_pages, tuple(sorted(vocabulary)), long_lists)


def kinds(sample: Sample) -> list[EditKind]:
    """Every kind of edit, with the issue's targets. The harsher of the two ways to inject is the headline."""

    def replaced(share: float, everywhere: bool) -> Callable[[MarkedPage, Random], str]:
        return lambda page, random: replace_words(
            page.html, page.words if everywhere else page.main, share, sample.vocabulary, random
        )

    def injected(words: int, as_links: bool) -> Callable[[MarkedPage, Random], str]:
        return lambda page, random: inject(page, draw_link_lists(sample.link_lists, words, random), as_links, random)

    targets = {0.01: 0.995, 0.05: 0.98, 0.10: 0.95, 100: 0.99, 300: 0.98}
    bare_targets = {**targets, 300: 0.95}
    found = [EditKind("unedited", lambda page, _: page.html)]
    for where, everywhere in (("main text's words", False), ("whole page's words", True)):
        found += [
            EditKind(f"{share:.0%} of the {where} replaced", replaced(share, everywhere), targets.get(share))
            for share in REPLACED
        ]
    for words in INJECTED:
        found.append(EditKind(f"{words} words of link lists, as links", injected(words, True), targets[words]))
        found.append(
            EditKind(f"{words} words of link lists, as bare text", injected(words, False), bare_targets[words])
        )
    return found


def measure(
    sample: Sample, settings: Settings, has_targets: bool, say: Callable[[str], None], seed: int = SEED
) -> Iterator[RobustnessRow]:
    """A row for each kind of edit. has_targets: whether the issue's targets apply to these pages"""
    originals = [record for batch in in_batches(sample.pages) for record in Trial(settings, ANY_SETTINGS).sign(batch)]
    for kind in kinds(sample):
        say(f"  {kind.name}")
        edited = edited_copies(sample, kind, len(sample.pages), seed)
        yield RobustnessRow(
            kind.name,
            kind.target if has_targets else None,
            share_found(sample.pages, originals, edited, settings, None),
            share_found(sample.pages, originals, edited, settings, OTHER_HOST),
        )


def measure_peers(sample: Sample, pages: int, seed: int = SEED) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The name of each kind of edit, and the share that each peer finds of copies of the first `pages` originals."""
    peers = [_Peer.of(name, sample.marked[:pages]) for name in PEERS]
    for kind in kinds(sample):
        edited = edited_copies(sample, kind, pages, seed)
        yield kind.name, {peer.name: peer.share_found(edited) for peer in peers}


def edited_copies(sample: Sample, kind: EditKind, most: int, seed: int) -> list[str]:
    """The HTML of the edited copies of the first originals."""
    return [kind.edit(page, Random(f"{seed}-{kind.name}-{page.id}")) for page in sample.marked[:most]]


def share_found(
    pages: Sequence[Page], originals: Sequence[bytes], edited: Sequence[str], settings: Settings, host: str | None
) -> float:
    """Share of copies whose verdict names their own original. host: of the copies, None for the original's"""
    trial = Trial(settings, ANY_SETTINGS)
    for record in originals:
        trial.apply(record)
    copies = [copy_of(page, html, host) for page, html in zip(pages, edited, strict=True)]
    found = 0
    for batch in in_batches(copies):
        for copy, verdicts, row in trial.judge(batch):
            original = verdicts.originals[row]
            found += original is not None and copy.label == f"copy of {original.id}"
    return found / len(copies)


def copy_of(page: Page, html: str, host: str | None) -> Page:
    """A page with another body, at another URL of its own host or of another one."""
    if host is None:
        scheme, _, rest = page.url.partition("://")
        url = f"{scheme}://{rest.partition('/')[0]}/copies/{page.label}"
    else:
        url = f"https://{host}/{page.label}"
    return page._replace(source="copies", url=url, body=html.encode(), label=f"copy of {page.label}")


@dataclass(frozen=True, slots=True)
class _Peer:
    """Pairwise comparison: each copy against its own original, without other pages."""

    name: str
    sketch: Callable[[str], object]
    threshold: float
    originals: tuple[object, ...]

    @classmethod
    def of(cls, name: str, marked: Sequence[MarkedPage]) -> "_Peer":
        threshold, make = PEERS[name]
        sketch = make()
        return cls(name, sketch, threshold, tuple(sketch(page.html) for page in marked))

    def share_found(self, edited: Sequence[str]) -> float:
        pairs = zip(self.originals, edited, strict=True)
        found = [
            original is not None and _alike(original, self.sketch(html), self.threshold) for original, html in pairs
        ]
        return sum(found) / len(found)


def _alike(original: object, copy: object, threshold: float) -> bool:
    return copy is not None and original.jaccard(copy) >= threshold  # type: ignore[attr-defined]


def _rensa_of_whole_page() -> Callable[[str], object]:
    visible = whole_page()
    return lambda html: rensa_sketch(visible(html))


def _minhash_of_main_content() -> Callable[[str], object]:
    main_content, sketch = trafilatura(), minhash().sketch
    return lambda html: sketch(main_content(html))


PEERS: Mapping[str, tuple[float, Callable[[], Callable[[str], object]]]] = {
    "whole visible page, rensa 5-shingles >= 0.8": (0.8, _rensa_of_whole_page),
    "trafilatura, datasketch MinHash >= 0.5": (0.5, _minhash_of_main_content),
}
