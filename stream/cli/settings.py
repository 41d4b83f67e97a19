"""The flags that all commands share: the configuration file, and settings on the command line."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from spotsieve.stream.errors import SettingError
from spotsieve.stream.settings.load import load_settings
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


def directory(text: str) -> Path:
    """A directory that a flag names. argparse refuses an empty name, which would be the current directory."""
    return Path(file_name(text))


def file_name(text: str) -> str:
    """A name that a flag gives. Raises argparse.ArgumentTypeError if it is empty, as an unset variable leaves it."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty; is a variable unset?")
    return text


def settings_of(options: argparse.Namespace, flags: Mapping[str, object] | None = None) -> Settings:
    """The settings: file < environment < --set < the command's own flags. Raises SettingError."""
    overrides: dict[str, object] = {}
    for assignment in options.given:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingError("--set", "must be NAME=VALUE", assignment, "such as --set kafka.group_id=crawl")
        overrides[name] = value
    overrides.update({name: value for name, value in (flags or {}).items() if value is not None})
    return load_settings(options.config, os.environ, overrides)
