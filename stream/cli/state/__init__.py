"""Assembles `spotsieve state`: a file of this folder for each of its commands."""

import argparse
from types import ModuleType

from spotsieve.stream.cli.state import export, forget, import_, info, merge, restore, snapshot, verify

COMMANDS: dict[str, ModuleType] = {
    "info": info,
    "verify": verify,
    "snapshot": snapshot,
    "restore": restore,
    "forget": forget,
    "export": export,
    "import": import_,
    "merge": merge,
}
"""Each has HELP, ABOUT, add_arguments(parser) and run(options) -> exit code."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, command in COMMANDS.items():
        action = actions.add_parser(name, help=command.HELP, description=command.ABOUT)
        command.add_arguments(action)
        action.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Run the named command and return its exit code."""
    return int(COMMANDS[options.action].run(options))
