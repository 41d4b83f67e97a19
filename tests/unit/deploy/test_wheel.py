"""The wheel is one import name with its types and data; the source distribution has what the checks need beside it."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import tracked_names

INSTALLED = ("stream/", "state/")
WITHOUT_NETWORK = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
NAMESAKE = "stream-python"
"""A distribution whose import name is `stream`, as ours was once."""

RIGHT = """
from spotsieve import Deduplicator, DuplicateVerdict, Verdict
from spotsieve.stream.base.page import Page
from spotsieve.stream.sign.schemes.registry import scheme_of
from spotsieve.stream.base.settings.schemes import ChainSettings

page = Page("pages", 0, 7, "https://a.example/", b"<p>text", True, 0)
offset: int = page.offset
count: int = len(scheme_of(ChainSettings()).sign([page]))
with Deduplicator(scheme="spotsieve", index__horizon_hours=24, policy={"keep": "longest"}) as seen:
    verdicts: list[Verdict] = list(seen.add_many([(1, page.url, page.body)]))
for verdict in verdicts:
    url: str = verdict.original.url if verdict.is_duplicate else verdict.url
    score: float = verdict.score if verdict.kind == "duplicate" else 0.0
    duplicate: DuplicateVerdict | None = verdict if isinstance(verdict, DuplicateVerdict) else None
"""
README = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
WRONG = """
from spotsieve.stream.base.page import Page
from spotsieve.stream.sign.schemes.registry import scheme_of

Page("pages").offset
scheme_of("chain")
import spotsieve
spotsieve.Dedupe
spotsieve.Deduplicator().add(1.5, "", b"").kind == "other"
spotsieve.Deduplicator(index__horizon_hour=24)
spotsieve.Deduplicator(index__scope="planet")
spotsieve.Deduplicator(scheme="minhsh")
spotsieve.Deduplicator().add("a", "", "").original.url
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git knows: building leaves folders behind."""
    folder = tmp_path_factory.mktemp("sources")
    for name in tracked_names():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((REPOSITORY / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(sources, tmp_path_factory.mktemp("wheel"))


def wheel_of(sources: Path, folder: Path) -> Path:
    """Build the wheel of these sources in a folder that is empty."""
    command = [sys.executable, "-m", "pip", "wheel", *WITHOUT_NETWORK, "--wheel-dir", str(folder), str(sources)]
    subprocess.run(command, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def packed_sources(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in the source distribution, below its folder."""
    folder = tmp_path_factory.mktemp("sdist")
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=sources, check=True, capture_output=True)
    (built,) = folder.glob("*.tar.gz")
    with tarfile.open(built) as packed:
        return {name.partition("/")[2] for name in packed.getnames()}


def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))


def package_folders() -> dict[str, str]:
    """Package -> its folder, for those whose folder has another name."""
    found: dict[str, str] = project()["tool"]["setuptools"]["package-dir"]
    return found


def test_pyproject_names_every_package_folder_of_the_tree() -> None:
    folders = {path.parent for top in INSTALLED for path in (REPOSITORY / top).rglob("__init__.py")}
    named = {package: folder for package, folder in package_folders().items() if package != "spotsieve"}
    folders -= {REPOSITORY / folder for folder in named.values()}
    expected = {"spotsieve", *named}
    expected |= {".".join(("spotsieve", *folder.relative_to(REPOSITORY).parts)) for folder in folders}
    assert sorted(project()["tool"]["setuptools"]["packages"]) == sorted(expected)


