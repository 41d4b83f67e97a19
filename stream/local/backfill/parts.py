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
from collections.abc import Iterator, Sequence
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


def parts_of(number: int, file: Input, out: str | None, verdicts: str | None, rejected: str | None) -> Parts:
    """Parts of an input. number: its place among the inputs  out, verdicts, rejected: directories or URLs, or None"""
    name = PurePosixPath(file.source).name or "pages"
    stem = f"{number:05}-{name.split('.', 1)[0] or 'pages'}"
    written = f"{number:05}-{_written_as(name)}"
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


def claim_directory(flag: str, directory: str, run: str, state: Path) -> None:
    """Record in an output directory that this run writes to it. Raises SettingError if another run does.

    flag: the output  run: id of the run  state: its state directory, which has one run at a time
    Stores without exclusive creation, such as S3, refuse only runs that start later.
    """
    name = _within(directory, CLAIM, "")
    mine = {"run": run, "host": socket.gethostname(), "state": str(state.resolve())}
    content = json.dumps(mine).encode()
    try:
        if is_url(name):
            remote = RemoteFile(name, SettingError)
            if not remote.exists():
                file = remote.open_to_write("")
                file.write(content)
                file.close()
                return
            claimed = remote.open_to_read().read()
        else:
            with contextlib.suppress(FileExistsError), Path(name).open("xb") as file:
                file.write(content)
            claimed = Path(name).read_bytes()
    except OSError as error:
        then = "choose a directory that can be written"
        raise SettingError(f"--{flag}", f"cannot be written: {error.strerror}", directory, then) from None
    try:
        owner = {key: str(value) for key, value in json.loads(claimed).items()}
    except (ValueError, AttributeError):
        owner = {}
    if owner.get("run") != run and owner != mine | {"run": owner.get("run")}:
        what = f"of the state {owner.get('state', 'unknown')} on {owner.get('host', 'unknown')}"
        rule = f"has the parts of another backfill that is not complete, {what}"
        then = f"choose another directory; if that run was given up, remove {shown_url(name)}"
        raise SettingError(f"--{flag}", rule, shown_url(directory), then)


def release_directory(directory: str) -> None:
    """Remove the claim of a complete run."""
    name = _within(directory, CLAIM, "")
    # A claim that stays is reported by the next run, with the way to remove it.
    with contextlib.suppress(OSError, SettingError):
        if is_url(name):
            RemoteFile(name, SettingError).remove("")
        else:
            Path(name).unlink(missing_ok=True)


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
