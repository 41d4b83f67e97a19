"""Prints what the commands of `spotsieve state` have in common: JSON, the manifest of a snapshot, progress."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spotsieve.stream.base.progress import OnProgress, ProgressLine
from spotsieve.stream.base.terminal import show

if TYPE_CHECKING:
    from spotsieve.state.snapshot.snapshots import Manifest


@contextlib.contextmanager
def progress_line() -> Iterator[OnProgress]:
    """Show what is done, and how much of it, on standard error if that is a terminal."""
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        yield line.update_step


def show_json(fields: dict[str, Any]) -> None:
    """Print JSON over several lines."""
    show(*json.dumps(fields, indent=2).split("\n"))


def show_manifest(manifest: "Manifest", done: str, as_json: bool) -> None:
    """Print what a snapshot holds. done: what was done with it"""
    if as_json:
        facts = dataclasses.asdict(manifest)
        show_json({**facts, "settings": json.loads(manifest.settings)})
        return
    size = sum(facts.bytes for facts in manifest.files)
    show(
        f"{done} from record {manifest.log_position} of the log {manifest.log!r}: {manifest.entries:,} entries, "
        f"{len(manifest.files)} files, {size:,} bytes"
    )


def totals(facts: dict[str, Any]) -> str:
    """Return in words how much an export holds."""
    return (
        f"record {facts['log_position']} of the log {facts['log']!r}, {facts['entries']:,} entries, "
        f"{facts['buckets']:,} buckets, {facts['postings']:,} postings"
    )
