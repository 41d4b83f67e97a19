"""WARC records for tests, built field by field so that a test can break any of them."""

HTML = b"<html><p>The mayor spoke about the budget.</p></html>"


def warc(block: bytes, kind: str = "response", **fields: str) -> bytes:
    head = {
        "WARC-Type": kind,
        "WARC-Record-ID": "<urn:uuid:0d3c1f2e-0000-4000-8000-000000000001>",
        "WARC-Target-URI": "https://example.com/a",
        "WARC-Date": "2024-03-01T00:00:10Z",
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": str(len(block)),
    } | {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"{name}: {value}" for name, value in head.items() if value]
    return ("WARC/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + block + b"\r\n\r\n"


def http(body: bytes = HTML, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/html; charset=utf-8", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(body: bytes, size: int = 7) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
