"""Judges documentation packages of Debian, each as a host of its own: `make manuals` writes docs/measured/manuals.md.

Reference manuals repeat hundreds of short descriptions on many pages, and tables of contents on all. The labelled sets
have no such pages. Nothing is fitted to these packages. `spotsieve score` counts the pages that are lost and missed, by
fresh text. The packages are taken from a folder, and those that are not there are downloaded with apt-get.
"""

import argparse
import json
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.command import MEASURED
from bench.quality.markdown import table

DOCUMENT = MEASURED / "manuals.md"
PACKAGES = (
    "apache2-doc cmake-doc debian-handbook docbook-xsl-doc-html erlang-doc fp-docs-3.2.2 gap-doc gimp-help-ja "
    "lazarus-doc-2.2 libboost1.81-doc libreoffice-help-ru lilypond-doc-html openjdk-17-doc postgresql-doc-15 "
    "python-django-doc python-scipy-doc qtbase5-doc-html racket-doc rust-doc sqlite3-doc wx3.2-doc"
).split()
MOST_PAGES = 1_500
ENDINGS = {".html", ".htm", ".xhtml"}
LEAST_BYTES, MOST_BYTES = 300, 2_000_000
HEADER = ("package", "pages", "dropped", "lost", "missed", "words gone")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the packages and write the document. Returns 1 if a package could not be downloaded."""
    parser = argparse.ArgumentParser("python -m bench.quality.manuals", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of packages (.deb)")
    parser.add_argument("--packages", nargs="+", metavar="NAME", default=PACKAGES, help="names of packages")
    parser.add_argument("--out", type=Path, default=DOCUMENT, help="the document (docs/measured/manuals.md)")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    rows, missing = [], []
    for name in options.packages:
        archive = _package_in(options.folder, name)
        if archive is None:
            missing.append(name)
            continue
        rows.append(_row(archive.stem, judge_package(name, archive)))
        print(*rows[-1], flush=True)
    options.out.write_text(_document(rows), "utf-8")
    for name in missing:
        print(f"{name} is not in {options.folder}, and apt-get cannot download it.", file=sys.stderr)
    return 1 if missing else 0


def judge_package(name: str, archive: Path) -> dict[str, Any]:
    """The counts of `spotsieve score` for the HTML pages of a package."""
    with tempfile.TemporaryDirectory() as scratch:
        pages = Path(scratch, "pages.jsonl")
        with pages.open("w", encoding="utf-8") as lines:
            for url, body in _pages_of(name, archive, Path(scratch, "files")):
                lines.write(json.dumps({"url": url, "body": body}) + "\n")
        command = [sys.executable, "-m", "spotsieve.stream", "score", "--json", str(pages)]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
    counts: dict[str, Any] = json.loads(found.stdout)["fresh_text"]
    return counts


def _package_in(folder: Path, name: str) -> Path | None:
    """The file of a package; it is downloaded if it is not there. None if that fails."""
    apt = shutil.which("apt-get")
    if apt is not None and not any(folder.glob(f"{name}_*.deb")):
        subprocess.run([apt, "download", name], cwd=folder, capture_output=True, check=False)
    return next(iter(sorted(folder.glob(f"{name}_*.deb"))), None)


def _pages_of(name: str, archive: Path, files: Path) -> Iterator[tuple[str, str]]:
    """URL and HTML of at most MOST_PAGES pages of a package, in the order of their paths."""
    subprocess.run(["dpkg-deb", "-x", str(archive), str(files)], check=True)
    paths = sorted(path for path in files.rglob("*") if path.suffix.lower() in ENDINGS and _is_page(path))
    for path in sorted(random.Random(5).sample(paths, min(len(paths), MOST_PAGES))):
        raw = path.read_bytes()
        try:
            body = raw.decode()
        except UnicodeDecodeError:
            body = raw.decode("latin-1")
        yield f"https://{name}.example/{path.relative_to(files).as_posix()}", body


def _is_page(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and LEAST_BYTES < path.stat().st_size < MOST_BYTES


def _row(package: str, counts: dict[str, Any]) -> list[str]:
    figures = (counts[name] for name in ("pages", "dropped", "lost", "missed", "words_gone"))
    return [package, *(f"{figure:,}" for figure in figures)]


def _document(rows: Sequence[Sequence[str]]) -> str:
    today = datetime.now(UTC).date()
    return f"""# Reference manuals

Written by `make manuals` on {today} (Python {platform.python_version()}): HTML documentation of Debian packages, at
most {MOST_PAGES:,} pages of each, drawn by a fixed seed, in the order of their paths. Each package is a host of its
own with a state of its own, under default settings. No threshold is fitted to these pages. They have no labels: a
page is lost if it was dropped although 40 % and 20 words of its main text are fresh, and missed if it was emitted
although an earlier page contains its main text ([Evaluate on your own pages](../evaluate.md)). Members that classes
share make many pages of a manual alike, so not each dropped page is a mistake, and neither is each missed one.

{table(HEADER, rows)}
"""


if __name__ == "__main__":
    sys.exit(main())
