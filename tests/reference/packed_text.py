"""Packed blocks and sampled shingles, read field by field (stream/base/page_text.py)."""

from typing import NamedTuple

from spotsieve.stream.base.signature import Signatures

EVERY_HASH = 2**32 - 1
"""The limit of a sample that holds every shingle."""
MAIN_SAMPLES, REST_SAMPLES = 192, 128


class Block(NamedTuple):
    """A block of a page.

    packed: as stored  outside: words outside links, in 15ths of all its words  numeric: a third of them have digits
    """

    packed: int
    identity: int
    numbers: int
    words: int
    outside: int
    numeric: bool
    kept: bool

    @property
    def words_outside_links(self) -> float:
        """The number of words outside links."""
        return self.words * self.outside / 15

    @property
    def text(self) -> tuple[int, int] | None:
        """Equal for blocks of equal text and numbers; None for the block that stands for all unlisted ones."""
        return (self.identity, self.numbers) if self.identity else None


class Sample(NamedTuple):
    """A sampled shingle. place: of its block  position: words of the page before it  width: its words"""

    hash: int
    position: int
    place: int
    width: int


NOTICE = 2
"""The mark of a block that so many hosts showed that it counts as template text."""


class PageText(NamedTuple):
    """The text of a page that is judged. common: of each block, 1 for common text, 2 for a notice, otherwise 0"""

    host: int
    site: int
    blocks: tuple[Block, ...]
    samples: tuple[Sample, ...]
    titles: tuple[int, ...]
    headline: int
    common: tuple[int, ...]

    def hashes(self, kept: bool) -> list[int]:
        """The sampled hashes of the main text, or of the other text."""
        return [sample.hash for sample in self.samples if self.blocks[sample.place].kept == kept]

    def hashes_in(self, place: int) -> list[int]:
        """The sampled hashes of a block."""
        return [sample.hash for sample in self.samples if sample.place == place]

    def complete_below(self, kept: bool) -> int:
        """The hash up to which the sample of the main text, or of the other text, has every shingle."""
        hashes = self.hashes(kept)
        return max(hashes) if len(hashes) >= (MAIN_SAMPLES if kept else REST_SAMPLES) else EVERY_HASH


def words_of_code(code: int) -> int:
    """The size that a code stands for: its own number below 16, then a mantissa of 4 bits and an exponent."""
    return code if code < 16 else (16 + code % 16) * 2 ** (code // 16 - 1)


SIZES = [words_of_code(code) for code in range(256)]


def rounded_size(words: float) -> int:
    """The largest size with a code that is not larger."""
    return max(size for size in SIZES if size <= int(words))


def block_of(packed: int) -> Block:
    """Read a packed block."""
    words, outside = words_of_code(packed >> 8 & 255), packed >> 4 & 15
    return Block(packed, packed >> 24, packed >> 16 & 255, words, outside, bool(packed & 4), bool(packed & 1))


def sample_of(packed: int) -> Sample:
    """Read a packed sample."""
    return Sample(packed >> 32, packed >> 16 & 65_535, packed >> 4 & 4095, packed & 15)


def text_of(signatures: Signatures, index: int) -> PageText:
    """The text of a page; none of its blocks is known to be common."""
    blocks, samples, titles = (
        getattr(signatures, name)[slice(*getattr(signatures, f"{name}_bounds")[index : index + 2])].tolist()
        for name in ("blocks", "samples", "titles")
    )
    return PageText(
        int(signatures.host[index]),
        int(signatures.site[index]),
        tuple(map(block_of, blocks)),
        tuple(map(sample_of, samples)),
        tuple(titles),
        int(signatures.headline[index]),
        (False,) * len(blocks),
    )