def test_the_wheel_holds_every_file_of_its_packages_and_nothing_else(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {
        f"spotsieve/{name}".replace("stream/local/public_scrapy", "scrapy")
        for name in tracked_names()
        if name.startswith(INSTALLED) or name in ("__init__.py", "py.typed")
    }
    assert packed == expected


def test_the_source_distribution_holds_all_that_git_knows(packed_sources: set[str]) -> None:
    assert set(tracked_names()) - packed_sources == set()


def test_the_metadata_names_the_authors_and_the_tested_versions_of_python(wheel: Path) -> None:
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    about = Parser().parsestr(zipfile.ZipFile(wheel).read(name).decode())
    assert about["Author"] == "Spotsieve developers"
    named = [one.rpartition(" ")[2] for one in about.get_all("Classifier", []) if ":: Python :: 3." in one]
    assert named == ["3.11", "3.12", "3.13"]
    assert about["Requires-Python"] == f">={named[0]}"
    assert "Typing :: Typed" in about.get_all("Classifier", [])


class Environment:
    """A fresh virtual environment that has our dependencies, and of this project what is installed into it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        # A path alone: .pth files there, such as the one of our editable installation, are not followed.
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the sources."""
        inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
        program = [str(self._folder / "bin" / command[0]), *command[1:]]
        return subprocess.run(program, cwd=self._folder, env=inherited, capture_output=True, text=True, check=False)

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Our pip, on this environment."""
        return self.run("python", "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)

    def type_check(self, **programs: str) -> list[str]:
        """What `mypy --strict` of ours says of programs that import what is installed here: its lines."""
        for name, program in programs.items():
            (self._folder / f"{name}.py").write_text(program, "utf-8")
        options = ["--strict", "--config-file=", f"--python-executable={self._folder}/bin/python"]
        named = [f"{name}.py" for name in programs]
        return self.run("python", "-m", "mypy", *options, *named).stdout.splitlines()


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environment_with(wheel, tmp_path_factory.mktemp("environment"))


def environment_with(wheel: Path, folder: Path) -> Environment:
    """An environment with this wheel installed."""
    made = Environment(folder)
    done = made.pip("install", "--no-deps", "--no-index", "--ignore-installed", str(wheel))
    assert done.returncode == 0, done.stderr
    return made


SCRAPY = "from spotsieve.scrapy import Addon, DuplicateMiddleware\nprint(Addon, DuplicateMiddleware)\n"


@pytest.fixture(scope="module")
def type_errors(environment: Environment) -> dict[str, str]:
    """Program -> its lines of one `mypy --strict` over all of them, which loads the types once."""
    (readme,) = README
    polars = (REPOSITORY / "examples" / "polars_frame.py").read_text("utf-8")
    programs = {"right": RIGHT, "wrong": WRONG, "readme": readme, "polars_frame": polars, "scrapy_classes": SCRAPY}
    *lines, total = [line for line in environment.type_check(**programs) if ": note: " not in line]
    assert re.fullmatch(rf"Found {len(lines)} errors in 1 file \(checked {len(programs)} source files\)", total), lines
    found = {name: [line for line in lines if line.startswith(f"{name}.py:")] for name in programs}
    assert sum(map(len, found.values())) == len(lines)
    return {name: "\n".join(own_lines) for name, own_lines in found.items()}


@pytest.mark.timeout(900)
def test_a_user_s_type_checker_sees_the_types_of_the_installed_wheel(type_errors: dict[str, str]) -> None:
    assert type_errors["right"] == ""
    errors = type_errors["wrong"]
    assert "wrong.py:5: error: Missing positional arguments" in errors
    assert 'wrong.py:6: error: Argument 1 to "scheme_of" has incompatible type "str"' in errors
    assert 'wrong.py:8: error: Module has no attribute "Dedupe"' in errors
    assert 'wrong.py:9: error: Argument 1 to "add" of "Deduplicator" has incompatible type "float"' in errors
    assert "wrong.py:9: error: Non-overlapping equality check" in errors
    assert 'wrong.py:10: error: Unexpected keyword argument "index__horizon_hour"' in errors
    assert "wrong.py:11: error: Argument" in errors
    assert "wrong.py:12: error: Argument" in errors
    assert 'wrong.py:13: error: Item "None" of "Original | None" has no attribute "url"' in errors


def test_the_library_example_of_the_readme_passes_a_strict_type_check(type_errors: dict[str, str]) -> None:
    assert type_errors["readme"] == ""


def test_the_polars_example_passes_a_strict_type_check(type_errors: dict[str, str]) -> None:
    assert type_errors["polars_frame"] == ""


def test_the_scrapy_classes_are_installed_under_their_short_name(
    environment: Environment, type_errors: dict[str, str]
) -> None:
    code = "import spotsieve.scrapy as ours, scrapy; print(ours.__file__, ours.Addon.__name__, scrapy.__file__)"
    ours, name, theirs = environment.run("python", "-c", code).stdout.split()
    assert (ours.endswith("spotsieve/scrapy/__init__.py"), "/environment" in ours, name) == (True, True, "Addon")
    assert "spotsieve" not in theirs
    assert type_errors["scrapy_classes"] == ""


def test_the_installed_command_runs_away_from_the_sources(environment: Environment) -> None:
    found = environment.run("python", "-c", "import spotsieve.stream.cli as cli; print(cli.__file__)")
    assert "/environment" in found.stdout, found.stderr
    example = environment.run("spotsieve", "config", "example")
    assert "[kafka]" in example.stdout, example.stderr


def about_wheel(wheel: Path) -> dict[str, str]:
    """The fields of the WHEEL file."""
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/WHEEL")]
    return dict(Parser().parsestr(zipfile.ZipFile(wheel).read(name).decode()).items())


@pytest.fixture(scope="module")
def wheel_with_kernels(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of sources in which kernels were compiled, also by another Python."""
    subprocess.run([sys.executable, "-m", "spotsieve.stream.warm", "spotsieve"], cwd=REPOSITORY, check=True)
    folder = tmp_path_factory.mktemp("kernels")
    warmed = folder / "sources"
    shutil.copytree(sources, warmed)
    for compiled in (path for top in INSTALLED for path in (REPOSITORY / top).rglob("*.nb[ic]")):
        copy = warmed / compiled.relative_to(REPOSITORY)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(compiled, copy)
        shutil.copyfile(compiled, copy.with_name(copy.name.replace(OF_THIS_PYTHON, ".py310.")))
    (folder / "dist").mkdir()
    return wheel_of(warmed, folder / "dist")


OF_THIS_PYTHON = f".py{sys.version_info[0]}{sys.version_info[1]}."


def test_a_wheel_without_kernels_fits_every_python_and_one_with_kernels_its_own(
    wheel: Path, wheel_with_kernels: Path
) -> None:
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert about_wheel(wheel)["Tag"] == "py3-none-any"
    assert about_wheel(wheel)["Root-Is-Purelib"] == "true"
    assert about_wheel(wheel_with_kernels)["Tag"] == f"{python}-{python}-{platform}"
    assert about_wheel(wheel_with_kernels)["Root-Is-Purelib"] == "false"


def test_a_wheel_has_the_kernels_of_its_own_python_alone(wheel_with_kernels: Path) -> None:
    packed = [name for name in zipfile.ZipFile(wheel_with_kernels).namelist() if name.endswith((".nbi", ".nbc"))]
    expected = [path for top in INSTALLED for path in (REPOSITORY / top).rglob(f"*{OF_THIS_PYTHON}*nb[ic]")]
    assert len(packed) == len(expected)
    assert [name for name in packed if OF_THIS_PYTHON not in name] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_installed_wheel_with_kernels_compiles_none_at_its_first_use(
    wheel_with_kernels: Path, tmp_path: Path
) -> None:
    environment = environment_with(wheel_with_kernels, tmp_path / "environment")
    kernels = {path: path.stat().st_mtime_ns for path in (tmp_path / "environment").rglob("*.nb[ic]")}
    assert kernels
    page = tmp_path / "page.jsonl"
    page.write_text('{"url": "https://a.example/", "body": "<p>The old mill by the river will open again in spring."}')
    done = environment.run("spotsieve", "filter", str(page), "--state", str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "environment").rglob("*.nb[ic]")} == kernels


def test_a_namesake_of_our_folders_neither_hides_nor_breaks_the_command(environment: Environment) -> None:
    installed = environment.pip("install", "--no-deps", NAMESAKE)
    if installed.returncode != 0:
        pytest.skip(f"needs the package registry, for {NAMESAKE}: {installed.stderr.strip().splitlines()[-1][:120]}")
    ours = f"spotsieve {project()['project']['version']}"
    there = environment.run("python", "-c", "import stream; print(stream.__file__)")
    assert "/environment" in there.stdout, there.stderr
    assert environment.run("spotsieve", "--version").stdout.startswith(ours)
    assert environment.type_check(right=RIGHT)[-1].startswith("Success")
    assert environment.pip("uninstall", "-y", NAMESAKE).returncode == 0
    assert environment.run("spotsieve", "--version").stdout.startswith(ours)
    assert "[kafka]" in environment.run("spotsieve", "config", "example").stdout
