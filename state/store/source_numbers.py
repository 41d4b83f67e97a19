"""Numbers the sources. Each topic or path is stored once; its number tells when a filed page first named it."""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Filing


class SourceNumbers:
    """The sources of all filed pages. texts: by number"""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __contains__(self, text: str) -> bool:
        return text in self._numbers

    def add(self, text: str) -> None:
        """Give a source the next number."""
        self._numbers[text] = len(self.texts)
        self.texts.append(text)

    def number(self, filing: Filing) -> tuple[NDArray[np.uint32], list[str]]:
        """Return the source number of each filed page: uint32[f], and the new sources in the order of their numbers.

        The new ones are not added yet: if the filing cannot be written, nothing of it may be remembered.
        """
        named = filing.signatures.source[filing.pages]
        different, first, place = np.unique(named, return_index=True, return_inverse=True)
        numbers, new = np.empty(len(different), np.uint32), list[str]()
        for at in np.argsort(first).tolist():
            text = filing.signatures.sources[different[at]]
            if text not in self._numbers and text not in new:
                new.append(text)
            known = self._numbers.get(text)
            numbers[at] = len(self.texts) + new.index(text) if known is None else known
        return numbers[place], new
