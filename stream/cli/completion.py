"""`spotsieve completion` prints what makes a shell complete commands, options and names of files."""

import argparse
from collections.abc import Iterator

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.base.terminal import show

SHELLS = ("bash", "zsh", "fish", "tcsh")
FILES = ("FILE", "MODEL", "TARGET")
FOLDERS = ("DIR", "SET", "SNAPSHOT")
ABOUT = """bash: spotsieve completion bash > ~/.local/share/bash-completion/completions/spotsieve. zsh: spotsieve
completion zsh > ~/.zsh/_spotsieve, in a folder of fpath. tcsh: spotsieve completion tcsh, from a file that .tcshrc
sources. fish: spotsieve completion fish > ~/.config/fish/completions/spotsieve.fish. Do it again after an upgrade."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve completion`."""
    parser.epilog = ABOUT
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    """Print the script; the exit code."""
    import shtab

    from spotsieve.stream.cli import whole_parser

    parser = whole_parser()
    for action in _actions(parser):
        wanted = action.metavar if isinstance(action.metavar, str) else ""
        if wanted in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
        elif wanted in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    show(*shtab.complete(parser, options.shell).split("\n"))
    return EXIT_OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of a parser and of the commands below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
