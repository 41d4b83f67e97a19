"""Builds a release into dist/: source distribution, wheels, list of packages (SBOM), checksums: `make release`.

    python -m bench.deploy.release [--trial] [PYTHON ...]

First it checks the sources: no uncommitted change, one version everywhere, and a dated section of that version in
CHANGELOG.md. `--trial` builds in spite of these faults, and names them.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.deploy import wheels

SBOM = "sbom.cdx.json"
CHECKSUMS = "SHA256SUMS"


def main(arguments: Sequence[str]) -> int:
    """Check, then build everything; the exit code."""
    parser = argparse.ArgumentParser("python -m bench.deploy.release", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="build although the sources are not a release")
    parser.add_argument("--schemes", nargs="*", default=[], metavar="NAME", help="compile these alone (default: all)")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="such as 3.12 (default: all supported)")
    options = parser.parse_args(arguments)
    found = list(faults(wheels.ROOT))
    for fault in found:
        wheels.say(fault)
    if found and not options.trial:
        wheels.say("nothing was built; --trial (make release ARGS=--trial) builds in spite of this")
        return 1
    try:
        for release in options.pythons or wheels.PYTHONS:
            wheels.interpreter_of(release)
        wheels.empty(wheels.DIST)
        wheels.build(options.pythons or wheels.PYTHONS, options.schemes)
        run_make_sbom()
    except wheels.ReleaseError as error:
        wheels.say(str(error))
        return 1
    write_checksums(wheels.DIST)
    wheels.say(f"dist/ has {', '.join(sorted(path.name for path in wheels.DIST.iterdir()))}")
    return 0


def faults(sources: Path) -> Iterator[str]:
    """Why the sources cannot be released, one sentence for each reason."""
    version = tomllib.loads((sources / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    for name, pattern in {"__init__.py": r'^__version__ = "(.*)"$', "CITATION.cff": r"^version: (.*)$"}.items():
        (named,) = re.findall(pattern, (sources / name).read_text("utf-8"), re.MULTILINE)
        if named != version:
            yield f"{name} has version {named}, and pyproject.toml has {version}. Write the same version into both."
    yield from changelog_faults((sources / "CHANGELOG.md").read_text("utf-8"), version)
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=sources, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if changed:
        yield f"Files have uncommitted changes, such as {changed[0][3:]}. Commit them."


def changelog_faults(changelog: str, version: str) -> Iterator[str]:
    """What CHANGELOG.md lacks of a section for the version: a heading with its date, and entries below it."""
    sections = re.findall(r"^## (\S+)(?: \(([^)\n]*)\))?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    heading = f"## {version} (YYYY-MM-DD)"
    section = next((found for found in sections if found[0] == version), None)
    if section is None:
        yield f"CHANGELOG.md has no section for {version}. Write one: {heading}"
        return
    _, date, entries = section
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        yield f"The section of {version} in CHANGELOG.md has no date, got {date!r}. Write {heading}"
    if not re.search(r"^- \S", entries, re.MULTILINE):
        yield f"The section of {version} in CHANGELOG.md has no entries. Say what changed for users."
    if sections[0][0] != version:
        yield f"CHANGELOG.md begins with {sections[0][0]}, not with {version}. The newest version comes first."


def run_make_sbom() -> None:
    """Put the list of packages beside the wheels. Raises ReleaseError."""
    wheels.say("list of packages")
    wheels.run(["make", "--no-print-directory", "sbom"], wheels.ROOT)
    (wheels.DIST / SBOM).write_bytes((wheels.ROOT / "out" / SBOM).read_bytes())


def write_checksums(folder: Path) -> None:
    """Write the SHA-256 of every file of the folder in the format of sha256sum."""
    files = sorted(path for path in folder.iterdir() if path.name != CHECKSUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / CHECKSUMS).write_text("".join(lines), "ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
