"""Builds the source distribution and a wheel for each Python, with compiled kernels: `make wheel`.

    python -m bench.deploy.wheels [--schemes NAME ...] [PYTHON ...]     such as 3.11 3.12

A wheel is built from the unpacked source distribution, in an environment with the locked packages of its Python. Its
kernels are object files in numba's cache. They fit one Python (numba stores Python objects beside them), one release of
numba, and the CPU level of stream/base/startup.py. Elsewhere they are ignored, and compiled at the first use.
"""

import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
WORK = ROOT / "build" / "wheels"
PYTHONS = ("3.11", "3.12", "3.13")
"""The supported releases of CPython, as in the classifiers of pyproject.toml."""
C_LIBRARY = frozenset({"log10", "memcpy", "memmove", "memset"})
"""Functions of the C library that kernels may call: glibc has had them in this version since its first x86-64 port."""
OF_RUNTIME = re.compile(r"_?Py|NRT_|numba_")
"""Names that CPython and numba define in the process."""
SYMBOL_TABLE, UNDEFINED = 2, 0
"""SHT_SYMTAB and SHN_UNDEF of ELF."""

FIRST_PAGE = """
import json, time
began = time.perf_counter()
from spotsieve import Deduplicator
from spotsieve.stream.engine.warmup import STORY
from numba.core import event
with event.install_recorder("numba:compile") as compiled, Deduplicator() as seen:
    kind = seen.add("first", "https://a.example/", STORY).kind
seconds = time.perf_counter() - began
print(json.dumps({"kind": kind, "seconds": round(seconds, 1), "compiled": len(compiled.buffer)}))
"""
OBJECTS = """
import pathlib, pickle, sys
import spotsieve.stream.local.library
for number, path in enumerate(sorted(pathlib.Path(sys.argv[1]).rglob("*.nbc"))):
    (_, kind, (code, _)), *_ = pickle.loads(path.read_bytes())
    assert kind == "object", (path, kind)
    (pathlib.Path(sys.argv[2]) / f"{number}.o").write_bytes(code)
"""
"""Writes the object files of all kernels below a folder into another one. numba must be there to read them."""


class ReleaseError(Exception):
    """A release cannot be built. The text says what is missing and what to do."""


def main(arguments: Sequence[str]) -> int:
    """Build everything; the exit code."""
    parser = argparse.ArgumentParser("python -m bench.deploy.wheels", description=__doc__)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="such as 3.12 (default: all that are installed)")
    parser.add_argument("--schemes", nargs="*", default=[], metavar="NAME", help="compile these alone (default: all)")
    options = parser.parse_args(arguments)
    try:
        build(options.pythons or installed_pythons(), options.schemes)
    except ReleaseError as error:
        say(str(error))
        return 1
    return 0


def build(pythons: Sequence[str], schemes: Sequence[str]) -> None:
    """Build the source distribution and the wheels into dist/. schemes: none for all. Raises ReleaseError."""
    interpreters = {release: interpreter_of(release) for release in pythons}
    sources = build_sdist()
    for release, interpreter in interpreters.items():
        build_wheel(release, interpreter, sources, schemes)


def installed_pythons() -> list[str]:
    """The supported releases that are installed here. Reports the others. Raises ReleaseError without any."""
    found = []
    for release in PYTHONS:
        try:
            interpreter_of(release)
        except ReleaseError as error:
            say(f"{error} Its wheel is left out.")
        else:
            found.append(release)
    if not found:
        raise ReleaseError(
            f"No Python of {', '.join(PYTHONS)} is installed here. Install one, or name it: PYTHONS=3.12"
        )
    return found


