"""`python -m bench.published.archives` compares our reading of public WARC files with warcio and FastWARC.

The files are test data of public tools. For each capture that a library reads, the body must be equal; the document
names every other one with its reason.
"""

import argparse
import contextlib
import io
import platform
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import fastwarc.warc
import warcio.archiveiterator

from bench.published.repositories import CLONES, Repository, RepositoryFile, commit_of, files_of
from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.warc import capture_of, read_record_fields, split_warc
from spotsieve.stream.files.warc.arc import split_arc
from spotsieve.stream.files.warc.records import uri_of
from tests.conftest import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "measured" / "archives.md"
_ARCHIVES = r"\.(arc|warc|warc\.(wet|wat))(\.gz|\.zst)?(\.bad)?$|\.wacz$"
REPOSITORIES = (
    Repository("webrecorder/warcio", _ARCHIVES),
    Repository("webrecorder/pywb", _ARCHIVES),
    Repository("webrecorder/py-wacz", _ARCHIVES),
    Repository("openzim/warc2zim", _ARCHIVES),
    Repository("openpreserve/jhove", _ARCHIVES, ("jhove-ext-modules/src/test/resources/warc",)),
    Repository("commoncrawl/whirlwind-python", _ARCHIVES),
)
_MOST_BYTES = 2**27
_PAGE_TYPES = ("response", "resource", "conversion")


class CaptureBody(NamedTuple):
    """The body of one capture, or the fault for which a reader gives none.

    whole: whether the reader could decode it to its end
    """

    url: str
    body: bytes
    fault: str = ""
    whole: bool = True


REASONS = {
    "url": "warcio writes %20 for a blank in a URL; the bodies are equal",
    "dns": "a DNS answer is not a page: of the responses, the filter reads those that are HTTP",
    "library": "the library gives no body: it stops at the record, or cannot decode it",
    "short": "the file ends within the record, or has fewer bytes than its Content-Length: the filter rejects the "
    "record with a reason, the library gives the bytes that are there",
    "cut": "the payload is cut: both give the same bytes, and the filter marks them as a part of a page",
    "header": "the header lacks a Content-Length or a readable date: the filter rejects the record with a reason",
    "raw": "the body does not have the coding that its header names: the filter takes the body as it is, and the "
    "library gives no bytes",
    "blank": "the record has no HTTP header: the library takes its first line for one",
}


class BodyDifference(NamedTuple):
    """A capture that a library and the filter read differently. reason: a key of REASONS; "" for an unknown reason"""

    library: str
    place: str
    url: str
    theirs: str
    ours: str
    reason: str


def read_ours(file: RepositoryFile) -> Iterator[CaptureBody]:
    """The captures of a file as the filter reads them, and a fault for each rejected record."""
    chunks = read_chunks(io.BytesIO(file.content), file.place)
    records = split_arc(chunks, file.place, _MOST_BYTES) if _is_arc(file) else split_warc(chunks, _MOST_BYTES)
    try:
        for record in records:
            if record.fault is not None:
                yield CaptureBody("", b"", f"{record.fault[0].value}: {record.fault[1]}")
                continue
            try:
                capture = capture_of(record.raw, _MOST_BYTES, 0)
            except PageError as error:
                url = uri_of(read_record_fields(record.raw))
                yield CaptureBody(url, b"", f"{error.reason.value}: {error.rule}")
                continue
            if capture is not None:
                yield CaptureBody(capture.url, capture.body, whole=capture.whole)
    except InputError as error:
        yield CaptureBody("", b"", str(error))


def read_by_warcio(file: RepositoryFile) -> Iterator[CaptureBody]:
    """The captures of a file as warcio reads them."""
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            for record in warcio.archiveiterator.ArchiveIterator(io.BytesIO(file.content), arc2warc=True):
                url = record.rec_headers.get_header("WARC-Target-URI") or ""
                if record.rec_type in _PAGE_TYPES:
                    yield _read_body(url, record.content_stream().read)
        except Exception as error:
            yield CaptureBody("", b"", _fault_of(error))


def read_by_fastwarc(file: RepositoryFile) -> Iterator[CaptureBody]:
    """The captures of a file as FastWARC reads them. It does not read ARC."""
    if _is_arc(file):
        return
    types = fastwarc.warc.WarcRecordType
    kinds = types.response | types.resource | types.conversion
    try:
        stream = io.BytesIO(file.content)
        for record in fastwarc.warc.ArchiveIterator(stream, record_types=kinds, auto_decode="all"):
            yield _read_body(record.headers.get("WARC-Target-URI") or "", record.reader.read)
    except Exception as error:
        yield CaptureBody("", b"", _fault_of(error))


LIBRARIES = {"warcio": read_by_warcio, "FastWARC": read_by_fastwarc}


def _read_body(url: str, read: Callable[[], bytes]) -> CaptureBody:
    try:
        return CaptureBody(url.strip("<>"), read())
    except Exception as error:
        return CaptureBody(url.strip("<>"), b"", _fault_of(error))


def _fault_of(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"


def _is_arc(file: RepositoryFile) -> bool:
    return ".warc" not in file.place and ".arc" in file.place


def unpack(file: RepositoryFile) -> Iterator[RepositoryFile]:
    """The file itself, or the WARC files in a WACZ."""
    if not file.place.endswith(".wacz"):
        yield file
        return
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(file.content)) as archive:
        for name in archive.namelist():
            if name.startswith("archive/"):
                yield RepositoryFile(f"{file.place}/{name}", archive.read(name))


