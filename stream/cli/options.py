"""The flags that all commands share: the configuration file, and settings on the command line.

Checks the names of outputs, for the commands that read files and write files.

Reads the labels that `score --labels` and `calibrate --labels` are given, and filters the files by settings.

Saves the newest pages of the input topic to a file, for `topics save` and `review --topic`.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.terminal import show

if TYPE_CHECKING:
    from spotsieve.state.store.state import State
    from spotsieve.stream.base.settings.model import Settings
    from spotsieve.stream.research.evaluation.choices import Choice
    from spotsieve.stream.research.labelling.estimates import ChoiceEstimate
    from spotsieve.stream.research.labelling.labels import Labels


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
    from spotsieve.stream.base.settings.load import load_chosen

    overrides: dict[str, object] = {}
    for assignment in options.given:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingError("--set", "must be NAME=VALUE", assignment, "such as --set kafka.group_id=crawl")
        overrides[name] = value
    overrides.update({name: value for name, value in (flags or {}).items() if value is not None})
    scheme, threshold = getattr(options, "chosen_scheme", None), getattr(options, "threshold", None)
    return load_chosen(options.config, os.environ, overrides, scheme, threshold, stored)


def settings_of_state(options: argparse.Namespace, state: "State") -> "Settings":
    """The settings of the named configuration, which must be the state's; without one the state's own, and --set.

    Raises SettingError, StateError (another format), SettingsMismatch.
    """
    from spotsieve.state.identity import check_identity
    from spotsieve.stream.base.settings.digest import verdict_settings_text
    from spotsieve.stream.base.settings.load import stored_values

    text, log_name = state.identity.settings, state.identity.log
    settings = settings_of(options, stored=None if options.config else stored_values(text))
    check_identity(str(state.directory), state.identity, verdict_settings_text(settings), log_name)
    return settings


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


def reviewed(options: argparse.Namespace) -> "tuple[Labels, Settings]":
    """The labels, and the settings, which must be of the scheme that was reviewed. Raises InputError, SettingError."""
    from spotsieve.stream.research.labelling.labels import read_labels

    labels, settings = read_labels(Path(options.labels)), settings_of(options)
    if settings.scheme.name != labels.scheme:
        then = f"--set scheme.name={labels.scheme}, or the configuration that was reviewed: -c FILE"
        rule = f"must be {labels.scheme}, as in {options.labels}"
        raise SettingError("scheme.name", rule, settings.scheme.name, then)
    return labels, settings


def estimated(
    options: argparse.Namespace, labels: "Labels", settings: "Settings", choices: "Sequence[Choice]"
) -> "list[ChoiceEstimate]":
    """What each choice is worth on the files that were reviewed. Raises InputError, SettingError."""
    from spotsieve.stream.base.progress import COMPILING, ProgressLine
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.research.labelling.estimates import estimate
    from spotsieve.stream.sign.schemes.registry import scheme_of

    names = [str(name) for name in getattr(options, "files", None) or options.sets]
    if "-" in names:
        raise SettingError("FILES", "must be files, which are read again", "-", "write standard input to a file first")
    inputs = check_inputs(names)
    with contextlib.closing(ProgressLine(sys.stderr, total_bytes(inputs))) as line:
        line.say(COMPILING)
        for scheme in {choice.settings.scheme.name: choice.settings.scheme for choice in choices}.values():
            compile_kernels(scheme_of(scheme))
        return estimate(inputs, settings, labels, choices, line.say)


NEWEST_PAGES = 10_000


def save_newest(settings: "Settings", file: str, most: int) -> None:
    """Save about `most` pages, and say how many. If it fails, nothing of the file stays.

    Raises SettingError, BrokerError, BrokerTrouble.
    """
    import asyncio  # --help takes a tenth of a second longer with it

    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.files.outputs import OutputFile
    from spotsieve.stream.insight.topics import save_pages
    from spotsieve.stream.observe.logs import configure_logs

    configure_logs(settings.log, of_a_command=True)
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        out = OutputFile(file)
        try:
            saved = asyncio.run(save_pages(settings, out, most, line.say))
        except BaseException:
            out.discard()
            raise
        out.complete()
    show(f"{saved.pages:,} pages of {settings.topics.input} in {file}")
    if saved.others:
        show(f"  {saved.others:,} messages are left out: they are no text page")