def interpreter_of(release: str) -> Path:
    """A Python of this release, from the path or pyenv. Raises ReleaseError."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    on_path = [Path(folder) / f"python{release}" for folder in os.get_exec_path()]
    for python in (*on_path, *sorted(versions.glob(f"{release}.*/bin/python"), reverse=True)):
        if python.is_file():
            code = "import sys; print('%d.%d' % sys.version_info[:2])"
            ran = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
            if ran.stdout.strip() == release:
                return python
    raise ReleaseError(f"Python {release} is not installed.")


def build_sdist() -> Path:
    """Build the source distribution of the files that git knows; -> the archive in dist/. Raises ReleaseError."""
    say("source distribution")
    sources = empty(WORK / "sources")
    for name in run(["git", "ls-files", "-z"], ROOT).rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, sources / name)
    built = empty(WORK / "sdist")
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run([sys.executable, "-c", code, str(built)], sources)
    return into_dist(next(built.glob("*.tar.gz")))


def build_wheel(release: str, interpreter: Path, archive: Path, schemes: Sequence[str]) -> Path:
    """Build the wheel of a Python with its kernels and try it; -> the file in dist/. Raises ReleaseError."""
    say(f"Python {release}: installing the locked packages")
    folder = empty(WORK / release)
    run([str(interpreter), "-m", "venv", str(folder / "venv")], folder)
    python = str(folder / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    # The scheme `concept` builds a model before its kernels run: the extra lsi.
    uv = [str(ROOT / ".venv" / "bin" / "uv"), "export", "--quiet", "--frozen", "--no-emit-project", "--no-annotate"]
    run([*uv, "--no-default-groups", "--group", "build", "--extra", "lsi", "-o", str(folder / "locked.txt")], ROOT)
    run([*pip, "install", "--require-hashes", "-r", str(folder / "locked.txt")], folder)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    # The folder of the sources is the package.
    sources = next(folder.glob("spotsieve-*")).rename(folder / "spotsieve")
    say(f"Python {release}: compiling the kernels, two to five minutes")
    run([python, "-m", "spotsieve.stream.warm", *schemes], folder, shown=True)
    audit(python, sources)
    built = empty(folder / "built")
    tag = f"--config-settings=--build-option=--plat-name={platform_tag(folder / 'venv')}"
    options = ["--no-deps", "--no-index", "--no-build-isolation", tag, "--wheel-dir", str(built)]
    run([*pip, "wheel", *options, str(sources)], folder)
    wheel = into_dist(next(built.glob("*.whl")))
    shutil.rmtree(sources)
    run([*pip, "install", "--no-deps", "--no-index", str(wheel)], folder)
    check_first_page(python, folder, wheel)
    return wheel


def platform_tag(environment: Path) -> str:
    """The platform of a wheel whose kernels run in llvmlite: that of the installed llvmlite. Raises ReleaseError.

    Kernels need nothing else of the platform, see audit().
    """
    about = next(environment.glob("lib/python*/site-packages/llvmlite-*.dist-info/WHEEL")).read_text("utf-8")
    tags = sorted(re.findall(r"^Tag: [^-]+-[^-]+-(\S+)$", about, re.MULTILINE))
    if not tags:
        raise ReleaseError("The installed llvmlite has no platform tag. Install it from a wheel.")
    return str(tags[-1])


def audit(python: str, folder: Path) -> None:
    """Check what the compiled kernels below a folder expect of a process. Raises ReleaseError.

    auditwheel does the same with shared libraries, and takes wheels without them for pure Python.
    """
    objects = empty(WORK / "objects")
    run([python, "-c", OBJECTS, str(folder), str(objects)], folder.parent)
    needed = {name for path in objects.iterdir() for name in undefined_symbols(path.read_bytes())}
    if not needed:
        raise ReleaseError(f"There are no compiled kernels in {folder}.")
    foreign = sorted(name for name in needed - C_LIBRARY if not OF_RUNTIME.match(name))
    if foreign:
        raise ReleaseError(
            f"Kernels call {', '.join(foreign)}, which neither CPython nor numba defines. Find out which version of "
            "the C library has them, and add them to C_LIBRARY if the platform tag allows it."
        )


def undefined_symbols(code: bytes) -> Iterator[str]:
    """The names that a 64-bit ELF object file expects the process to define (System V ABI, Object Files)."""
    (sections_at,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, sections_at + number * size) for number in range(count)]
    for _, kind, _, _, at, length, names, *_ in sections:
        if kind == SYMBOL_TABLE:
            for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", code[at : at + length]):
                if section == UNDEFINED and name:
                    start = sections[names][4] + name
                    yield code[start : code.index(0, start)].decode()


def check_first_page(python: str, folder: Path, wheel: Path) -> None:
    """Judge a first page with the installed wheel. Raises ReleaseError if a kernel was compiled for it."""
    result = json.loads(run([python, "-c", FIRST_PAGE], folder))
    if result["kind"] != "novel" or result["compiled"]:
        raise ReleaseError(f"{wheel.name} does not judge its first page with its own kernels: {result}")
    kernels = sum(name.endswith(".nbc") for name in zipfile.ZipFile(wheel).namelist())
    say(f"dist/{wheel.name}: {kernels} kernels, {wheel.stat().st_size / 1e6:.1f} MB, first page {result['seconds']} s")


def run(command: Sequence[str], folder: Path, *, shown: bool = False) -> str:
    """Run a program; -> its output. shown: what it writes to standard error appears. Raises ReleaseError."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    errors = None if shown else subprocess.PIPE
    ran = subprocess.run(
        command, cwd=folder, env=inherited, stdout=subprocess.PIPE, stderr=errors, text=True, check=False
    )
    if ran.returncode != 0:
        raise ReleaseError(f"{' '.join(command[:4])} ... failed in {folder}:\n{(ran.stderr or '').strip()[-2000:]}")
    return ran.stdout


def into_dist(built: Path) -> Path:
    """Move a built file to dist/."""
    DIST.mkdir(exist_ok=True)
    return Path(shutil.move(built, DIST / built.name))


def empty(folder: Path) -> Path:
    """The folder, without former contents."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def say(text: str) -> None:
    """Report a step on standard error."""
    print(f"spotsieve release: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
