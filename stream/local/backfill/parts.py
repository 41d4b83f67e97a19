"""Names of the parts of a backfill's outputs, one per input, claims of directories, and the Parquet file of verdicts.

    DIR/.spotsieve-backfill    {"run", "host", "state"} of the run that writes to the directory, until it is complete
    DIR/00003-NAME    NAME of the fourth input, whose format its records keep; NAME.parquet for verdicts, NAME.jsonl
                      for rejected records

Rows of verdicts have the fields of the lines of `filter --verdicts` (stream/files/verdict_lines.py) as columns.
"""

import contextlib
import importlib.util
import json
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.files.compression import COMPRESSORS
from spotsieve.stream.files.formats import FORMATS, UNWRITTEN_ENDINGS
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.remote import RemoteFile, is_url, shown_url
from spotsieve.stream.files.targets import PARTIAL, target_of, write_error
from spotsieve.stream.files.verdict_lines import CLUSTER, ClusterIds, verdict_fields

_COLUMNS = (
    "id",
    "verdict",
    "duplicate_of",
    "score",
    "scheme",
    "reason",
    "url",
    "original_url",
    "replaces",
    "replaced_url",
)
_LONGEST_NAME = 255
"""Most bytes of the name of a file, with the suffix of an incomplete one."""
CLAIM = ".spotsieve-backfill"
_GROUP_ROWS = 50_000
_WRITTEN_ENDINGS = {
    ending: one.written_as.endings[0] for one in FORMATS if one.written_as != one for ending in one.endings
}
"""For a format that is not written: the ending of the format in which its records are written, by its endings."""


class Parts(NamedTuple):
    """Names of the outputs of one input, None for outputs that are off."""

    out: str | None
    verdicts: str | None
    rejected: str | None


def parts_of(
    number: int, count: int, file: Input, out: str | None, verdicts: str | None, rejected: str | None
) -> Parts:
    """Parts of an input, whose names sort in the order of the inputs.

    number: its place among the inputs  count: number of inputs  out, verdicts, rejected: directories or URLs, or None
    """
    name, place = PurePosixPath(file.source).name or "pages", f"{number:0{max(5, len(str(count - 1)))}}"
    stem = f"{place}-{name.split('.', 1)[0] or 'pages'}"
    written = f"{place}-{_written_as(name)}"
    ending = "".join(PurePosixPath(written).suffixes[-2:])
    return Parts(
        out and _within(out, written.removesuffix(ending), ending),
        verdicts and _within(verdicts, stem, ".parquet"),
        rejected and _within(rejected, stem, ".jsonl"),
    )


def _written_as(name: str) -> str:
    path = PurePosixPath(name)
    packed = path.suffix if path.suffix.lower() in COMPRESSORS else ""
    inner = PurePosixPath(name.removesuffix(packed))
    instead = _WRITTEN_ENDINGS.get(inner.suffix.lower())
    if instead is not None:
        return f"{inner.stem}{instead}{packed or '.gz'}"
    # An output must not have the ending of another format, such as .csv for lines of JSON.
    endings = inner.suffixes[-1:] if packed else inner.suffixes[-2:]
    kept = [ending for ending in endings if ending.lower() not in UNWRITTEN_ENDINGS]
    return inner.name.removesuffix("".join(endings)) + "".join(kept) + packed


def _within(directory: str, stem: str, ending: str) -> str:
    """The place of a file in a directory. The stem is cut if the name would be too long for a file."""
    ending = escape_control_characters(ending)
    most = _LONGEST_NAME - len(PARTIAL) - len(ending.encode())
    if most < _LONGEST_NAME // 2:
        stem, ending, most = stem + ending, "", _LONGEST_NAME - len(PARTIAL)
    return (
        f"{directory.rstrip('/')}/{escape_control_characters(stem).encode()[:most].decode('utf-8', 'ignore')}{ending}"
    )


def claim_directory(flag: str, directory: str, run: str, state: Path) -> bool:
    """Record in an output directory that this run writes to it. Returns whether this call made the claim.

    flag: the output  run: id of the run  state: its state directory, which has one run at a time
    File systems without hard links, and stores without exclusive creation, such as S3, refuse only runs that start
    later. Raises SettingError if another run has claimed the directory.
    """
    name, mine = _within(directory, CLAIM, ""), _claim_of(run, state)
    try:
        is_made = _make_claim(name, mine)
        owner = mine if is_made else _read_claim(name)
        if owner is None:
            _remove_claim(name)
            is_made = _make_claim(name, mine)
            owner = mine if is_made else _read_claim(name) or {}
    except OSError as error:
        then = "choose a directory that can be written"
        raise SettingError(f"--{flag}", f"cannot be written: {error.strerror}", directory, then) from None
    if not _is_same_run(owner, mine):
        what = f"of the state {owner.get('state', 'unknown')} on {owner.get('host', 'unknown')}"
        rule = f"has the parts of another backfill that is not complete, {what}"
        then = f"choose another directory; if that run was given up, remove {shown_url(name)}"
        raise SettingError(f"--{flag}", rule, shown_url(directory), then)
    return is_made


