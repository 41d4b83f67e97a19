"""Counts for each term of some files the pages that contain it."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import FileReader


class TermCounter:
    """Counts for each term the pages that contain it. Memory: 12 bytes per term, twice that while counts are merged."""

    def __init__(self) -> None:
        self.pages = 0
        self._terms, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._waiting: list[NDArray[np.uint64]] = []
        self._waiting_terms = 0

    def add(self, hashes: NDArray[np.uint64], bounds: NDArray[np.int64]) -> None:
        """Count the terms of n pages. hashes: uint64[m]  bounds: int64[n + 1]"""
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            distinct = np.unique(hashes[first:last])
            self._waiting.append(distinct)
            self._waiting_terms += len(distinct)
        self.pages += len(bounds) - 1
        if self._waiting_terms > max(len(self._terms), 2**20):
            self._merge()

    def counted(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """The terms, uint64[t] ascending, and the number of pages of each, uint32[t]."""
        self._merge()
        return self._terms, self._counts.astype(np.uint32)

    def _merge(self) -> None:
        """Merge the buffered terms into the counts."""
        new = np.concatenate([self._terms, *self._waiting])
        times = np.concatenate([self._counts, np.ones(self._waiting_terms, np.int64)])
        self._terms, place = np.unique(new, return_inverse=True)
        self._counts = np.zeros(len(self._terms), np.int64)
        np.add.at(self._counts, place, times)
        self._waiting, self._waiting_terms = [], 0


def batches_of(inputs: Sequence[Input], settings: Settings) -> Iterator[tuple[list[Page], int]]:
    """The text pages of the files in batches, each with the bytes read so far.

    Raises InputError for a file that cannot be read. If no file has a text page and a file was misread, the error names
    the setting to change.
    """
    read_before, any_page, misread, service = 0, False, list[InputError](), settings.service
    for file in inputs:
        with FileReader(file, settings.input) as reader:
            texts = (
                outcome.result
                for outcome in reader
                if isinstance(outcome.result, Page) and outcome.result.judgeable and outcome.result.body
            )
            for batch in batches(texts, service.batch_pages, service.batch_bytes, lambda page: len(page.body)):
                any_page = True
                yield batch, read_before + reader.bytes_read
            read_before += reader.bytes_read
            try:
                reader.check_read()
            except InputError as error:
                misread.append(error)
    if misread and not any_page:
        raise misread[0]
