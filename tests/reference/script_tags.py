"""Scripts of a page that may hold text, by searches. Reference for find_scripts (stream/sign/text/script_text)."""

LONGEST_TAG, STATE_BYTES = 2048, 1024
NAMES = (b"json", b"JSON", b"_DATA__")
MARKS = (b"__", b"nitial", b"reloaded", b"JSON.par", b"globalCo")


def find_scripts(body: bytes) -> tuple[list[tuple[int, int, int]], bool]:
    """Tag, content and end tag (-1: none) of each script, and whether there is any script."""
    found = list[tuple[int, int, int]]()
    at = body.find(b"<script")
    while at >= 0:
        opened = body.find(b">", at, at + LONGEST_TAG)
        if opened < 0:
            at = body.find(b"<script", at + 1)
            continue
        closed = body.find(b"</script", opened)
        end = closed if closed >= 0 else len(body)
        last = min(opened + 1 + STATE_BYTES, end)
        tag = body[at : opened + 1]
        marked = any(0 <= body.find(mark, opened + 1) < last for mark in MARKS)
        if any(name in tag for name in NAMES) or (b"src=" not in tag and marked):
            found.append((at, opened + 1, closed))
        at = body.find(b"<script", closed) if closed >= 0 else -1
    return found, b"<script" in body
