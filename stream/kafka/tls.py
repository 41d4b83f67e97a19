"""Makes the TLS context of Kafka's clients: one for all of them, until a file that it was made of changes."""

import ssl
from pathlib import Path

from aiokafka.helpers import create_ssl_context

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.runtime import KafkaSettings
from spotsieve.stream.kafka.errors import on_one_line

_Key = tuple[object, ...]
_made: dict[_Key, ssl.SSLContext] = {}
"""The context that was made last, by what it was made of."""


def ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    """The context for these settings. Raises SettingError where certificates cannot be read.

    The system's authorities take 20 ms to read and 0.8 MiB to hold, and the event loop stands still meanwhile. Files
    that were replaced, as by a renewal of certificates, are read again for the next client.
    """
    if kafka.ssl_keyfile and not kafka.ssl_certfile:
        raise SettingError(
            "kafka.ssl_certfile", "must be set where ssl_keyfile is", None, "name the certificate of the key"
        )
    names = (kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile)
    password = kafka.ssl_key_password.get_secret_value()
    try:
        key = (*map(_identity, names), password)
        if key not in _made:
            context = create_ssl_context(
                cafile=kafka.ssl_cafile or None,
                certfile=kafka.ssl_certfile or None,
                keyfile=kafka.ssl_keyfile or None,
                # Never None: OpenSSL would ask for it on the terminal, and a service would hang.
                password=password,
            )
            _made.clear()
            _made[key] = context
        return _made[key]
    except (OSError, ssl.SSLError) as error:
        raise SettingError(
            "kafka.ssl_*file",
            f"must be readable PEM files, the key of the certificate: {on_one_line(str(error))}",
            list(names),
            "check the paths, and kafka.ssl_key_password where the key has one",
        ) from None


def _identity(name: str) -> _Key:
    """What changes when a file is replaced or written; the system's authorities count as one that never does."""
    if not name:
        return ()
    found = Path(name).stat()
    return name, found.st_ino, found.st_size, found.st_mtime_ns
