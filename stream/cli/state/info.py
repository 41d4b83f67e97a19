"""Runs `spotsieve state info`: prints what a state directory holds."""

import argparse
import json
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.state.output import show_json

HELP = "print entries, log position, size and settings; a service may be running on it"
ABOUT = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state info`."""
    parser.add_argument("directory", type=Path, metavar="DIR")


def run(options: argparse.Namespace) -> int:
    """Print what the directory says of itself, and return the exit code."""
    from spotsieve.state.still.reading import describe

    facts = describe(options.directory)
    settings = json.loads(facts.pop("verdict_settings"))
    if options.json:
        show_json({**facts, "verdict_settings": settings})
        return EXIT_OK
    width = max(len(name) for name in (*facts, *settings)) + 2
    for name, value in facts.items():
        show(f"{name:<{width}} {value}")
    show("settings that change verdicts:")
    for name, value in settings.items():
        show(f"  {name:<{width - 2}} {json.dumps(value)}")
    return EXIT_OK