def pair(theirs: Sequence[CaptureBody], ours: Sequence[CaptureBody]) -> list[tuple[CaptureBody, CaptureBody | None]]:
    """Each capture of a library with ours: an equal one if possible, otherwise one of the same URL, or none."""
    left = list(ours)
    pairs: list[tuple[CaptureBody, CaptureBody | None]] = []
    for capture in theirs:
        same_url = [one for one in left if one.url == capture.url]
        found = next((one for one in same_url if one.body == capture.body), next(iter(same_url), None))
        if found is not None:
            left.remove(found)
        pairs.append((capture, found))
    return pairs


def find_reason(theirs: CaptureBody, own: CaptureBody | None, ours: Sequence[CaptureBody]) -> str:
    """The reason of a difference as a key of REASONS; "" for an unknown one. ours: all captures of the file"""
    faults = [own.fault] if own is not None else [one.fault for one in ours if one.fault]
    if theirs.fault:
        return "library"
    if own is None and CaptureBody(theirs.url.replace("%20", " "), theirs.body) in ours:
        return "url"
    if theirs.url.startswith("dns:"):
        return "dns"
    if any(fault.startswith("truncated") for fault in faults):
        return "short"
    if any(fault.startswith("bad_warc") for fault in faults):
        return "header"
    if own is None or theirs.body == own.body:
        return "" if own is None or own.whole else "cut"
    if not theirs.body:
        return "raw" if own.body.strip() else "blank"
    return ""


def compare(file: RepositoryFile, library: str, equal: Counter[str]) -> Iterator[BodyDifference]:
    """The differences between a library and the filter for one file. equal: counts the equal bodies of each library"""
    ours = list(read_ours(file))
    for theirs, own in pair(list(LIBRARIES[library](file)), ours):
        if own is not None and own.whole and not theirs.fault and not own.fault and own.body == theirs.body:
            equal[library] += 1
            continue
        reason = find_reason(theirs, own, ours)
        yield BodyDifference(library, file.place, theirs.url, _shown(theirs), _shown(own), reason)


def _shown(capture: CaptureBody | None) -> str:
    if capture is None:
        return "no capture"
    return capture.fault or f"{len(capture.body):,} bytes{'' if capture.whole else ', a part'}"


HEAD = """# Bodies of public web archives

Written by `make archives` (`ARGS=FOLDER` with clones of the repositories; a missing clone is made there where there is
network, by default in `~/.cache/spotsieve/published`). Every WARC, ARC and WACZ file of these repositories is read by
the filter, by warcio and by FastWARC. The body of each response, resource and conversion must be equal to the body that
a library decodes. The second table names every other capture, and the third explains the reasons.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all files, and write the document. Returns 1 for a difference without a known reason."""
    parser = argparse.ArgumentParser("python -m bench.published.archives", description=__doc__)
    parser.add_argument("clones", nargs="?", type=Path, default=CLONES, help="folder of clones")
    clones = parser.parse_args(arguments).clones
    lines = [
        HEAD,
        f"Python {platform.python_version()}, warcio {version('warcio')}, FastWARC {version('fastwarc')}.",
        "",
    ]
    lines += ["| repository | commit | files | " + " | ".join(f"{one}: equal | different" for one in LIBRARIES) + " |"]
    lines += ["|---|---|---:|" + "---:|" * (2 * len(LIBRARIES))]
    differences: list[BodyDifference] = []
    for repository in REPOSITORIES:
        commit = commit_of(repository, clones)
        if commit is None:
            print(f"{repository.name}: not in {clones}, and cannot be cloned", file=sys.stderr)
            return 2
        files = [inner for file in files_of(repository, clones) for inner in unpack(file)]
        equal = Counter[str]()
        found = [one for file in files for library in LIBRARIES for one in compare(file, library, equal)]
        counts = (f"{equal[one]} | {sum(other.library == one for other in found)}" for one in LIBRARIES)
        lines.append(f"| {repository.name} | `{commit}` | {len(files)} | {' | '.join(counts)} |")
        differences += found
    lines += ["", "| file | library | URL | library gives | filter gives | reason |", "|---|---|---|---|---|---|"]
    lines += [_row_of(one) for one in sorted(differences, key=lambda one: (one.place, one.library))]
    lines += ["", "| reason | captures | explanation |", "|---|---:|---|"]
    reasons = Counter(one.reason for one in differences)
    lines += [f"| {name} | {reasons[name]} | {text} |" for name, text in REASONS.items() if reasons[name]]
    DOCUMENT.write_text("\n".join(lines) + "\n", "utf-8")
    print(DOCUMENT.relative_to(REPOSITORY))
    return 1 if reasons[""] else 0


def _row_of(one: BodyDifference) -> str:
    owner, name, *_, file = one.place.split("/")
    cells = (f"{owner}/{name}: {file}", one.library, one.url, one.theirs, one.ours, one.reason or "unknown")
    shown = ("".join(c if " " <= c <= "~" and c != "|" else "?" for c in cell[:100]) for cell in cells)
    return f"| {' | '.join(shown)} |"


if __name__ == "__main__":
    raise SystemExit(main())
