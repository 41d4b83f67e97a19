"""Header names that are not UTF-8, which Kafka accepts and a Python client would not send."""


class AnyName(str):
    """A name whose bytes are the code points of its characters."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return super().encode("latin-1" if encoding == "utf-8" else encoding, errors)
