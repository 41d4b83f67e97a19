"""What several commands share: flags, settings, checks of output names, progress, labels, saved pages.

Everything that loads the state, Kafka or kernels is imported inside the functions, so that `--help` stays fast.
"""

import argparse
import contextlib
import math
import os
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.terminal import json_text, show

if TYPE_CHECKING:
    from spotsieve.state.store.state import State
    from spotsieve.stream.base.progress import OnProgress
    from spotsieve.stream.base.settings.model import Settings
    from spotsieve.stream.research.evaluation.choices import Choice
    from spotsieve.stream.research.labelling.estimates import ChoiceEstimate
    from spotsieve.stream.research.labelling.labels import Labels


# Flags

GREATEST_NUMBER = 2**63 - 1
"""Greater numbers do not fit into the integers of arrays and of Kafka's offsets."""
RARE = "rare"
"""The attribute of an option that --help leaves out."""


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """Add -c FILE and --set NAME=VALUE."""
    parser.add_argument(
        "-c", "--config", type=local_path, metavar="FILE", help="TOML file (see `spotsieve config example`)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="given",
        help="one setting, such as kafka.group_id=crawl; may be repeated; overrides file and environment",
    )


def add_scheme_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --scheme NAME and --threshold VALUE, for commands that judge pages with their own settings."""
    parser.add_argument(
        "--scheme",
        dest="chosen_scheme",
        metavar="NAME",
        help="the scheme that judges pages: --set scheme.name=NAME (spotsieve)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="VALUE",
        help="how strict the filter is: sets the main threshold of the scheme and adapts the thresholds that depend on "
        "it; of the scheme spotsieve this is scheme.min_containment (0.6), and a higher threshold drops fewer pages",
    )


def add_salt_argument(parser: argparse.ArgumentParser) -> None:
    """Add --salt-from, for commands that begin a new state."""
    parser.add_argument(
        "--salt-from",
        type=local_path,
        metavar="STATE",
        help="a new state adopts the salt of STATE, a state or snapshot (index.salt_from)",
    )


def add_against_argument(parser: argparse.ArgumentParser) -> None:
    """Add --against, for commands that filter files."""
    parser.add_argument(
        "--against",
        type=local_path,
        nargs="+",
        action="extend",
        default=[],
        metavar="STATE",
        help="drop pages that one of these states or snapshots contains; they are only read, and a new --state adopts "
        "the salt of the first one",
    )


def add_timeout_argument(parser: argparse.ArgumentParser) -> None:
    """Add --timeout, for commands that need a checkpoint from the process that uses a state."""
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="how long to wait for the process that uses the state (300)",
    )


def _seconds(text: str) -> float:
    return number_within(text, 0, sys.float_info.max, "a number of seconds from 0")


def number_within(text: str, least: float, most: float, rule: str) -> float:
    """The number that a flag has as its value. rule: what it must be  Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"must be {rule}, got {text!r}")
    return number


def whole_number_within(text: str, least: int, most: float, rule: str) -> int:
    """The whole number that a flag has as its value. rule: what it must be  Raises ArgumentTypeError."""
    # Python refuses to convert thousands of digits, with an error of its own.
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(GREATEST_NUMBER)) else -1
    if not least <= number <= min(most, GREATEST_NUMBER):
        raise argparse.ArgumentTypeError(f"must be {rule}, got {text!r}")
    return number


def add_text_argument(parser: argparse.ArgumentParser) -> None:
    """Add the flag --text."""
    parser.add_argument(
        "--text",
        action="store_true",
        help="JSONL and Parquet: add the main text of each page to --out, as spotsieve_main_text, and its text without "
        "template text of its host, as spotsieve_text_without_template",
    )


def add_force_argument(parser: argparse.ArgumentParser) -> None:
    """Add --force, for commands that write files."""
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")


