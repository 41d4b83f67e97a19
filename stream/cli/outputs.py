"""Checks the names of outputs, for the commands that read files and write files."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from spotsieve.stream.errors import SettingError


def add_force_argument(parser: argparse.ArgumentParser) -> None:
    """--force, for commands that write files."""
    parser.add_argument("--force", action="store_true", help="overwrite outputs that are there already")


def check_names(
    names: Mapping[str, str | Path | None], files: Sequence[str], json_wanted: bool, overwrite: bool
) -> None:
    """Raises SettingError if an output or its NAME.partial is an input or another output, if it is there already and
    may not be overwritten, or if standard output would take two things.

    names: of outputs, by their flags without dashes  files: what is read, as it was named or by its place
    """
    if not any(names.values()):
        return
    from spotsieve.stream.files.targets import place_of, places_of

    taken = {place_of(file): file for file in files if file != "-"}
    taken.update({"-": "--json"} if json_wanted else {})
    for flag, given in names.items():
        if not given:
            continue
        places = places_of(str(given))
        other = next((taken[place] for place in places if place in taken), None)
        if other is not None:
            raise SettingError(
                f"--{flag}", f"must not be written where {other} already is", str(given), "choose another file"
            )
        taken.update(dict.fromkeys(places, f"--{flag}"))
    if not overwrite:
        check_new(names)


def check_new(names: Mapping[str, str | Path | None]) -> None:
    """Raises SettingError if an output is a file that is there already; pipes and devices may be."""
    from spotsieve.stream.files.targets import output_exists

    for flag, name in names.items():
        if name and output_exists(str(name)):
            raise SettingError(
                f"--{flag}", "must be a new file", str(name), "name another, or overwrite this one with --force"
            )
