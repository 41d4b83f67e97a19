"""The command line: it finds the command that a word names, runs it, and shows errors to people."""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, NoReturn

import spotsieve
from spotsieve.stream.base.errors import EXIT_DEFECT, EXIT_INTERRUPTED, EXIT_SETTING, SpotsieveError, StateError
from spotsieve.stream.base.terminal import escape_control_characters, show
from spotsieve.stream.cli.standard_streams import fill_closed_streams

COMMANDS = {
    "run": "filter a Kafka topic until stopped (the service)",
    "filter": "filter files: JSONL, WARC or standard input, without a broker",
    "backfill": "filter archives of files with many processes, here or on a Ray cluster; goes on after a kill",
    "query": "ask a state about pages of files: the verdict each would get; nothing is filed",
    "explain": "tell why a page was dropped or let through, with both texts side by side",
    "serve": "answer over HTTP whether pages are known, for crawlers in other languages",
    "replay": "judge a topic again, beside the service, and compare with the recorded verdicts",
    "clusters": "list every page with its cluster of copies, by recorded verdicts; drop all copies",
    "migrate": "move what a service or a filter remembers under other settings, beside the service, and switch over",
    "score": "filter labelled sets, and print precision, recall and what was lost",
    "sample": "make a labelled set of your own pages: copies are planted into their real templates, for score",
    "review": "write pairs of your own pages as an HTML page, to be judged by eye: dropped pages and near misses",
    "top": "watch a running service: pages a second, what is dropped, what waits, stages, hosts",
    "shards": "watch the shards of a service: progress, lag and the shard that is late; change their number",
    "demo": "see it work: a real Kafka, a small crawl, what is dropped and why",
    "topics": "create or check the topics that the service needs, or save pages of the input to a file",
    "model": "count the terms of a sample of pages: the frozen statistics that some schemes need",
    "calibrate": "find the threshold to take by the labels of a review, or a table of sampling ratios by a sample",
    "config": "print every setting, or check a configuration",
    "completion": "print a script that lets bash, zsh, fish or tcsh complete commands and options",
    "state": "look at a state directory, verify it, take and restore snapshots, forget pages, export and import",
}
"""Each command is a module of this package with add_arguments(parser) and run(options) -> exit code. Naming a command
imports its module."""
RENAMED = {"cluster": "shards"}
"""Former names of commands, for the "did you mean" hint: the most similar name may be another command."""

EPILOG = """exit codes: 0 done; 1 a defect of this program; 2 wrong setting or usage; 3 unreadable or misread input;
4 state cannot be used; 5 broker refuses or is not reached; 6 verdicts differ (replay --fail-on-difference);
7 something named is not there (explain, state forget), or no worker answers (top); 130 interrupted;
141 nobody reads standard output any longer"""

EXIT_BROKEN_PIPE = 141
"""The exit code that a shell shows for a program that SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the value is the process's exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    fill_closed_streams()
    try:
        # This stands inside `try` because the imports take long enough for a person to press Ctrl-C.
        options = _parser(given).parse_args(given)
        if options.command is None:
            _parser([]).print_help()
            return EXIT_SETTING
        code = int(_module(options.command).run(options))
        sys.stdout.flush()
        return code
    except SpotsieveError as error:
        # One line without a traceback: the user or the outside world is at fault, and not this program.
        show(f"spotsieve: {error}", to=sys.stderr)
        return error.exit_code
    except PermissionError as error:
        # Whatever opens an input names it, so this is a state or an output in a folder that is closed to this user.
        refused = _closed_to_us(error)
        show(f"spotsieve: {refused}", to=sys.stderr)
        return refused.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our standard output (head, less) has seen enough. Python's flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception:
        # This is a defect of ours. Python would print the message unescaped, and it may quote a page.
        show(*traceback.format_exc().rstrip().split("\n"), to=sys.stderr)
        return EXIT_DEFECT


def _closed_to_us(error: PermissionError) -> StateError:
    rule = f"cannot be used by this user: {error.strerror or error}"
    then = "run this as the user whom it belongs to, or ask that user for the right to read and write it"
    return StateError(str(error.filename or "the state"), rule, None, then)


class _Parser(argparse.ArgumentParser):
    """Refuses arguments in one line: a shell's * expands to file names, and strangers may have chosen these."""

    def error(self, message: str) -> NoReturn:
        super().error(escape_control_characters(message))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse what is left over where it was given: argparse would show the usage of no command."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            option = next((word for word in left if word.startswith("--")), "").partition("=")[0]
            near = _nearest(option[2:], [name[2:] for name in self._option_string_actions])
            self.error(f"unrecognized arguments: {' '.join(left)}" + (f"; did you mean --{near}?" if near else ""))
        return parsed, left

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a word that is not among an argument's choices, with the nearest one, as wrong settings are."""
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            near = RENAMED.get(str(value)) or _nearest(str(value), words)
            hint = f"did you mean {near}?" if near else "--help says what each does"
            raise argparse.ArgumentError(action, f"must be one of {', '.join(words)}, got {value!r}; {hint}")


def _nearest(word: str, words: Iterable[str]) -> str | None:
    import difflib  # only where something is wrong: it costs --help some milliseconds

    return next(iter(difflib.get_close_matches(word, words, n=1, cutoff=0.55)), None)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands. It imports only the named one: `config` needs no kernels, `filter` needs no Kafka."""
    named = next((word for word in given if not word.startswith("-")), None)
    return _parser_with([named] if named in COMMANDS else [])


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands with the flags of each, for what looks at all of them."""
    return _parser_with(list(COMMANDS))


def _parser_with(filled: Sequence[str | None]) -> argparse.ArgumentParser:
    """filled: the commands whose flags are wanted"""
    parser = _Parser(
        prog="spotsieve",
        description="A streaming near-duplicate filter for web crawlers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"spotsieve {spotsieve.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        if name in filled:
            _module(name).add_arguments(command)
    return parser


def _module(command: str) -> ModuleType:
    """The module of a command, with add_arguments and run."""
    return importlib.import_module(f"spotsieve.stream.cli.{command}")
