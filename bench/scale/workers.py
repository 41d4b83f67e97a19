"""Measures the CPU of a worker that does not judge: from messages of 20 KB to the record of their signatures.

The cost of the Kafka client is not measured here: docs/measured/bench.json has it as the pass-through, which
reads, sends and commits the same pages without decoding them.
"""

import time
from collections.abc import Callable

from bench.speed.pages import json_messages
from spotsieve.state.log.record import encode
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.sign.intake.decoder import Decoder, Message
from spotsieve.stream.sign.schemes.registry import scheme_of

PAGES = 512


def measure_worker(rounds: int = 7, pages: int = PAGES) -> dict[str, float]:
    """CPU microseconds per page by step, the minimum of some rounds, and the bytes of a message."""
    settings = Settings()
    scheme, decoder = scheme_of(settings.scheme), Decoder(settings.input)
    messages = [
        Message(key, value, (), "pages", number % 4, number // 4, 0)
        for number, (key, value) in enumerate(json_messages(pages, 5))
    ]
    decoded = [decoder.decode(message) for message in messages]
    signatures = scheme.sign(decoded)
    steps: dict[str, Callable[[], object]] = {
        "decode_us": lambda: [decoder.decode(message) for message in messages],
        "sign_us": lambda: scheme.sign(decoded),
        "log_us": lambda: encode(signatures, bytes(16), 1, bytes(16)),
    }
    found = {name: _least_us(step, rounds, pages) for name, step in steps.items()}
    return found | {"message_bytes": sum(len(message.value or b"") for message in messages) / pages}


def _least_us(step: Callable[[], object], rounds: int, pages: int) -> float:
    step()
    least = float("inf")
    for _ in range(rounds):
        before = time.process_time()
        step()
        least = min(least, time.process_time() - before)
    return least / pages * 1e6
