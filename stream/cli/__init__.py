"""The command line: finds the named command, runs it, and reports errors in one line."""

import argparse
import contextlib
import importlib
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

import spotsieve
from spotsieve.stream.base.errors import EXIT_DEFECT, EXIT_INTERRUPTED, EXIT_SETTING, SpotsieveError, StateError
from spotsieve.stream.base.terminal import discard_output, escape_control_characters, fill_closed_streams, show
from spotsieve.stream.cli.options import RARE, report

COMMANDS = {
    "run": "filter a Kafka topic until stopped (the service)",
    "filter": "filter files (JSONL, WARC, Parquet or standard input), without a broker",
    "backfill": "filter archives with many processes, on this machine or on a Ray cluster; resumes after a kill",
    "query": "print the verdict that each page of some files would get from a state; index nothing",
    "explain": "explain why a page was dropped or is novel, with both texts side by side",
    "serve": "look up pages over HTTP, for crawlers in other languages",
    "replay": "judge a topic again, next to the service, and compare with the recorded verdicts",
    "clusters": "list every page with its cluster of copies, from recorded verdicts; remove all copies",
    "migrate": "move the state of a service or a filter to other settings, next to the service, and switch over",
    "score": "filter labelled sets, and print precision, recall and lost pages",
    "sample": "make a labelled set for `score` from your own pages, with copies planted into their real templates",
    "review": "write pairs of your own pages, dropped pages and near misses, as an HTML page to label by eye",
    "top": "watch a running service: pages per second, dropped pages, lag, stages, hosts",
    "shards": "watch the shards of a service: progress, lag and the shard that is late; change their number",
    "demo": "try it: a real Kafka, a small crawl, dropped pages and the reasons",
    "topics": "create or check the topics of the service, or save pages of the input topic to a file",
    "model": "count the terms of a sample of pages, for the schemes that need term statistics",
    "calibrate": "find the best threshold from the labels of a review, or a table of sampling ratios from a sample",
    "config": "print every setting, or check a configuration",
    "completion": "print a script for bash, zsh, fish or tcsh that completes commands and options",
    "state": "inspect or verify a state, take and restore snapshots, forget pages, export and import",
}
"""Name -> description. Each command is a module of this package with add_arguments(parser) and run(options) -> exit
code, which is imported when the command is named."""
GROUPS = {
    "filter": ("filter", "backfill", "run", "serve", "demo"),
    "inspect": ("query", "explain", "clusters", "replay", "top"),
    "evaluate": ("score", "calibrate", "review", "sample", "model"),
    "operate": ("config", "topics", "state", "shards", "migrate", "completion"),
}
"""Heading of the help -> its commands."""
RENAMED = {"cluster": "shards"}
"""Former names of commands, for the "did you mean" hint: the most similar name may be another command."""

EPILOG = """exit codes: 0 done; 1 a defect of this program; 2 wrong setting or usage; 3 input that cannot be read or is
misread; 4 the state cannot be used, or an output cannot be written; 5 the broker cannot be reached or rejects a
request; 6 verdicts differ (replay --fail-on-difference); 7 a named page was not found (explain, state forget), or no
worker answers (top); 8 done, but the verdicts are suspicious (filter, backfill); 130 interrupted; 141 the reader of
standard output has gone"""

EXIT_BROKEN_PIPE = 141
"""The exit code of a program that SIGPIPE killed, in a shell."""


_REPEAT_SECONDS = 0.05
"""After this time an interrupt that Python ignored is repeated."""


