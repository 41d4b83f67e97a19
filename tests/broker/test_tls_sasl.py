"""TLS and logins work on a real broker; refusals are explained, and no secret is shown."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.errors import EXIT_BROKER, EXIT_SETTING, BrokerError
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.demo.localkafka import LocalKafka, jars, prepare
from spotsieve.stream.kafka.watch import BrokerWatch, Waits
from spotsieve.stream.observe.metrics import Metrics
from tests.fixtures.brokers.certificates import Authority, Certificate, locked
from tests.fixtures.brokers.listeners import HOST, NOBODY, Listener, free_ports, listener_settings
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until_async

USER, PASSWORD = "crawl", "canary-of-the-login"
WRONG, KEY_PASSWORD = "canary-that-is-wrong", "canary-of-the-key"
JAAS = "org.apache.kafka.common.security"
PLAIN = f'{JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
SCRAM = f"{JAAS}.scram.ScramLoginModule required;"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "MUTUAL": "SSL", "SASL_SSL": "SASL_SSL", "OTHER": "SSL"}


@dataclass(frozen=True)
class Doors:
    """One broker with a port for each way in, and the certificates to enter by."""

    ports: Mapping[str, int]
    authority: Authority
    client: Certificate
    stranger: Certificate

    def servers(self, listener: str, host: str = HOST) -> str:
        return f"{host}:{self.ports[listener]}"

    def toml(self, listener: str, host: str = HOST, **settings: str) -> str:
        """Settings of a client of this port that trusts the test's CA."""
        kafka = {
            "bootstrap_servers": self.servers(listener, host),
            "security_protocol": PROTOCOLS[listener],
            "ssl_cafile": str(self.authority.certificate) if "SSL" in PROTOCOLS[listener] else "",
            **settings,
        }
        return "".join(f'kafka.{name} = "{value}"\n' for name, value in kafka.items() if value)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    prepare()
    directory = tmp_path_factory.mktemp("certificates")
    authority, other = Authority(directory / "ca", "test CA"), Authority(directory / "other", "another CA")
    broker = authority.sign("broker", f"IP:{HOST}")
    *chosen, controller = free_ports(len(PROTOCOLS) + 1)
    ports = dict(zip(PROTOCOLS, chosen, strict=True))
    listeners = {name: Listener(ports[name], protocol) for name, protocol in PROTOCOLS.items()}
    settings = {
        **listener_settings(listeners, controller),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.mutual.ssl.client.auth": "required",
        # A certificate of the test's CA, but for another host.
        "listener.name.other.ssl.keystore.location": str(authority.sign("other", "DNS:broker.example").both),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": SCRAM,
    }
    with LocalKafka(port=ports["PLAINTEXT"], settings=settings):
        _add_scram_user(f"{HOST}:{ports['PLAINTEXT']}")
        yield Doors(ports, authority, authority.sign("client"), other.sign("stranger"))


def _add_scram_user(servers: str) -> None:
    """Kafka keeps SCRAM users in its own metadata: its tool puts them there, one mechanism at a time."""
    java = [str(jars.java()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, jars.classpath()))]
    tool = [*java, "kafka.admin.ConfigCommand", "--bootstrap-server", servers]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        user = ["--entity-type", "users", "--entity-name", USER, "--alter"]
        given = ["--add-config", f"{mechanism}=[password={PASSWORD}]"]
        subprocess.run([*tool, *user, *given], check=True, capture_output=True, stdin=subprocess.DEVNULL)


def password_file(directory: Path, mode: int = 0o400) -> Path:
    path = directory / "password"
    path.write_text(PASSWORD + "\n", "utf-8")
    path.chmod(mode)
    return path


def check_topics(tmp_path: Path, toml: str, topics: TopicSet, environment: Mapping[str, str] | None = None) -> str:
    """The whole output of a `topics check` that succeeds: a metadata round trip."""
    names = "".join(f'topics.{role} = "{name}"\n' for role, name in topics.names.items())
    command = ("topics", "check")
    with Spotsieve(tmp_path, names + toml, command=command, environment=environment or {}) as process:
        assert process.run_to_end() == 0, process.text()
        return process.text()


@pytest.fixture(scope="module")
def topics(doors: Doors) -> Iterator[TopicSet]:
    with TopicSet(doors.servers("PLAINTEXT")) as made:
        yield made


