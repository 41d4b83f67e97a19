"""Why no broker is reached: the advice fits what stands behind the address."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.connectivity import why_unreached
from tests.fixtures.brokers.certificates import Authority
from tests.fixtures.brokers.listeners import HOST, free_ports
from tests.fixtures.brokers.proxy import Proxy


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_tls_broker_that_is_down_behind_a_proxy_is_reported_as_down(
    tmp_path: Path, protocol: str, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    port, nobody = free_ports(2)
    kafka = {
        "bootstrap_servers": f"{HOST}:{port}",
        "security_protocol": protocol,
        "ssl_cafile": str(Authority(tmp_path, "test CA").certificate),
        **({"sasl_username": "crawler", "sasl_password": "secret"} if protocol == "SASL_SSL" else {}),
    }
    settings = Settings.model_validate({"kafka": kafka})
    with Proxy(port, nobody), asyncio.Runner(loop_factory=loop) as runner:
        error = runner.run(why_unreached(settings))
    assert error.name == "kafka.bootstrap_servers"
    assert "leads to no broker that responds" in error.rule
    assert "as a proxy in front of a stopped broker does" in error.rule
    assert "that the broker is running" in error.next_step
    assert "without SSL" not in str(error)
