"""The kernel finds the same scripts as the plain search, for any bytes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.page import KERNEL_PADDING_BYTES
from spotsieve.stream.sign.text.script_text import find_scripts
from tests.reference import script_tags

PIECES = [
    *(b"<script", b"<script>", b"</script", b"</script>", b"<", b">", b"<p>", b" src=", b" type=x/json", b"JSON"),
    *(b"__NEXT_DATA__", b"window.__x=", b"_", b"initial", b"Preloaded", b"JSON.parse(", b"globalContent", b"global"),
    *(b" " * 60, b"x" * 1000, b"y" * 2040, b"<!--", b"-->", b"\0", "ä".encode()),
]


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.integers(0, 12))
def test_the_kernel_finds_the_scripts_of_the_plain_search(body: bytes, cut: int) -> None:
    body = body[: max(0, len(body) - cut)]
    found, has_script = find_scripts(np.frombuffer(body + bytes(KERNEL_PADDING_BYTES), np.uint8), len(body))
    assert ([tuple(row) for row in found.tolist()], has_script) == script_tags.find_scripts(body)
