"""Roul, Mittal, Joshi: figures 2-4 (shingle size, th2, the method against simhash), and what rotations find."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.page import decimals, paragraphs, table
from bench.papers.rotations import batch_pairs, neighbour_pairs
from bench.quality.ours import in_batches
from bench.quality.sets import LabelledSet, load_set
from spotsieve.stream.base.settings.schemes import ConceptSettings, SubhashSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.research.models.concepts import ConceptCounter
from spotsieve.stream.research.scoring import Label, Truth
from spotsieve.stream.sign.fingerprints.simhash import BITS
from spotsieve.stream.sign.schemes.concept import ConceptScheme, Likeness, compare, similarities
from spotsieve.stream.sign.schemes.simhash import SubhashScheme
from spotsieve.stream.sign.schemes.terms import ConceptModel, ConceptTerms, digest_of, encode_concepts

TITLE = "Roul, Mittal, Joshi: textual and conceptual techniques"
SAMPLE = 128
SIZES = range(1, 7)
TH2 = range(34, 63, 4)
BITS_IN_A_ROW = (10, 12, 14, 16, 20)
WINDOWS = (1, 2, 4, 8)
CONCEPTS_ALONE = 63
"""A th2 that only equal fingerprints exceed."""

ABOUT = """\
Theirs: newsgroup posts of 20 Newsgroups, of figure 4 128 with 48 near duplicates among them; which posts, how they were
labelled and th1, th3 and th4 are not said, and figures 2 and 3 are plots without numbers. Ours: a third of the same
collection, 5,581 posts with 46 labelled duplicates (newsgroups), and the manuals of docs. The sample is made like
theirs: the 46 duplicates, the posts that they are duplicates of, and as many of the other posts, evenly spread, as make
128. Precision and recall are of pages, as theirs: a page is found where it is paired with an earlier one. All by the
paper's batch form: sort, compare neighbours, turn by one bit, 64 times. th1 = 40, th3 = 63, th4 = .98; one model for a
set, of all its pages.

Figure 4. 128 posts, the proposed method and simhash without weights, shingles or concepts:
"""
FIGURE_4_SAYS = """\
The order is the paper's: simhash of single words has no false duplicate and finds half of them, the method nearly all,
with shingles and with concepts more than with either. The figures cannot be the same, since neither posts nor labels
are. Under the method's own threshold simhash takes more than half of the other posts for duplicates.

Figure 2. Over the size of a shingle, each with the th2 that suits it best (theirs: best at 3, F = .88):
"""
FIGURE_2_SAYS = """\
On newsgroups longer shingles are more precise, and from two words on the sizes differ by .07 at most, so three words
are not best there. On the sample the sizes differ by .03 at most, and on docs by .01.

Figure 3. Over th2, with shingles of three words (theirs: best at 46):
"""
FIGURE_3_SAYS = """\
As theirs, precision rises with th2, recall falls, and 46 is best among 128 posts. Among 5,581 it is not: 17 bits or
fewer of 64 differ in 1.1 of 10,000 pairs of strangers, so what is lost grows with the number of pairs, and the best th2
with it. The paper's value is the default of the scheme; for a crawl th2 has to be higher. From 54 on nothing changes
where the pairs between are found by their concepts.

Rotations. The paper compares neighbours in a sorted list; in the stream a page is compared with those that agree with
it on leading_bits bits in a row (bench/papers/rotations.py says how the two relate). Of all pairs of pages that
are duplicates by th1, th2 and th4, and of those that are labelled duplicates too, found by brute force over all pairs:
"""
ROTATIONS_SAY = """\
The default, 12 bits, finds as many as the paper's neighbours, or more, and compares fewer pairs. Most pairs found in
newsgroups are strangers that th2 = 46 takes for duplicates. Neighbours are the more like each other the more pages
there are, so the batch form finds fewer then; an index of 12 bits finds the same pairs at any size, and meets twice as
many strangers with twice as many pages.
"""


class PageCounts(NamedTuple):
    """Counts of labelled pages: found pages, rightly found ones, and labelled duplicates."""

    found: int
    right: int
    duplicates: int

    @property
    def precision(self) -> float | None:
        """None if nothing was found."""
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float:
        """Share of the duplicates that were found."""
        return self.right / self.duplicates

    @property
    def f(self) -> float:
        """The harmonic mean (Eq. 5)."""
        return 2 * self.right / (self.found + self.duplicates)

    def cells(self) -> list[str]:
        """Precision, recall and F."""
        return [decimals(self.precision), decimals(self.recall), decimals(self.f)]


def section(data: Path) -> list[str]:
    """The section's lines of docs/measured/papers.md."""
    posts, manuals = load_set(data / "newsgroups"), load_set(data / "docs")
    sketches = {one.name: signed(one) for one in (posts, manuals)}
    chosen = sample_of(posts.truth)
    sets = (
        (posts.part(chosen).truth, {size: one[chosen] for size, one in sketches["newsgroups"].items()}),
        (posts.truth, sketches["newsgroups"]),
        (manuals.truth, sketches["docs"]),
    )
    parts = (
        ABOUT.splitlines(),
        figure_4(posts.part(chosen), sets[0][1][3]),
        FIGURE_4_SAYS.splitlines(),
        figure_2(sets),
        FIGURE_2_SAYS.splitlines(),
        figure_3(sets),
        FIGURE_3_SAYS.splitlines(),
        rotations_table([(one.name, one.truth, sketches[one.name][3]) for one in (posts, manuals)]),
        ROTATIONS_SAY.splitlines(),
    )
    return paragraphs(*parts)


