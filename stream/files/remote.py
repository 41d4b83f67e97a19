"""Opens URLs (s3://, gs://, http://, memory://, ...) through fsspec: streamed, and any trouble is one line.

fsspec's drivers raise what their libraries raise. Here every exception of theirs becomes an OSError with a text for
people, without passwords, queries and signatures of the URL. Retries are the driver's.
"""

import contextlib
import errno
import re
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, cast

from spotsieve.stream.base.errors import SpotsieveError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SECRETS = re.compile(r"(?<=://)[^/@\s]*@|[?#][^\s'\"]*")
_MOST_SHOWN = 200
_GLOB = "*"
_NOT_THERE = (404, 410)
_NO_LISTS = ("http", "https")
_TIMES = ("LastModified", "last_modified", "Last-Modified", "updated", "mtime", "created")
"""The fields of a driver's info() that may tell when a file was written, as the drivers call them."""
_THEN = "check the URL, its server and your access to it"
_READ_SEEKING = {"cache_type": "blockcache"}
"""Parquet and zip are read here and there. The usual cache reads ahead, and would fetch the same bytes many times."""


def is_url(name: str) -> bool:
    """Whether a name is a URL that fsspec opens; file:// names a local path."""
    return _URL.match(name) is not None and not name.lower().startswith("file://")


def local_name(name: str) -> str:
    """The path that a name which is no URL stands for."""
    return name[len("file://") :] if name.lower().startswith("file://") else name


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment: these change from day to day, and may be secrets."""
    return _SECRETS.sub("", url)


class RemoteFile:
    """A file behind a URL, which is there or will be. Raises the SpotsieveError `kind` where fsspec cannot reach it.

    kind: InputError for a file to read, SettingError for one to write
    """

    def __init__(self, url: str, kind: type[SpotsieveError]) -> None:
        self.url = url
        self.shown = shown_url(url)
        self._kind = kind
        try:
            import fsspec
            from fsspec.registry import known_implementations
        except ImportError:
            raise self._missing("fsspec reads and writes", "spotsieve[remote]") from None
        try:
            # Some drivers connect here.
            with self._telling("cannot be reached", ImportError, ValueError):
                self._fs, self._path = fsspec.core.url_to_fs(url)
        except ImportError as error:
            protocol = url.partition("://")[0].lower()
            known = known_implementations.get(protocol, {"class": protocol})
            package = known["class"].partition(".")[0].replace("_", "-")
            named = "spotsieve[remote]" if package == "fsspec" else package
            raise self._missing(f"a driver of fsspec opens ({_error_text(error, url)})", named) from None
        except ValueError as error:
            raise kind(self.shown, f"cannot be opened: {_error_text(error, url)}", None, "correct the URL") from None

    def expand(self) -> list[str]:
        """The URLs that a pattern with * names, in the order of their names; the URL itself where it has none."""
        if _GLOB not in self._path or self.url.lower().startswith(_NO_LISTS):
            return [self.url]
        with self._telling("cannot be listed"):
            found = sorted(self._fs.glob(self._path))
        if not found:
            raise self._kind(self.shown, "must match a file, and matches none", None, "look at the pattern")
        # The URL also names host and user, or the archive that a file lies in. The driver's own URLs may not.
        first, chained, rest = self.url.partition("::")
        if first.endswith(self._path):
            return [f"{first.removesuffix(self._path)}{path}{chained}{rest}" for path in found]
        return [str(self._fs.unstrip_protocol(path)) for path in found]

    def size(self) -> int | None:
        """Its size in bytes, or None where the server does not say. Raises the error where there is no such file."""
        with self._telling("cannot be read"):
            info = self._fs.info(self._path)
        if info.get("type") == "directory":
            raise self._kind(self.shown, "cannot be read: it is a directory", None, "name the files in it, as with *")
        size = info.get("size")
        return int(size) if size else None

    def written_ms(self) -> int:
        """When it was written, in ms since the epoch; the time now where the server does not say."""
        with self._telling("cannot be read"):
            info = self._fs.info(self._path)
        found = next((info[name] for name in _TIMES if info.get(name)), None)
        seconds = _seconds_of(found)
        return int((time.time() if seconds is None else seconds) * 1000)

    def exists(self) -> bool:
        """Whether there is such a file."""
        with self._telling("cannot be looked up"):
            return bool(self._fs.isfile(self._path))

    def open_to_read(self, *, seeking: bool = False) -> BinaryIO:
        """Open it. seeking: it will be read here and there, and not from its beginning to its end"""
        with self._telling("cannot be read"):
            return self._telling_file(self._fs.open(self._path, "rb", **(_READ_SEEKING if seeking else {})))

    def open_to_write(self, ending: str) -> BinaryIO:
        """Open the file of this name and ending anew."""
        with self._telling("cannot be written"):
            return self._telling_file(self._fs.open(self._path + ending, "wb"))

    def rename_from(self, ending: str) -> None:
        """Give the file of this name and ending the name alone. Raises OSError."""
        with _as_oserror(self.url):
            self._fs.mv(self._path + ending, self._path)

    def remove(self, ending: str) -> None:
        """Remove the file of this name and ending. Raises OSError."""
        with _as_oserror(self.url):
            self._fs.rm(self._path + ending)

    def _missing(self, what: str, package: str) -> SpotsieveError:
        return self._kind(self.shown, f"is a URL, which {what}", None, f"pip install '{package}'")

    @contextlib.contextmanager
    def _telling(self, what: str, *passed: type[Exception]) -> Iterator[None]:
        try:
            with _as_oserror(self.url, *passed):
                yield
        except OSError as error:
            raise self._kind(self.shown, f"{what}: {error.strerror}", None, _THEN) from None

    def _telling_file(self, file: Any) -> BinaryIO:
        return cast("BinaryIO", _DriverFile(file, self.url, self._fs))


class _DriverFile:
    """An open file of a driver, whose exceptions become OSErrors.

    fs: the driver. One of archives closes the archive when nobody holds the driver any longer
    """

    def __init__(self, file: Any, url: str, fs: object) -> None:
        self._file, self._fs = file, fs
        self._url = url

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if not callable(found):
            return found

        def call(*values: Any) -> Any:
            with _as_oserror(self._url):
                return found(*values)

        self.__dict__[name] = call
        return call


@contextlib.contextmanager
def _as_oserror(url: str, *passed: type[Exception]) -> Iterator[None]:
    as_they_are: tuple[type[Exception], ...] = (BrokenPipeError, *passed)
    try:
        yield
    except as_they_are:
        raise
    except Exception as error:
        raise OSError(errno.EIO, _error_text(error, url)) from None


def _error_text(error: Exception, url: str) -> str:
    """What an exception of a driver says, on one line and without the secrets of the URL."""
    if isinstance(error, FileNotFoundError):
        # The driver of http:// says so of every trouble, and has the trouble itself behind it.
        if isinstance(error.__cause__, Exception) and getattr(error.__cause__, "status", None) not in _NOT_THERE:
            return _error_text(error.__cause__, url)
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "access is refused: look at the driver's credentials"
    if isinstance(error, NotImplementedError):
        return "its driver cannot do that"
    text = " ".join(_SECRETS.sub("", str(error).replace(url, shown_url(url))).split())
    return f"{type(error).__name__}: {text[:_MOST_SHOWN]}" if text else type(error).__name__


def _seconds_of(found: object) -> float | None:
    if isinstance(found, datetime):
        return found.timestamp()
    if isinstance(found, int | float):
        return float(found)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return read(str(found)).timestamp()
        except ValueError:
            continue
    return None
