"""Owns `spotsieve state`: what a state directory holds."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve state`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    info = actions.add_parser(
        "info", help="print entries, log position, size and settings; a service may be running on it"
    )
    info.add_argument("directory", type=Path, metavar="DIR")
    info.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print what the directory says of itself."""
    from state.inspect import describe

    facts = describe(options.directory)
    settings = json.loads(facts.pop("verdict_settings"))
    if options.json:
        print(json.dumps({**facts, "verdict_settings": settings}, indent=2))
        return 0
    width = max(len(name) for name in (*facts, *settings)) + 2
    for name, value in facts.items():
        print(f"{name:<{width}} {value}")
    print("settings that change verdicts:")
    for name, value in settings.items():
        print(f"  {name:<{width - 2}} {json.dumps(value)}")
    return 0
