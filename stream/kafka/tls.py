"""Makes the TLS context of the Kafka clients: all share one until one of its files changes."""

import ssl
from pathlib import Path

from aiokafka.helpers import create_ssl_context

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.runtime import KafkaSettings
from spotsieve.stream.kafka.errors import on_one_line

_Key = tuple[object, ...]
_contexts: dict[_Key, ssl.SSLContext] = {}
"""The latest context, by the identities of its files and its password."""


def ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    """The TLS context for these settings. Raises SettingError if certificates cannot be read.

    Reading the system's CA certificates takes 20 ms, which blocks the event loop, and 0.8 MiB. Files that were
    replaced, for example by a certificate renewal, are read again for the next client.
    """
    if kafka.ssl_keyfile and not kafka.ssl_certfile:
        raise SettingError(
            "kafka.ssl_certfile", "must be set if ssl_keyfile is set", None, "name the certificate of the key"
        )
    names = (kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile)
    password = kafka.ssl_key_password.get_secret_value()
    try:
        key = (*map(_identity, names), password)
        if key not in _contexts:
            context = create_ssl_context(
                cafile=kafka.ssl_cafile or None,
                certfile=kafka.ssl_certfile or None,
                keyfile=kafka.ssl_keyfile or None,
                # Never None: OpenSSL would prompt for it on the terminal, and the service would hang.
                password=password,
            )
            _contexts.clear()
            _contexts[key] = context
        return _contexts[key]
    except (OSError, ssl.SSLError) as error:
        raise SettingError(
            "kafka.ssl_*file",
            f"must be readable PEM files with a matching key: {on_one_line(str(error))}",
            list(names),
            "check the paths, and kafka.ssl_key_password if the key is encrypted",
        ) from None


def _identity(name: str) -> _Key:
    """A value that changes when the file is replaced or written; empty for the system's CA certificates."""
    if not name:
        return ()
    found = Path(name).stat()
    return name, found.st_ino, found.st_size, found.st_mtime_ns
