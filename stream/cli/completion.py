"""`spotsieve completion` prints a script that makes a shell complete commands, options and file names."""

import argparse
from collections.abc import Iterator

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.base.terminal import show

SHELLS = ("bash", "zsh", "fish", "tcsh")
FILES = ("FILE", "MODEL", "TARGET")
FOLDERS = ("DIR", "SET", "SNAPSHOT")
ABOUT = """bash: spotsieve completion bash > ~/.local/share/bash-completion/completions/spotsieve. zsh: spotsieve
completion zsh > ~/.zsh/_spotsieve, in a folder of fpath. tcsh: spotsieve completion tcsh, from a file that .tcshrc
sources. fish: spotsieve completion fish > ~/.config/fish/completions/spotsieve.fish. Repeat this after an upgrade."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument of `spotsieve completion`."""
    parser.epilog = ABOUT
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    """Print the script and return the exit code."""
    import shtab

    from spotsieve.stream.cli import whole_parser

    parser = whole_parser()
    for action in _actions(parser):
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab reads this attribute
        elif metavar in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    show(*shtab.complete(parser, options.shell).split("\n"))
    return EXIT_OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
