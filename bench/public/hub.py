"""Downloads files of public data sets from the Hugging Face hub, each once."""

import fnmatch
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

HUB = "https://huggingface.co"
"""The environment variable HF_ENDPOINT names a mirror."""
TIMEOUT_S = 30


class DownloadError(Exception):
    """A data set that cannot be downloaded."""


def download(name: str, pattern: str, folder: Path) -> Sequence[Path]:
    """The files of a data set that match a pattern, in the folder. Raises DownloadError without network.

    name: owner/name on the hub  pattern: of the paths, with * and ?
    """
    hub = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    try:
        with urlopen(f"{hub}/api/datasets/{name}", timeout=TIMEOUT_S) as response:
            paths = [file["rfilename"] for file in json.load(response)["siblings"]]
        chosen = sorted(fnmatch.filter(paths, pattern))
        if not chosen:
            raise DownloadError(f"{hub}/datasets/{name} has no file {pattern}")
        return [
            _fetch(f"{hub}/datasets/{name}/resolve/main/{quote(path)}", folder / Path(path).name) for path in chosen
        ]
    except (URLError, OSError, ValueError, KeyError) as error:
        raise DownloadError(f"{hub}/datasets/{name} cannot be downloaded ({error})") from error


def _fetch(url: str, target: Path) -> Path:
    """Download a file under another name, and rename it when it is whole."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.partial")
        with urlopen(url, timeout=TIMEOUT_S) as response, partial.open("wb") as out:
            shutil.copyfileobj(response, out)
        partial.rename(target)
    return target