def sample_of(truth: Truth) -> list[int]:
    """Places of 128 posts: duplicates, their originals, and others at even distances."""
    near = {
        place
        for pair in truth.pairs
        if truth.label(pair.similarity) is Label.DUPLICATE
        for place in (pair.earlier, pair.later)
    }
    others = [place for place, (label, _) in enumerate(truth.labels) if label is Label.NOVEL and place not in near]
    wanted = max(SAMPLE - len(near), 0)
    spread = [others[place * len(others) // wanted] for place in range(wanted)]
    return sorted([*near, *spread])


def signed(labelled: LabelledSet) -> dict[int, NDArray[np.uint64]]:
    """Shingle size -> sketches of all pages: uint64[n, w]. Terms are decomposed once, since they have no shingles."""
    whole = counted(labelled, ConceptSettings())
    found = {}
    for size in SIZES:
        settings = ConceptSettings(shingle_size=size)
        if size == ConceptSettings().shingle_size:
            model = whole
        else:
            small = counted(labelled, settings.model_copy(update={"dimensions": 1}))
            model = replace(small, about=ConceptTerms(settings).about, terms=whole.terms, rows=whole.rows)
        found[size] = sketches_under(labelled, settings, model)
    return found


def counted(labelled: LabelledSet, settings: ConceptSettings) -> ConceptModel:
    """The model of all pages of a set."""
    counter = ConceptCounter(ConceptTerms(settings))
    for batch in in_batches(labelled.pages):
        counter.add([page for page in batch if page.body])
    return counter.model()


def sketches_under(labelled: LabelledSet, settings: ConceptSettings, model: ConceptModel) -> NDArray[np.uint64]:
    """Sketches of all pages of a set: uint64[n, w]."""
    content = encode_concepts(model)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.idf"
        path.write_bytes(content)
        given = {"idf_model": str(path), "idf_digest": digest_of(content)}
        scheme = ConceptScheme(settings.model_copy(update=given))
    return np.concatenate([scheme.sign(batch).sketch for batch in in_batches(labelled.pages)])


def found_pages(truth: Truth, pairs: NDArray[np.int64]) -> PageCounts:
    """Counts of the pages that the pairs of places find: the later one of each pair."""
    labels = np.array([label for label, _ in truth.labels])
    found = np.unique(pairs[:, 1]).astype(np.int64)
    counts = labels[found] != Label.IGNORED
    return PageCounts(
        int(counts.sum()), int((labels[found] == Label.DUPLICATE).sum()), int((labels == Label.DUPLICATE).sum())
    )


def by_concept(truth: Truth, sketch: NDArray[np.uint64], th2: int) -> PageCounts:
    """The paper's batch form with this th2."""
    settings = ConceptSettings(th1=min(ConceptSettings().th1, th2), th2=th2)
    return found_pages(truth, batch_pairs(sketch, settings)[0])


def figure_4(sample: LabelledSet, sketch: NDArray[np.uint64]) -> list[str]:
    """The method, its parts, and simhash, over the sample."""
    scheme = SubhashScheme(SubhashSettings())
    signatures = scheme.sign(sample.pages)
    earlier, later = np.triu_indices(len(sample.pages), 1)
    apart = np.bitwise_count(signatures.fingerprint[earlier] ^ signatures.fingerprint[later])
    judged = signatures.status == SignatureStatus.FINGERPRINTED
    apart = np.where(judged[earlier] & judged[later], apart, 64)
    pairs = np.stack([earlier, later], axis=1)
    th2 = ConceptSettings().th2
    kinds = batch_pairs(sketch, ConceptSettings())
    textual = kinds[0][kinds[1] > Likeness.CONCEPTUAL]
    by_words = BITS - apart.astype(np.int64) > th2
    rows: list[tuple[list[object], PageCounts]] = [
        (["proposed, th2 = 46", 40, ".975", ".813", ".886"], by_concept(sample.truth, sketch, th2)),
        (["its textual duplicates alone", "", "", "", ""], found_pages(sample.truth, textual)),
        (["its concepts alone (th2 = 63)", "", "", "", ""], by_concept(sample.truth, sketch, CONCEPTS_ALONE)),
        (["simhash, at most 3 bits differ", 7, "1.0", ".146", ".254"], found_pages(sample.truth, pairs[apart <= 3])),
        (["simhash, more than 46 bits agree", "", "", "", ""], found_pages(sample.truth, pairs[by_words])),
    ]
    titles = ["method", "paper found", "P", "R", "F", "ours found", "of", "P", "R", "F"]
    return table(titles, [[*theirs, ours.found, ours.duplicates, *ours.cells()] for theirs, ours in rows])


Sets = Sequence[tuple[Truth, dict[int, NDArray[np.uint64]]]]
SET_TITLES = [title for name in ("sample", "newsgroups", "docs") for title in (f"{name} P", "R", "F")]


def figure_2(sets: Sets) -> list[str]:
    """Each size with its best th2."""
    rows: list[list[object]] = []
    for size in SIZES:
        row: list[object] = [size]
        for truth, by_size in sets:
            best, th2 = max(((by_concept(truth, by_size[size], th2), th2) for th2 in TH2), key=lambda one: one[0].f)
            row += [th2, *best.cells()]
        rows.append(row)
    titles = [
        "words",
        *(title for name in ("sample", "newsgroups", "docs") for title in (f"{name} th2", "P", "R", "F")),
    ]
    return table(titles, rows)


def figure_3(sets: Sets) -> list[str]:
    """Shingles of three words."""
    values = sorted({*TH2, ConceptSettings().th2})
    rows = [
        [th2, *(cell for truth, by_size in sets for cell in by_concept(truth, by_size[3], th2).cells())]
        for th2 in values
    ]
    return table(["th2", *SET_TITLES], rows)


def all_duplicates(sketch: NDArray[np.uint64], settings: ConceptSettings) -> NDArray[np.int64]:
    """Every pair that th1, th2 and th4 make duplicates, by brute force: int64[p, 2]."""
    found = []
    for page in range(1, len(sketch)):
        agreed = BITS - np.bitwise_count(sketch[:page, 0] ^ sketch[page, 0]).astype(np.int64)
        near = np.flatnonzero(agreed > settings.th1)
        likeness = compare(*similarities(sketch[near], sketch[[page] * len(near)]), settings)
        near = near[likeness > Likeness.NONE]
        found.append(np.stack([near, np.full(len(near), page)], axis=1))
    return np.concatenate(found)


def rotations_table(sets: Sequence[tuple[str, Truth, NDArray[np.uint64]]]) -> list[str]:
    """Recall of the batch form by window, and of the index form by leading bits, and the pairs that each compares."""
    forms = [(f"batch, {window} apart", {"window": window}) for window in WINDOWS]
    forms += [(f"index, {bits} bits", {"leading_bits": bits, "window": 2**62}) for bits in BITS_IN_A_ROW]
    rows: list[list[object]] = [[name] for name, _ in forms]
    titles = ["form"]
    for name, truth, sketch in sets:
        pairs = all_duplicates(sketch, ConceptSettings())
        labelled = {(p.earlier, p.later) for p in truth.pairs if truth.label(p.similarity) is Label.DUPLICATE}
        right = np.array([(one, other) in labelled for one, other in pairs.tolist()])
        places = pairs[:, 0] * len(sketch) + pairs[:, 1]
        for row, (_, given) in zip(rows, forms, strict=True):
            met = neighbour_pairs(sketch[:, 0], **given)
            found = np.isin(places, met[:, 0] * len(sketch) + met[:, 1])
            row += [f"{len(met) / len(sketch):,.1f}", decimals(found.mean()), decimals(found[right].mean())]
        titles += [f"{name}: pairs a page", f"of {len(pairs):,} found", f"of {int(right.sum()):,} labelled"]
    return table(titles, rows)
