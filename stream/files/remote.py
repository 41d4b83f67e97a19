"""Opens URLs (s3://, gs://, http://, memory://, ...) through fsspec, as streams and with errors of one line.

The drivers of fsspec raise the exceptions of their libraries. Here every such exception becomes an OSError with a text
for people, without passwords, queries and signatures of the URL. The drivers retry by themselves.
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
"""The fields of a driver's info() that may hold the time when a file was written."""
_NEXT_STEP = "check the URL, its server and your access to it"
_READ_SEEKING = {"cache_type": "blockcache"}
"""For random access in Parquet and zip files. The default cache reads ahead and would fetch bytes several times."""


def is_url(name: str) -> bool:
    """Whether a name is a URL for fsspec. A file:// URL is a local path."""
    return _URL.match(name) is not None and not name.lower().startswith("file://")


def local_name(name: str) -> str:
    """The local path of a name that is not a remote URL, without file://."""
    return name[len("file://") :] if name.lower().startswith("file://") else name


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment, which may be secrets and change from day to day."""
    return _SECRETS.sub("", url)


class RemoteFile:
    """A file at a URL, to read or to write. Its methods raise `kind` if fsspec cannot reach it.

    kind: InputError for a file to read, SettingError for a file to write
    """

    def __init__(self, url: str, kind: type[SpotsieveError]) -> None:
        self.url = url
        self.shown = shown_url(url)
        self._kind = kind
        try:
            import fsspec
            from fsspec.registry import known_implementations
        except ImportError:
            raise self._missing("needs fsspec", "spotsieve[remote]") from None
        try:
            # Some drivers connect in this call.
            with self._translated_errors("cannot be reached", ImportError, ValueError):
                self._fs, self._path = fsspec.core.url_to_fs(url)
        except ImportError as error:
            protocol = url.partition("://")[0].lower()
            known = known_implementations.get(protocol, {"class": protocol})
            package = known["class"].partition(".")[0].replace("_", "-")
            named = "spotsieve[remote]" if package == "fsspec" else package
            raise self._missing(f"needs a driver of fsspec ({_error_text(error, url)})", named) from None
        except ValueError as error:
            raise kind(self.shown, f"cannot be opened: {_error_text(error, url)}", None, "correct the URL") from None

    def expand(self, *, needed: bool = True) -> list[str]:
        """The URLs that match a pattern with *, sorted by name; the URL itself if it has no pattern.

        needed: whether a pattern that matches no file is an error
        """
        if _GLOB not in self._path or self.url.lower().startswith(_NO_LISTS):
            return [self.url]
        with self._translated_errors("cannot be listed"):
            found = sorted(self._fs.glob(self._path))
        if not found and needed:
            raise self._kind(self.shown, "matches no file", None, "check the pattern")
        # Keep the rest of the URL: it may name host and user, or the archive of the file. The driver's URLs may not.
        first, chained, rest = self.url.partition("::")
        if first.endswith(self._path):
            return [f"{first.removesuffix(self._path)}{path}{chained}{rest}" for path in found]
        return [str(self._fs.unstrip_protocol(path)) for path in found]

    def size(self) -> int | None:
        """Its size in bytes; None if the server does not report it. Raises the error if there is no such file."""
        with self._translated_errors("cannot be read"):
            info = self._fs.info(self._path)
        if info.get("type") == "directory":
            raise self._kind(
                self.shown, "cannot be read: it is a directory", None, "name its files, for example with *"
            )
        size = info.get("size")
        return int(size) if size else None

    def written_ms(self) -> int:
        """The time when it was written, in ms since the epoch; the current time if the server does not report it."""
        with self._translated_errors("cannot be read"):
            info = self._fs.info(self._path)
        found = next((info[name] for name in _TIMES if info.get(name)), None)
        seconds = _seconds_of(found)
        return int((time.time() if seconds is None else seconds) * 1000)

    def exists(self) -> bool:
        """Whether there is such a file."""
        with self._translated_errors("cannot be looked up"):
            return bool(self._fs.isfile(self._path))

    def is_directory(self) -> bool:
        """Whether there are files below this URL."""
        with self._translated_errors("cannot be looked up"):
            return bool(self._fs.isdir(self._path))

    def open_to_read(self, *, seeking: bool = False) -> BinaryIO:
        """Open the file for reading. seeking: for random access instead of sequential reading"""
        with self._translated_errors("cannot be read"):
            return self._wrap(self._fs.open(self._path, "rb", **(_READ_SEEKING if seeking else {})))

    def open_to_write(self, ending: str) -> BinaryIO:
        """Create the file with this suffix after its name, and open it for writing."""
        with self._translated_errors("cannot be written"):
            return self._wrap(self._fs.open(self._path + ending, "wb"))

    def rename_from(self, ending: str) -> None:
        """Rename the file with this suffix to the name without it. Raises OSError."""
        with _as_oserror(self.url):
            self._fs.mv(self._path + ending, self._path)

    def remove(self, ending: str) -> None:
        """Remove the file with this suffix. Raises OSError."""
        with _as_oserror(self.url):
            self._fs.rm(self._path + ending)

    def _missing(self, need: str, package: str) -> SpotsieveError:
        return self._kind(self.shown, f"is a URL and {need}", None, f"pip install '{package}'")

    @contextlib.contextmanager
    def _translated_errors(self, failure: str, *passed: type[Exception]) -> Iterator[None]:
        """Raise a driver's error as `kind` with the failure, such as "cannot be read"; do not change passed classes."""
        try:
            with _as_oserror(self.url, *passed):
                yield
        except OSError as error:
            raise self._kind(self.shown, f"{failure}: {error.strerror}", None, _NEXT_STEP) from None

    def _wrap(self, file: Any) -> BinaryIO:
        return cast("BinaryIO", _DriverFile(file, self.url, self._fs))


class _DriverFile:
    """An open file of a driver. Its exceptions become OSErrors.

    fs: the driver, referenced because a driver of archives closes the archive when it is garbage-collected
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
    """Turn every exception except BrokenPipeError and the passed classes into an OSError for people."""
    unchanged: tuple[type[Exception], ...] = (BrokenPipeError, *passed)
    try:
        yield
    except unchanged:
        raise
    except Exception as error:
        raise OSError(errno.EIO, _error_text(error, url)) from None


def _error_text(error: Exception, url: str) -> str:
    """The text of a driver's exception, on one line and without the secrets of the URL."""
    if isinstance(error, FileNotFoundError):
        # The driver of http:// raises FileNotFoundError for every error; the cause is the actual error.
        if isinstance(error.__cause__, Exception) and getattr(error.__cause__, "status", None) not in _NOT_THERE:
            return _error_text(error.__cause__, url)
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "access is denied: check the driver's credentials"
    if isinstance(error, NotImplementedError):
        return "its driver does not support this"
    text = " ".join(_SECRETS.sub("", str(error).replace(url, shown_url(url))).split())
    return f"{type(error).__name__}: {text[:_MOST_SHOWN]}" if text else type(error).__name__


def _seconds_of(time_field: object) -> float | None:
    """A time of a driver's info() in seconds since the epoch; None if it has no known form."""
    if isinstance(time_field, datetime):
        return time_field.timestamp()
    if isinstance(time_field, int | float):
        return float(time_field)
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return parse(str(time_field)).timestamp()
        except ValueError:
            continue
    return None
