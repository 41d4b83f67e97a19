"""Numbers the sources. Each topic or path is stored once; its number tells when a remembered page first named it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Filing


class Numbered(NamedTuple):
    """filed: uint32[f], the source number of each filed page  attempts: those of these  new: sources to add"""

    filed: NDArray[np.uint32]
    attempts: list[int]
    new: list[str]


class SourceNumbers:
    """The sources of all filed pages and attempts. texts: by number"""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int | None:
        """Return the number of a source, None if no remembered page named it."""
        return self._numbers.get(text)

    def add(self, text: str) -> None:
        """Give a source the next number."""
        self._numbers[text] = len(self.texts)
        self.texts.append(text)

    def number(self, filing: Filing) -> Numbered:
        """Number the sources of a filing: those of filed pages in their order, then of attempts in theirs.

        The new ones are not added yet: if the filing cannot be written, nothing of it may be remembered.
        """
        new = dict[str, int]()

        def numbered(text: str) -> int:
            known = self._numbers.get(text)
            return new.setdefault(text, len(self.texts) + len(new)) if known is None else known

        texts, named = filing.signatures.sources, filing.signatures.source[filing.pages].tolist()
        number_of = {source: numbered(texts[source]) for source in dict.fromkeys(named)}
        attempts = [numbered(page_id[0]) for page_id in filing.learned.page_ids] if filing.learned else []
        return Numbered(np.array([number_of[source] for source in named], np.uint32), attempts, list(new))
