"""`make release` refuses sources that are no release, and its wheels say for which machines their kernels are."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bench.deploy import release, wheels
from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import tracked_names

DATED = "# Changelog\n\n## 1.2.0 (2026-11-29)\n\n### Added\n\n- A thing.\n\n## 1.1.0 (2026-01-01)\n\n- Another.\n"
NEEDED_BY_KERNELS = {"memcpy", "PyErr_Clear", "_Py_NoneStruct", "NRT_Free", "numba_unpickle"}


def test_a_dated_section_with_entries_is_accepted() -> None:
    assert list(release.changelog_faults(DATED, "1.2.0")) == []


@pytest.mark.parametrize(
    ("changelog", "version", "fault"),
    [
        (DATED, "1.3.0", "no section for 1.3.0"),
        (DATED, "1.2", "no section for 1.2."),
        (DATED.replace("2026-11-29", "unreleased"), "1.2.0", "has no date, got 'unreleased'"),
        (DATED.replace(" (2026-11-29)", ""), "1.2.0", "has no date, got ''"),
        (DATED.replace("- A thing.\n", ""), "1.2.0", "has no entries"),
        (DATED, "1.1.0", "begins with 1.2.0"),
    ],
)
def test_a_changelog_that_does_not_describe_the_version_is_refused(changelog: str, version: str, fault: str) -> None:
    (found,) = release.changelog_faults(changelog, version)
    assert fault in found


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A git work tree with the files that hold the version."""
    for name in ("pyproject.toml", "__init__.py", "CITATION.cff"):
        (tmp_path / name).write_bytes((REPOSITORY / name).read_bytes())
    version = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    (tmp_path / "CHANGELOG.md").write_text(DATED.replace("1.2.0", version), "utf-8")
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "Release"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_committed_sources_of_one_version_are_a_release(sources: Path) -> None:
    assert list(release.faults(sources)) == []


@pytest.mark.parametrize("name", ["__init__.py", "CITATION.cff"])
def test_another_version_in_a_file_and_a_change_that_is_not_committed_are_named(sources: Path, name: str) -> None:
    path = sources / name
    path.write_text(re.sub(r"(version\S*(?: =)? \"?)0\.1\.0", r"\g<1>9.9.9", path.read_text("utf-8")), "utf-8")
    version, change = release.faults(sources)
    assert version.startswith(f"{name} has version 9.9.9")
    assert change.startswith(f"Files have uncommitted changes, such as {name}")


def test_the_command_builds_nothing_of_sources_that_are_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object) -> None:
        raise AssertionError("it was built")

    monkeypatch.setattr(wheels, "build", build)
    monkeypatch.setattr(wheels, "empty", build)
    monkeypatch.setattr(release, "faults", lambda _: iter(["CHANGELOG.md has no section"]))
    assert release.main([]) == 1


def test_checksums_are_those_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    for _ in range(2):  # The second time, the list itself is there.
        release.write_checksums(tmp_path)
    expected = f"{hashlib.sha256(b'a').hexdigest()}  a.whl\n"
    assert (tmp_path / release.CHECKSUMS).read_text("ascii") == expected


def test_the_symbols_that_an_object_file_needs_are_read(tmp_path: Path) -> None:
    kernels = list(REPOSITORY.glob("stream/sign/text/__pycache__/*.nbc"))
    assert kernels, "make setup compiles them"
    ran = subprocess.run(
        [sys.executable, "-c", wheels.OBJECTS, str(kernels[0].parent), str(tmp_path)], check=True, cwd=REPOSITORY
    )
    assert ran.returncode == 0
    needed = {name for path in tmp_path.iterdir() for name in wheels.undefined_symbols(path.read_bytes())}
    assert NEEDED_BY_KERNELS - {"memcpy", "_Py_NoneStruct"} <= needed


@pytest.mark.parametrize("symbol", ["pow", "cblas_dgemm", "my_NRT_Free"])
def test_a_kernel_that_needs_a_function_of_another_library_fails_the_audit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, symbol: str
) -> None:
    def write_objects(command: list[str], _: Path) -> str:
        (Path(command[-1]) / "0.o").write_text("\n".join([*NEEDED_BY_KERNELS, symbol]))
        return ""

    monkeypatch.setattr(wheels, "WORK", tmp_path)
    monkeypatch.setattr(wheels, "run", write_objects)
    monkeypatch.setattr(wheels, "undefined_symbols", lambda code: code.decode().split())
    with pytest.raises(wheels.ReleaseError, match=f"Kernels call {symbol}, "):
        wheels.audit("python", tmp_path)
    monkeypatch.setattr(wheels, "undefined_symbols", lambda _: NEEDED_BY_KERNELS)
    wheels.audit("python", tmp_path)
    monkeypatch.setattr(wheels, "undefined_symbols", lambda _: ())
    with pytest.raises(wheels.ReleaseError, match="no compiled kernels"):
        wheels.audit("python", tmp_path)


@pytest.mark.parametrize(("compiled", "kind"), [(1, "novel"), (0, "duplicate")])
def test_a_wheel_whose_first_page_is_not_judged_by_its_own_kernels_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: int, kind: str
) -> None:
    outcome = {"kind": kind, "seconds": 1.0, "compiled": compiled}
    monkeypatch.setattr(wheels, "run", lambda *_: json.dumps(outcome))
    with pytest.raises(wheels.ReleaseError, match="does not judge its first page"):
        wheels.check_first_page("python", tmp_path, tmp_path / "some.whl")


def test_the_first_page_of_the_check_is_novel_and_counts_compiled_kernels() -> None:
    ran = subprocess.run([sys.executable, "-c", wheels.FIRST_PAGE], capture_output=True, text=True, check=True)
    outcome = json.loads(ran.stdout)
    assert (outcome["kind"], outcome["compiled"]) == ("novel", 0)


def test_a_missing_python_is_named_and_the_others_are_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setattr(wheels, "PYTHONS", (here, "3.99"))
    assert wheels.installed_pythons() == [here]
    assert "Python 3.99 is not installed. Its wheel is left out." in capsys.readouterr().err


def test_the_supported_releases_are_those_of_the_classifiers_and_of_cibuildwheel() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    classifiers = [line.rpartition(" ")[2] for line in project["project"]["classifiers"] if ":: Python :: 3." in line]
    assert list(wheels.PYTHONS) == classifiers
    built = project["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{release.replace('.', '')}-*" for release in wheels.PYTHONS]
    assert "setup.py" in tracked_names()