@pytest.mark.guarantee("a secret is never logged, printed or served", fault="debug logs of a run over TLS and SCRAM")
@pytest.mark.timeout(900)
def test_pages_pass_and_topics_are_made_over_tls_and_scram_and_no_secret_is_shown(doors: Doors, tmp_path: Path) -> None:
    pages = crawl(60)
    topics = TopicSet(doors.servers("PLAINTEXT"), leave_out=("input", "novel", "duplicates", "rejected", "log"))
    secret = password_file(tmp_path)
    login = doors.toml("SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_username=USER, sasl_password_file=str(secret))
    kept = [line for line in topics.toml().splitlines() if "bootstrap_servers" not in line]
    toml = "\n".join([*kept, login, 'log.level = "debug"', ""])
    with Spotsieve(tmp_path, toml, "maker", command=("topics", "create", "--partitions", "1")) as maker:
        assert maker.run_to_end() == 0, maker.text()
    with Spotsieve(tmp_path, toml, environment={"PYTHONASYNCIODEBUG": "1"}) as service:
        topics.send(pages.messages)
        service.start().until_ready()
        service.until_committed(60)
        assert PASSWORD not in service.get("/readyz")[1] + service.get("/metrics")[1]
        assert service.terminate() == 0, service.text()
        assert len(topics.read("novel")) + len(topics.read("duplicates")) == 60
        assert PASSWORD not in service.text() + maker.text()
        assert "every user of this machine" not in service.text()


@pytest.mark.guarantee("a secret is never logged, printed or served", fault="debug logs of each login mechanism")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_lets_a_login_in(doors: Doors, topics: TopicSet, tmp_path: Path, mechanism: str) -> None:
    toml = doors.toml("SASL_SSL", sasl_mechanism=mechanism, sasl_username=USER) + 'log.level = "debug"\n'
    output = check_topics(tmp_path, toml, topics, {"SPOTSIEVE_KAFKA__SASL_PASSWORD": PASSWORD})
    assert topics.names["log"] in output
    assert PASSWORD not in output


def test_tls_alone_and_with_a_client_certificate_whose_key_has_a_password(
    doors: Doors, topics: TopicSet, tmp_path: Path
) -> None:
    check_topics(tmp_path, doors.toml("SSL"), topics)
    key = locked(doors.client.key, KEY_PASSWORD)
    toml = doors.toml("MUTUAL", ssl_certfile=str(doors.client.certificate), ssl_keyfile=str(key))
    output = check_topics(tmp_path, toml, topics, {"SPOTSIEVE_KAFKA__SSL_KEY_PASSWORD": KEY_PASSWORD})
    assert KEY_PASSWORD not in output


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, False)])
def test_a_password_file_that_everybody_can_read_is_warned_of(
    doors: Doors, topics: TopicSet, tmp_path: Path, mode: int, warned: bool
) -> None:
    secret = password_file(tmp_path, mode)
    output = check_topics(
        tmp_path,
        doors.toml("SASL_SSL", sasl_username=USER),
        topics,
        {"SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE": str(secret)},
    )
    assert ("every user of this machine can read" in output and str(secret) in output) == warned
    assert PASSWORD not in output


def test_a_key_with_a_password_that_is_not_given_is_refused_and_nobody_is_asked(doors: Doors, tmp_path: Path) -> None:
    key = locked(doors.stranger.key, KEY_PASSWORD)
    toml = doors.toml("MUTUAL", ssl_certfile=str(doors.stranger.certificate), ssl_keyfile=str(key))
    for environment in ({}, {"SPOTSIEVE_KAFKA__SSL_KEY_PASSWORD": WRONG}):
        with Spotsieve(tmp_path, toml, command=("topics", "check"), environment=environment) as process:
            assert process.run_to_end() == EXIT_SETTING, process.text()
            assert "kafka.ssl_key_password" in process.error()
            assert str(key) in process.error()
            assert "canary" not in process.text()


@dataclass(frozen=True)
class Refusal:
    """What is wrong with a client, and what its one line must hold."""

    listener: str
    parts: tuple[str, ...]
    host: str = HOST
    protocol: str = ""
    mechanism: str = "PLAIN"
    user: str = ""
    password: str = ""
    certificate: str = ""
    system_ca: bool = False


