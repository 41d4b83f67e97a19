"""A replay forgets in its own state what the log's records forget."""

import numpy as np
import pytest

from spotsieve.state.log.record import encode
from spotsieve.state.removal import ForgottenPage, removal_of
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import Engine
from spotsieve.stream.insight.replay.order import ForgetEvent, ForgottenKeys, LogOrder
from spotsieve.stream.insight.replay.range import RangePlaces
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.crawls import html_of, json_page

SETTINGS = Settings()
PAGES = 3


@pytest.mark.parametrize("with_host", [False, True])
def test_host_statistics_are_forgotten_as_in_the_log(with_host: bool) -> None:
    digest = digest_of_settings(SETTINGS)
    state = memory_state()
    engine = Engine(scheme_of(SETTINGS.scheme), state, SETTINGS.index, digest, "a replay")
    decoder, sent = Decoder(SETTINGS.input), [json_page(number, html_of(number)) for number in range(PAGES)]
    pages = [
        decoder.decode(Message(page.key, page.value, page.headers, "pages", 0, offset, 0))
        for offset, page in enumerate(sent)
    ]
    signatures = engine.scheme.sign(pages)
    places = RangePlaces("pages", [(0, PAGES)])
    order = LogOrder(places)
    order.add(signatures)
    # The service had other entry numbers and buckets than the replay has.
    order.forget([ForgottenPage(70 + offset, "pages", 0, offset, (7,), with_host) for offset in range(PAGES)])
    own = ForgottenKeys(order, places)
    engine.apply(encode(signatures, bytes(16), 0, digest), 0)
    own.add(signatures, engine.scheme)
    (forget,) = [step for step in order.steps(False) if isinstance(step, ForgetEvent)]
    removal = removal_of(own.pages(forget, state), state, state.clock.floor)
    state.remove(removal, state.position + 1, 1)
    assert state.page_ids(np.arange(PAGES, dtype=np.uint64)) == [None] * PAGES
    remembered = state.memories(np.unique(signatures.host))
    assert (remembered.urls != 0).tolist() == [not with_host]
