"""Finds out why no broker is reached: aiokafka tries every address and tells the reasons only to its own log."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import KafkaSettings
from spotsieve.stream.kafka.clients import client_options
from spotsieve.stream.kafka.errors import on_one_line

TRY_SECONDS = 10.0
"""For one address, so that a silent port is reported sooner than after kafka.request_timeout_ms."""

REFUSALS = (
    SaslAuthenticationFailed,
    AuthenticationFailedError,
    UnsupportedSaslMechanismError,
    ssl.SSLCertVerificationError,
)

_OF_ANOTHER_HOST = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_CLIENT_CERTIFICATE_ALERTS = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN")


async def why_unreached(settings: Settings, step: str) -> BrokerError:
    """Try each address once, by itself; -> what the first answer means, and what to do.

    Raises SettingError where the settings cannot make a connection.
    """
    kafka = settings.kafka
    options = client_options(kafka)
    silent: list[str] = []
    async for address, error in _tried(options, min(TRY_SECONDS, kafka.request_timeout_ms / 1000)):
        meaning = _meaning(error, address, kafka, step)
        if meaning is not None:
            return meaning
        silent.append(f"{address}: {on_one_line(str(error) or type(error).__name__)}")
    login = ", sasl_mechanism, user and password" if kafka.security_protocol.startswith("SASL") else ""
    return BrokerError(
        "kafka.bootstrap_servers",
        f"no broker answers while {step} ({'; '.join(silent)})",
        kafka.bootstrap_servers,
        f"check host:port, security_protocol{login}, and that the broker runs",
    )


async def refusal(kafka: KafkaSettings, options: Mapping[str, Any], step: str, seconds: float) -> BrokerError | None:
    """The error of a broker that refuses the login or whose certificate we refuse; None where there is none.

    A connection that is merely closed is no refusal: a proxy before a broker that is down may close it.
    options: those of client_options()  seconds: for each address
    """
    async for address, error in _tried(options, seconds):
        if isinstance(error, REFUSALS):
            return _meaning(error, address, kafka, step)
    return None


async def _tried(options: Mapping[str, Any], seconds: float) -> AsyncIterator[tuple[str, Exception]]:
    """The addresses that do not serve us, each with its error."""
    of_connection = {name: value for name, value in options.items() if name != "bootstrap_servers"}
    for host, port, _ in collect_hosts(options["bootstrap_servers"], randomize=False):
        try:
            async with asyncio.timeout(seconds):
                await _ask(await create_conn(host, port, **of_connection))
        except (OSError, EOFError, KafkaError) as error:  # TimeoutError and ssl.SSLError are OSErrors.
            yield f"{host}:{port}", error


async def _ask(connection: AIOKafkaConnection) -> None:
    """Ask a first question. Raises LoginNeededError where the broker names its protocol versions and then hangs up."""
    try:
        await connection.send(MetadataRequest([]))
    except KafkaError as error:
        raise LoginNeededError from error
    finally:
        connection.close()


class LoginNeededError(KafkaError):  # type: ignore[misc]  # aiokafka's class is untyped
    """The port serves nobody without a login."""


def _meaning(error: Exception, address: str, kafka: KafkaSettings, step: str) -> BrokerError | None:
    """The answer of one address in a person's words; None where it did not answer."""
    detail = on_one_line(str(error) or type(error).__name__)
    if isinstance(error, LoginNeededError):
        return _needs_login(address, kafka)
    if isinstance(error, (SaslAuthenticationFailed, AuthenticationFailedError)):
        return BrokerError(
            "kafka.sasl_password",
            f"or kafka.sasl_username is refused by {address} while {step}: {detail}",
            None,
            f"check user and password, and that the user has them for {kafka.sasl_mechanism}",
        )
    if isinstance(error, UnsupportedSaslMechanismError):
        return BrokerError(
            "kafka.sasl_mechanism",
            f"must be one that {address} takes: {detail}",
            kafka.sasl_mechanism,
            "choose one of those, or have the broker enable it",
        )
    if isinstance(error, IllegalSaslStateError):
        return BrokerError(
            "kafka.security_protocol",
            f"must suit the port: {address} takes no login",
            kafka.security_protocol,
            "name the broker's SASL port, or leave SASL out of security_protocol",
        )
    if isinstance(error, ssl.SSLError):
        return _tls_meaning(error, detail, address, kafka)
    if isinstance(error, ConnectionResetError) and "SSL" in kafka.security_protocol:
        return _no_tls("it closes the connection", address, kafka)  # Before the handshake was done.
    if isinstance(error, (KafkaError, EOFError, ConnectionResetError)):
        return _closed(address, kafka, step)
    return None


def _tls_meaning(error: ssl.SSLError, detail: str, address: str, kafka: KafkaSettings) -> BrokerError:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = on_one_line(error.verify_message).rstrip(".")
        if error.verify_code in _OF_ANOTHER_HOST:
            return BrokerError(
                "kafka.bootstrap_servers",
                f"must name the broker as its certificate does: {why}",
                address,
                "use a name or an address that the certificate holds (subjectAltName), or have it made anew",
            )
        return BrokerError(
            "kafka.ssl_cafile",
            f"must hold the CA of {address}'s certificate: {why}",
            kafka.ssl_cafile or None,
            "ask for the CA's certificate (PEM) that the broker's was signed with",
        )
    if any(alert in (error.reason or "") for alert in _CLIENT_CERTIFICATE_ALERTS):
        return _no_client_certificate(address, kafka, detail)
    return _no_tls(detail, address, kafka)


def _no_tls(detail: str, address: str, kafka: KafkaSettings) -> BrokerError:
    return BrokerError(
        "kafka.security_protocol",
        f"must suit the port: {address} does not answer in TLS: {detail}",
        kafka.security_protocol,
        "name the broker's TLS port, or leave SSL out of security_protocol",
    )


def _closed(address: str, kafka: KafkaSettings, step: str) -> BrokerError:
    """The broker took the connection and closed it without an answer."""
    if "SSL" in kafka.security_protocol:
        return _no_client_certificate(address, kafka, "it closes the connection")
    return BrokerError(
        "kafka.security_protocol",
        f"must suit the port: {address} closes the connection without an answer while {step}",
        kafka.security_protocol,
        "where it is a TLS port write SSL, or SASL_SSL if there is a login; see the broker's log",
    )


def _no_client_certificate(address: str, kafka: KafkaSettings, detail: str) -> BrokerError:
    return BrokerError(
        "kafka.ssl_certfile",
        f"must be a client certificate that {address} trusts: {detail}",
        kafka.ssl_certfile or None,
        "set ssl_certfile and ssl_keyfile to one signed by the CA of the broker's clients",
    )


def _needs_login(address: str, kafka: KafkaSettings) -> BrokerError:
    return BrokerError(
        "kafka.security_protocol",
        f"must suit the port: {address} ends a connection without a login",
        kafka.security_protocol,
        "write SASL_SSL (SASL_PLAINTEXT without TLS), with sasl_mechanism, user and password",
    )