REFUSALS = {
    "wrong password, PLAIN": Refusal(
        "SASL_SSL", ("kafka.sasl_password", "check user and password"), user=USER, password=WRONG
    ),
    "wrong password, SCRAM": Refusal(
        "SASL_SSL", ("kafka.sasl_password", "for SCRAM-SHA-256"), mechanism="SCRAM-SHA-256", user=USER, password=WRONG
    ),
    "no such user": Refusal("SASL_SSL", ("kafka.sasl_username",), user="nobody", password=PASSWORD),
    "CA of somebody else": Refusal("SSL", ("kafka.ssl_cafile", "CA that signed"), system_ca=True),
    "another host's certificate": Refusal("OTHER", ("kafka.bootstrap_servers", "as its certificate does", HOST)),
    "a name that the certificate has not": Refusal(
        "SSL", ("kafka.bootstrap_servers", "as its certificate does", "localhost"), host="localhost"
    ),
    "no TLS at a TLS port": Refusal("SSL", ("kafka.security_protocol", "set SSL"), protocol="PLAINTEXT"),
    "no TLS at a TLS port, with a login": Refusal(
        "SASL_SSL", ("kafka.security_protocol",), protocol="SASL_PLAINTEXT", user=USER, password=PASSWORD
    ),
    "no login at a port for logins": Refusal(
        "SASL_SSL", ("kafka.security_protocol", "without a login"), protocol="SSL"
    ),
    "TLS at a plain port": Refusal("PLAINTEXT", ("kafka.security_protocol", "does not answer in TLS"), protocol="SSL"),
    "a login at a port without": Refusal(
        "SSL", ("kafka.security_protocol", "takes no login"), protocol="SASL_SSL", user=USER, password=PASSWORD
    ),
    "no client certificate": Refusal("MUTUAL", ("kafka.ssl_certfile", "ssl_keyfile")),
    "a stranger's client certificate": Refusal("MUTUAL", ("kafka.ssl_certfile",), certificate="stranger"),
}


@pytest.mark.guarantee(
    "a rejection by the broker is one line with the next step", fault="a wrong login, certificate or port"
)
@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_one_line_with_its_setting_and_shows_no_secret(
    doors: Doors, tmp_path: Path, refusal: Refusal
) -> None:
    given = {"sasl_mechanism": refusal.mechanism, "sasl_username": refusal.user}
    if refusal.certificate:
        given |= {"ssl_certfile": str(doors.stranger.certificate), "ssl_keyfile": str(doors.stranger.key)}
    toml = doors.toml(refusal.listener, refusal.host, **given) + 'log.level = "debug"\n'
    if refusal.protocol:
        toml = toml.replace(f'"{PROTOCOLS[refusal.listener]}"', f'"{refusal.protocol}"')
    if refusal.system_ca or (refusal.protocol and "SSL" not in refusal.protocol):
        toml = toml.replace(f'kafka.ssl_cafile = "{doors.authority.certificate}"\n', "")
    environment = {"SPOTSIEVE_KAFKA__SASL_PASSWORD": refusal.password} if refusal.password else {}
    with Spotsieve(tmp_path, toml, command=("topics", "check"), environment=environment) as process:
        # Far below kafka.request_timeout_ms: no case waits for a broker that says nothing.
        assert process.run_to_end() == EXIT_BROKER, process.text()
        line = process.error()
        assert all(part in line for part in refusal.parts), line
        assert "canary" not in process.text()


@pytest.mark.parametrize(
    ("changed", "ends"),
    [("kafka.sasl_password", True), ("kafka.ssl_cafile", True), ("kafka.bootstrap_servers", False)],
)
def test_a_service_that_is_refused_while_it_runs_ends_and_one_without_a_broker_waits(
    doors: Doors, topics: TopicSet, changed: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotsieve.stream.kafka.watch.REFUSED_SECONDS", 1.0)
    other = {
        "kafka.sasl_password": WRONG,
        "kafka.ssl_cafile": "",
        "kafka.bootstrap_servers": NOBODY,
    }
    right = {
        "kafka.bootstrap_servers": doors.servers("SASL_SSL"),
        "kafka.security_protocol": "SASL_SSL",
        "kafka.ssl_cafile": str(doors.authority.certificate),
        "kafka.sasl_username": USER,
        "kafka.sasl_password": PASSWORD,
        **{f"topics.{role}": name for role, name in topics.names.items()},
    }
    waits = Waits(Metrics())

    async def reason_shown() -> bool:
        return bool(waits.texts())

    async def all_closed() -> bool:
        """Aiokafka closes a login that was refused, and does not wait for the broker's response to the end of TLS."""
        loop: Any = asyncio.get_running_loop()
        own_pipe = 1
        return len(loop._selector.get_map()) == own_pipe

    async def look() -> None:
        watch = BrokerWatch(load_settings(None, {}, {**right, changed: other[changed]}), waits)
        try:
            async with asyncio.timeout(SECONDS) as waiting:
                watching = asyncio.create_task(watch.run())
                if not ends:
                    await wait_until_async(reason_shown, SECONDS, "what the service waits for")
                    waiting.reschedule(asyncio.get_running_loop().time() + 3)
                await watching
        finally:
            await wait_until_async(all_closed, SECONDS, "the end of the connections")

    with pytest.raises(BrokerError if ends else TimeoutError) as ended:
        asyncio.run(look())
    (waiting,) = waits.texts()
    assert waiting.startswith("waiting for the broker: answer: ")
    assert (changed in str(ended.value) and changed in waiting) == ends, "/readyz says it before the service ends"
    assert "canary" not in str(ended.value) + waiting