@contextlib.contextmanager
def _repeat_interrupts() -> Iterator[None]:
    """Repeat an interrupt that comes in a destructor or in the callback of a weak reference.

    Python prints it there and goes on, so Ctrl-C would have no effect. Every import runs such callbacks.
    """
    before = sys.unraisablehook
    timers = list[threading.Timer]()

    def repeat(ignored: Any) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            # Later, because here it would be ignored again.
            main_thread = threading.main_thread().ident
            timer = threading.Timer(_REPEAT_SECONDS, signal.pthread_kill, (main_thread, signal.SIGINT))
            timer.daemon = True
            timers.append(timer)
            timer.start()
        else:
            before(ignored)

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in timers:  # The command has ended: an interrupt would hit the caller.
            timer.cancel()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process."""
    with _repeat_interrupts():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    fill_closed_streams()
    options: argparse.Namespace | None = None
    try:
        # Parsing is inside `try`: its imports take long enough for a person to press Ctrl-C.
        options = _parser(words).parse_args(words)
        if options.command is None:
            _parser([]).print_help()
            return EXIT_SETTING
        code = int(_module(options.command).run(options))
        show()  # Writes what is buffered.
        return code
    except SpotsieveError as error:
        # One line without a traceback: the cause is the input or the environment, not this program.
        report(options, str(error), error.exit_code)
        return error.exit_code
    except PermissionError as error:
        # Readers of inputs raise errors of their own, so this is a state or an output.
        denied = _permission_denied(error)
        report(options, str(denied), denied.exit_code)
        return denied.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        discard_output()  # Its reader (head, less) has gone.
        return EXIT_BROKEN_PIPE
    except Exception:
        # A defect of this program. Python would print the message unescaped, and it may quote a page.
        report(options, "stopped by an internal error", EXIT_DEFECT, defect=True)
        return EXIT_DEFECT


def _permission_denied(error: PermissionError) -> StateError:
    rule = f"cannot be used by this user: {error.strerror or error}"
    then = "run this command as its owner, or get permission to read and write it"
    return StateError(str(error.filename or "the state"), rule, None, then)


class _Parser(argparse.ArgumentParser):
    """Escapes error messages, because arguments can be file names of strangers (*), and adds hints to them."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help or the version like all output: argparse ignores it if standard output cannot be written."""
        if file is sys.stdout and message:
            show(*message.removesuffix("\n").split("\n"))
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        super().error(escape_control_characters(message))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Reject unknown arguments here, with the usage of the command; argparse would show the general usage."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            option = next((word for word in unknown if word.startswith("--")), "").partition("=")[0]
            near = _nearest(option[2:], [name[2:] for name in self._option_string_actions])
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean --{near}?" if near else ""))
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Reject an invalid choice with the most similar valid one, as for wrong settings."""
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            near = RENAMED.get(str(value)) or _nearest(str(value), words)
            hint = f"did you mean {near}?" if near else "--help describes each"
            raise argparse.ArgumentError(action, f"must be one of {', '.join(words)}, got {value!r}; {hint}")

    def format_usage(self) -> str:
        with self._without_rare_options():
            return super().format_usage()

    def format_help(self) -> str:
        with self._without_rare_options():
            return super().format_help()

    @contextlib.contextmanager
    def _without_rare_options(self) -> Iterator[None]:
        rare = [(action, action.help) for action in self._actions if hasattr(action, RARE)]
        for action, _ in rare:
            action.help = argparse.SUPPRESS
        try:
            yield
        finally:
            for action, about in rare:
                action.help = about


class _CommandsParser(_Parser):
    """Lists the commands in groups."""

    def format_help(self) -> str:
        commands = next(one for one in self._actions if isinstance(one, argparse._SubParsersAction))
        listed = {one.dest: one for one in commands._get_subactions()}
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for heading, names in GROUPS.items():
            formatter.start_section(heading)
            formatter.add_arguments([listed[name] for name in names])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([one for one in self._actions if one is not commands])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _nearest(word: str, words: Iterable[str]) -> str | None:
    import difflib  # Only after a mistake: it would cost --help some milliseconds.

    return next(iter(difflib.get_close_matches(word, words, n=1, cutoff=0.55)), None)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands. It imports only the named one: `config` needs no kernels, `filter` needs no Kafka."""
    named = next((word for word in words if not word.startswith("-")), None)
    return _parser_with([named] if named in COMMANDS else [])


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands with all flags, for shell completion and tests."""
    return _parser_with(list(COMMANDS))


def _parser_with(imported: Sequence[str | None]) -> argparse.ArgumentParser:
    """The parser of all commands.  imported: the commands whose flags are added"""
    parser = _CommandsParser(
        prog="spotsieve",
        description="A streaming near-duplicate filter for web crawlers.",
        epilog=EPILOG,
    )
    parser.add_argument("-V", "--version", action="version", version=f"spotsieve {spotsieve.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        if name in imported:
            _module(name).add_arguments(command)
    return parser


def _module(command: str) -> ModuleType:
    """The module of a command."""
    return importlib.import_module(f"spotsieve.stream.cli.{command}")
