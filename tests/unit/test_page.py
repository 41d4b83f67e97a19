"""Owns the proof that a batch of pages is laid out whole, whatever the thread laid out before."""

import threading

import pytest

from stream import page as module
from stream.page import KERNEL_PADDING_BYTES, Page, lay_out


def pages_of(*bodies: bytes) -> list[Page]:
    """Pages of these bodies, every other one HTML; those that begin with "%" cannot be judged."""
    return [Page("t", 0, n, "", body, n % 2 == 0, 0, judgeable=body[:1] != b"%") for n, body in enumerate(bodies)]


def laid_out(*bodies: bytes) -> list[bytes]:
    """The bodies as the kernels find them, and the padding."""
    batch = lay_out(pages_of(*bodies))
    assert batch.markup.tolist() == [1 - n % 2 for n in range(len(bodies))]
    whole = batch.buffer.tobytes()
    assert len(whole) == batch.bounds[-1] + KERNEL_PADDING_BYTES
    bounds = batch.bounds.tolist()
    ranges = zip(bounds, [*bounds[1:], len(whole)], strict=True)
    return [whole[start:end] for start, end in ranges]


def test_a_smaller_batch_after_a_larger_one_has_nothing_of_it() -> None:
    padding = bytes(KERNEL_PADDING_BYTES)
    for _ in range(2):
        assert laid_out(b"x" * 5000, b"y" * 3000) == [b"x" * 5000, b"y" * 3000, padding]
        assert laid_out(b"one", b"", b"%PDF", b"two") == [b"one", b"", b"", b"two", padding]
        assert laid_out() == [padding]


def test_batches_beyond_what_is_kept_are_laid_out_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 1000)
    assert laid_out(b"z" * 2000)[0] == b"z" * 2000
    assert laid_out(b"small")[0] == b"small"


def test_threads_do_not_share_their_buffers() -> None:
    mine = lay_out(pages_of(b"mine"))
    other = threading.Thread(target=lay_out, args=(pages_of(b"theirs"),))
    other.start()
    other.join()
    assert mine.buffer[:4].tobytes() == b"mine"
