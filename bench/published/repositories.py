"""Reads files of public repositories, from clones in a folder; clones that are missing are made where there is network.

Nothing of these repositories is part of this project. docs/measured names the commit of each.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CLONES = Path.home() / ".cache" / "spotsieve" / "published"
_HOST = "https://github.com"


class Repository(NamedTuple):
    """A public repository. name: owner/name

    files: a pattern of the paths that are read
    folders: the only folders of a large repository that are cloned; empty for all
    commit: the commit that is read, if it is not the newest
    """

    name: str
    files: str
    folders: tuple[str, ...] = ()
    commit: str = "HEAD"


class RepositoryFile(NamedTuple):
    """A file of a repository. place: repository and path"""

    place: str
    content: bytes


def commit_of(repository: Repository, clones: Path) -> str | None:
    """The commit that is read, shortened; None if there is no clone of the repository and none can be made."""
    git = _find(repository, clones) or _clone(repository, clones)
    return _run(git, "rev-parse", "--short=12", repository.commit).decode().strip() if git else None


def files_of(repository: Repository, clones: Path) -> Iterator[RepositoryFile]:
    """The files of a repository that match its pattern, in the order of their paths. A clone may lack large files."""
    git = _find(repository, clones)
    if git is None:
        return
    paths = _run(git, "ls-tree", "-r", "-z", "--name-only", repository.commit).decode().split("\0")
    for path in sorted(filter(re.compile(repository.files).search, paths)):
        try:
            yield RepositoryFile(f"{repository.name}/{path}", _run(git, "show", f"{repository.commit}:{path}"))
        except subprocess.CalledProcessError:
            print(f"{repository.name}/{path}: not in the clone")


def _find(repository: Repository, clones: Path) -> Path | None:
    owner, name = repository.name.split("/")
    places = (clones / one / below for one in (f"{owner}+{name}", name) for below in ("repo", ".git", "."))
    return next((place for place in places if (place / "HEAD").is_file()), None)


def _clone(repository: Repository, clones: Path) -> Path | None:
    clones.mkdir(parents=True, exist_ok=True)
    target = clones / repository.name.replace("/", "+")
    depth = () if repository.commit != "HEAD" else ("--depth=1",)
    sparse = ("--filter=blob:none", "--sparse") if repository.folders else ()
    command = ["git", "clone", "--quiet", *depth, *sparse, f"{_HOST}/{repository.name}.git", str(target)]
    if subprocess.run(command, check=False).returncode:
        return None
    if repository.folders:
        subprocess.run(["git", "-C", str(target), "sparse-checkout", "set", *repository.folders], check=True)
    return target / ".git"


def _run(git: Path, *arguments: str) -> bytes:
    command = ["git", f"--git-dir={git}", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
