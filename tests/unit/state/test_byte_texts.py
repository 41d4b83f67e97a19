"""Byte strings of one buffer read as a tuple of them does, in parts and joined again."""

from collections.abc import Callable, Sequence

import pytest

from spotsieve.stream.base.arrays import byte_texts, joined_texts, text_lengths

TEXTS = (b"https://a.example/", b"", "https://ä.example/".encode(), b"\x00", b"")


def test_texts_in_one_buffer_read_as_a_tuple() -> None:
    texts = byte_texts(TEXTS)
    assert (len(texts), tuple(texts), tuple(reversed(texts))) == (5, TEXTS, TEXTS[::-1])
    assert [texts[row] for row in range(-5, 5)] == [*TEXTS, *TEXTS]
    assert texts == TEXTS
    assert texts == byte_texts(list(TEXTS))
    assert texts not in (TEXTS[:4], (*TEXTS[:4], b"x"))
    assert text_lengths(texts).tolist() == text_lengths(TEXTS).tolist() == list(map(len, TEXTS))
    for row in (5, -6):
        with pytest.raises(IndexError):
            texts[row]
    with pytest.raises(ValueError, match="step of a slice must be 1, got 2"):
        texts[::2]


@pytest.mark.parametrize("laid", [tuple, byte_texts])
def test_parts_are_cut_and_joined_as_those_of_a_tuple(laid: Callable[[Sequence[bytes]], Sequence[bytes]]) -> None:
    texts = byte_texts(TEXTS)
    for start in range(-1, 7):
        for end in range(-1, 7):
            assert texts[start:end] == TEXTS[start:end]
            parts: list[Sequence[bytes]] = [laid(TEXTS[start:end]), texts[2:4], laid(()), texts[start:]]
            assert joined_texts(parts) == (*TEXTS[start:end], *TEXTS[2:4], *TEXTS[start:])
    assert len(joined_texts([])) == 0