def release_directory(directory: str, run: str, state: Path) -> None:
    """Remove the claim of this run, or of an earlier run of its state. The claims of other runs stay."""
    name = _within(directory, CLAIM, "")
    # A claim that stays is reported by the next run, with the way to remove it.
    with contextlib.suppress(OSError, SettingError):
        owner = _read_claim(name)
        if owner is not None and _is_same_run(owner, _claim_of(run, state)):
            _remove_claim(name)


def _claim_of(run: str, state: Path) -> dict[str, str]:
    return {"run": run, "host": socket.gethostname(), "state": str(state.resolve())}


def _is_same_run(owner: Mapping[str, str], mine: Mapping[str, str]) -> bool:
    """Whether two claims are of one run, whose state may have moved, or of one state, which has one run at a time."""
    return owner.get("run") == mine["run"] or all(owner.get(key) == mine[key] for key in ("host", "state"))


def _make_claim(name: str, claim: Mapping[str, str]) -> bool:
    """Create the file or URL of a claim. Returns False if it exists. Raises OSError, SettingError."""
    content = json.dumps(claim).encode()
    if not is_url(name):
        return _make_file(Path(name), content)
    remote = RemoteFile(name, SettingError)
    if remote.exists():
        return False
    file = remote.open_to_write("")
    file.write(content)
    file.close()
    return True


def _make_file(path: Path, content: bytes) -> bool:
    """Create a file with all of its content, or not at all. Returns False if it exists. Raises OSError."""
    scratch = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        scratch.write_bytes(content)
        try:
            path.hardlink_to(scratch)
        except FileExistsError:
            return False
        except OSError:  # The file system has no hard links.
            return _make_file_in_place(path, content)
        return True
    finally:
        scratch.unlink(missing_ok=True)


def _make_file_in_place(path: Path, content: bytes) -> bool:
    """Create a file, which a kill may leave incomplete. Returns False if it exists. Raises OSError."""
    try:
        file = path.open("xb")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


def _read_claim(name: str) -> dict[str, str] | None:
    """The content of a claim; None if the claim is missing, or was left incomplete by a run that was killed.

    Raises OSError, SettingError.
    """
    if is_url(name):
        remote = RemoteFile(name, SettingError)
        content = remote.open_to_read().read() if remote.exists() else b""
    else:
        try:
            content = Path(name).read_bytes()
        except FileNotFoundError:
            return None
    try:
        return {key: str(value) for key, value in json.loads(content).items()}
    except (ValueError, AttributeError):
        return None


def _remove_claim(name: str) -> None:
    """Remove a claim. Raises OSError, SettingError."""
    if not is_url(name):
        Path(name).unlink(missing_ok=True)
    elif (remote := RemoteFile(name, SettingError)).exists():
        remote.remove("")


def check_pyarrow() -> None:
    """Raise SettingError if pyarrow, which writes Parquet, is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError("--verdicts", "needs pyarrow to write Parquet", None, "pip install 'spotsieve[parquet]'")


class VerdictRows:
    """A Parquet file of verdicts. It gets its name when it is complete."""

    def __init__(self, name: str, scheme: str, with_clusters: bool = False) -> None:
        """name: path or URL  scheme: name of the scheme  with_clusters: whether to add the column "cluster"

        Raises SettingError if the file cannot be written.
        """
        import pyarrow as pa
        from pyarrow import parquet

        self._scheme = scheme
        text = pa.string()
        self._clusters = ClusterIds() if with_clusters else None
        self._columns = (*_COLUMNS, CLUSTER) if with_clusters else _COLUMNS
        self._schema = pa.schema([(column, pa.float64() if column == "score" else text) for column in self._columns])
        self._name, self._target = name, target_of(name, None)
        self._writer: Any = parquet.ParquetWriter(self._target.file, self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []

    def write(self, pages: Sequence[Page], verdicts: Verdicts) -> None:
        """Add the verdicts of pages. Raises StateError if the disk is full."""
        self._rows += [
            verdict_fields(page, verdicts, row, self._scheme, self._clusters) for row, page in enumerate(pages)
        ]
        if len(self._rows) >= _GROUP_ROWS:
            with self._write_errors():
                self._write_group()

    def complete(self) -> None:
        """Close the file and give it its name. Raises StateError."""
        with self._write_errors():
            if self._rows:
                self._write_group()
            self._writer.close()
            self._target.close()
            self._target.finish()

    def abandon(self) -> None:
        """Close the file without giving it its name. Raises StateError."""
        with self._write_errors():
            self._writer.close()
            self._target.close()

    @contextlib.contextmanager
    def _write_errors(self) -> Iterator[None]:
        """Raise OSError as the StateError of this output."""
        try:
            yield
        except OSError as error:
            raise write_error(shown_url(self._name), error, self._target, judged=True) from None

    def _write_group(self) -> None:
        import pyarrow as pa

        columns = [[row.get(column) for row in self._rows] for column in self._columns]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []
