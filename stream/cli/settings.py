"""The flags that all commands share: the configuration file, and settings on the command line."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.errors import SettingError

if TYPE_CHECKING:  # It takes .15 s to read the models of the settings, which --help must not wait for.
    from spotsieve.state.still.reading import ReadOnlyState
    from spotsieve.stream.settings.model import Settings


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """-c FILE and --set NAME=VALUE."""
    parser.add_argument("-c", "--config", type=Path, metavar="FILE", help="TOML file (see `spotsieve config example`)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="given",
        help="one setting, such as kafka.group_id=crawl; may be repeated; overrides file and environment",
    )


def add_scheme_arguments(parser: argparse.ArgumentParser) -> None:
    """--scheme NAME and --threshold VALUE, for commands that judge by settings of their own."""
    parser.add_argument(
        "--scheme", dest="chosen_scheme", metavar="NAME", help="what decides: --set scheme.name=NAME (spotsieve)"
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="VALUE",
        help="how strict the filter is: sets the scheme's main bar (of spotsieve scheme.min_alike, .5) and moves "
        "along the bars that go with it; of spotsieve a higher value drops less",
    )


def add_timeout_argument(parser: argparse.ArgumentParser) -> None:
    """Add --timeout, for commands that ask the process that works on a state."""
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long to wait for the process that works on the state (300)",
    )


def directory(text: str) -> Path:
    """A directory that a flag names. argparse refuses an empty name, which would be the current directory."""
    return Path(file_name(text))


def file_name(text: str) -> str:
    """A name that a flag gives. Raises argparse.ArgumentTypeError if it is empty, as an unset variable leaves it."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty; is a variable unset?")
    return text


def settings_of(
    options: argparse.Namespace,
    flags: Mapping[str, object] | None = None,
    stored: Mapping[str, object] | None = None,
) -> "Settings":
    """The settings: stored < file < environment < --set < the command's own flags. Raises SettingError.

    stored: the values that a state was made with, where they stand for those of a file
    """
    from spotsieve.stream.settings.load import load_chosen

    overrides: dict[str, object] = {}
    for assignment in options.given:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingError("--set", "must be NAME=VALUE", assignment, "such as --set kafka.group_id=crawl")
        overrides[name] = value
    overrides.update({name: value for name, value in (flags or {}).items() if value is not None})
    scheme, threshold = getattr(options, "chosen_scheme", None), getattr(options, "threshold", None)
    return load_chosen(options.config, os.environ, overrides, scheme, threshold, stored)


def settings_of_state(options: argparse.Namespace, state: "ReadOnlyState") -> "Settings":
    """The settings of the named configuration, which must be the state's; without one the state's own, and --set.

    Raises SettingError, StateError (another format), SettingsMismatch.
    """
    from spotsieve.state.identity import check_identity
    from spotsieve.stream.settings.load import stored_values
    from spotsieve.stream.settings.verdicts import verdict_settings_text

    text, log_name = state.identity.settings, state.identity.log
    settings = settings_of(options, stored=None if options.config else stored_values(text))
    check_identity(str(state.directory), state.identity, verdict_settings_text(settings), log_name)
    return settings
