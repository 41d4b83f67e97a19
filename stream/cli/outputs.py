"""Checks the names of outputs, for the commands that read files and write files."""

from collections.abc import Sequence
from pathlib import Path

from spotsieve.stream.errors import SettingError


def check_names(names: dict[str, str | None], files: Sequence[str], json_wanted: bool) -> None:
    """Raises SettingError if an output is an input or another output, or standard output would take two things."""
    taken = {_identity(file): file for file in files if file != "-"}
    taken.update({"-": "--json"} if json_wanted else {})
    for flag, name in names.items():
        if not name:
            continue
        other = taken.get(_identity(name))
        if other is not None and not (Path(name).exists() and not Path(name).is_file()):
            raise SettingError(
                f"--{flag}", f"must not be written where {other} already is", name, "choose another file"
            )
        taken[_identity(name)] = f"--{flag}"


def _identity(name: str) -> str:
    return name if name == "-" else str(Path(name).resolve())