def show_in_help_all(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Add --help-all, and leave these options out of --help."""
    for action in parser._actions:
        if not set(flags).isdisjoint(action.option_strings):
            setattr(action, RARE, True)
    parser.add_argument(
        "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="show all options, and exit"
    )


class _HelpAll(argparse.Action):
    """Prints the help with all options."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for action in parser._actions:
            vars(action).pop(RARE, None)
        parser.print_help()
        parser.exit()


def local_path(text: str) -> Path:
    """A file or directory named by a flag. Raises ArgumentTypeError as local_file()."""
    return Path(local_file(text))


def local_file(text: str) -> str:
    """A file or directory of this machine named by a flag. Raises ArgumentTypeError for an empty name and for a URL."""
    if "://" not in file_name(text):
        return text  # Most names do without the import of stream/files, which takes 0.1 s.
    from spotsieve.stream.files.remote import is_url, local_name

    if is_url(text):  # To Path, "s3://a/b" is the directory "s3:/a/b".
        raise argparse.ArgumentTypeError(f"must be on this machine, got the URL {text!r}; copy it here first")
    return local_name(text)


def file_name(text: str) -> str:
    """A file named by a flag. Raises ArgumentTypeError if the name is empty, as an unset shell variable leaves it."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty; is a variable unset?")
    return text


def check_stdin_name(options: argparse.Namespace) -> None:
    """Raises SettingError if --stdin-name is given and no file is standard input."""
    if options.stdin_name != "-" and "-" not in options.files:
        rule, then = "needs standard input among the files", "name it -, or leave --stdin-name out"
        raise SettingError("--stdin-name", rule, options.stdin_name, then)


def check_rereadable(flag: str, names: Sequence[str]) -> None:
    """Raises SettingError if one of the files, which are read several times, is standard input."""
    if "-" in names:
        raise SettingError(flag, "must be files that can be read again", "-", "write standard input to a file first")


# Settings

_warned = set[str]()
"""Warnings that were printed: a command may load its settings for each of many values."""


def settings_of(
    options: argparse.Namespace,
    flags: Mapping[str, object] | None = None,
    stored: Mapping[str, object] | None = None,
    config: Path | None = None,
) -> "Settings":
    """The settings of a command: stored < file < environment < --set < its own flags. Raises SettingError.

    flags: dotted name -> value of a flag; None if the flag was not given
    stored: dotted name -> value in the state, in place of a configuration file
    config: a file that replaces the one of -c
    """
    from spotsieve.stream.base.settings.load import load_chosen, misspelt_variables

    for warning in misspelt_variables(os.environ):
        if warning not in _warned:
            _warned.add(warning)
            report(options, warning)
    overrides: dict[str, object] = {}
    for assignment in options.given:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingError("--set", "must be NAME=VALUE", assignment, "such as --set kafka.group_id=crawl")
        overrides[name] = value
    overrides.update({name: value for name, value in (flags or {}).items() if value is not None})
    scheme, threshold = getattr(options, "chosen_scheme", None), getattr(options, "threshold", None)
    return load_chosen(config or options.config, os.environ, overrides, scheme, threshold, stored)


def other_states(options: argparse.Namespace, settings: "Settings", own: Path | None) -> "tuple[list[Path], Settings]":
    """The states of --against, each once, and the settings of a run against them (check_states).

    own: the directory of --state  Raises SettingError, StateError.
    """
    if not options.against:
        return [], settings
    from spotsieve.stream.local.against import check_states

    states, settings = check_states("--against", options.against, settings, own)
    if len(states) < len(options.against):
        show("spotsieve: --against names a state twice; it is read once", to=sys.stderr)
    return states, settings


def settings_of_state(options: argparse.Namespace, state: "State") -> "Settings":
    """The settings for a state: its own with --set, or those of -c FILE, which must agree with the state.

    Raises SettingError, StateError (another format), SettingsMismatch.
    """
    from spotsieve.state.identity import check_identity
    from spotsieve.stream.base.settings.digest import verdict_settings_text
    from spotsieve.stream.base.settings.load import stored_values

    text, log_name = state.identity.settings, state.identity.log
    settings = settings_of(options, stored=None if options.config else stored_values(text))
    check_identity(str(state.directory), state.identity, verdict_settings_text(settings), log_name)
    return settings


# Reports

SERVICES = frozenset({"run", "serve"})
"""The commands with a log. Their errors are lines of this log."""


def report(
    options: argparse.Namespace | None, text: str, exit_code: int | None = None, *, defect: bool = False
) -> None:
    """Print an error on standard error: a line of the log if a service writes JSON, else text after "spotsieve:".

    options: None if the arguments could not be parsed  exit_code: None for a warning
    defect: whether to add the traceback of the current exception; the text is then of the log only
    """
    if not _logs_json(options):
        show(*(traceback.format_exc().rstrip().split("\n") if defect else [f"spotsieve: {text}"]), to=sys.stderr)
        return
    from spotsieve.stream.base.settings.runtime import LogSettings
    from spotsieve.stream.observe.logs import configure_logs, logger

    configure_logs(LogSettings(format="json"))
    if exit_code is None:
        logger().warning(text)
    else:
        logger().error(text, exit_code=exit_code, exc_info=defect)


def _logs_json(options: argparse.Namespace | None) -> bool:
    """Whether the command is a service whose log is JSON. Other settings may be wrong: log.format is read alone."""
    if options is None or getattr(options, "command", None) not in SERVICES:
        return False
    found: object = os.environ.get("SPOTSIEVE_LOG__FORMAT")
    if found is None and options.config is not None:
        # A file that cannot be read or parsed is the error that is being reported.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found = tomllib.loads(options.config.read_text("utf-8")).get("log", {}).get("format")
    for assignment in options.given:
        name, _, value = assignment.partition("=")
        found = value if name == "log.format" else found
    return found == "json" or (found != "text" and not sys.stderr.isatty())


# Outputs


def check_names(
    names: Mapping[str, str | Path | None],
    files: Sequence[str],
    options: argparse.Namespace,
    states: Sequence[Path | None] = (),
) -> None:
    """Raises SettingError if outputs collide with inputs, the configuration, states, existing files or each other.

    An output and its NAME.partial must not be an input, the file of -c or another output, must be outside of all
    states, must not exist without --force, and standard output takes one output only, or that of --json.

    names: flag without dashes -> output  files: the inputs, names or places  options: the flags of the command
    states: directories of the states that the command uses; None is skipped
    """
    if not any(names.values()):
        return
    from spotsieve.stream.files.targets import place_of, places_of

    config = getattr(options, "config", None)
    taken = {place_of(str(file)): str(file) for file in (config, *files) if file and file != "-"}
    taken.update({"-": "--json"} if getattr(options, "json", False) else {})
    for flag, name in names.items():
        if not name:
            continue
        places = places_of(str(name))
        other = next((taken[place] for place in places if place in taken), None)
        if other is not None:
            raise SettingError(
                f"--{flag}", f"must not go to the same place as {other}", str(name), "choose another file"
            )
        check_outside(flag, places, states)
        taken.update(dict.fromkeys(places, f"--{flag}"))
    if not options.force:
        check_new(names)


def check_outside(flag: str, places: Sequence[str], states: Sequence[Path | None]) -> None:
    """Raises SettingError if a place of an output is a state directory, or is in one, where it could replace a file.

    states: directories; None is skipped
    """
    for state in filter(None, states):
        if any(Path(place).is_relative_to(state.resolve()) for place in places):
            rule, then = f"must be outside of the state {state}", "choose a place next to it"
            raise SettingError(f"--{flag}", rule, places[0], then)


def check_new(names: Mapping[str, str | Path | None]) -> None:
    """Raises SettingError if an output is an existing file. Pipes and devices may exist."""
    from spotsieve.stream.files.targets import output_exists

    for flag, name in names.items():
        if name and output_exists(str(name)):
            raise SettingError(
                f"--{flag}", "must be a new file", str(name), "choose another name, or overwrite this file with --force"
            )


@contextlib.contextmanager
def progress_line() -> "Iterator[OnProgress]":
    """Show the progress of a long step on standard error."""
    from spotsieve.stream.base.progress import ProgressLine

    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        yield line.update_step


def show_json(value: object) -> None:
    """Print a value as indented JSON."""
    show(*json_text(value, indent=2).split("\n"))


# Labels of a review (score --labels, calibrate --labels)


def reviewed(options: argparse.Namespace) -> "tuple[Labels, Settings]":
    """The labels and the settings, which must name the reviewed scheme. Raises InputError, SettingError."""
    from spotsieve.stream.research.labelling.labels import read_labels

    labels, settings = read_labels(Path(options.labels)), settings_of(options)
    if settings.scheme.name != labels.scheme:
        then = f"use --set scheme.name={labels.scheme}, or the configuration of the review: -c FILE"
        rule = f"must be {labels.scheme}, as in {options.labels}"
        raise SettingError("scheme.name", rule, settings.scheme.name, then)
    return labels, settings


def estimated(
    options: argparse.Namespace, labels: "Labels", settings: "Settings", choices: "Sequence[Choice]"
) -> "list[ChoiceEstimate]":
    """The estimated quality of each choice on the reviewed files. Raises InputError, SettingError."""
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.research.labelling.estimates import estimate

    names = [str(name) for name in getattr(options, "files", None) or options.sets]
    check_rereadable("FILES", names)
    inputs = check_inputs(names)
    with contextlib.closing(ProgressLine(sys.stderr, total_bytes(inputs))) as line:
        compile_for(choices, line.say)
        return estimate(inputs, settings, labels, choices, line.say)


def compile_for(choices: "Sequence[Choice]", say: Callable[[str], None]) -> None:
    """Compile the kernels of the schemes of these choices, if necessary. say: shows the progress"""
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.sign.schemes.registry import scheme_of

    for scheme in {choice.settings.scheme.name: choice.settings.scheme for choice in choices}.values():
        compile_kernels(scheme_of(scheme), say)


# Pages of the input topic (topics save, review --topic)

NEWEST_PAGES = 10_000
"""The default number of saved pages."""


def save_newest(settings: "Settings", file: str, pages: int) -> None:
    """Save the newest pages of the input topic to a file, about `pages` of them. An error leaves no file.

    Raises SettingError, BrokerError, BrokerTrouble.
    """
    import asyncio  # This would cost --help a tenth of a second.

    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.files.outputs import OutputFile
    from spotsieve.stream.insight.topics import save_pages
    from spotsieve.stream.observe.logs import configure_logs

    configure_logs(settings.log, of_a_command=True)
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        out = OutputFile(file)
        try:
            saved = asyncio.run(save_pages(settings, out, pages, line.say))
        except BaseException:
            out.discard()
            raise
        out.complete()
    show(f"{saved.pages:,} pages of {settings.topics.input} in {file}")
    if saved.others:
        show(f"  {saved.others:,} messages were skipped: they hold no text page")
