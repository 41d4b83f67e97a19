"""`python -m bench.public` measures the filter beside its peers, and writes docs/measured/public.md and its picture."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.command import MEASURED, reports_errors, say
from bench.peers.filters import PEERS
from bench.public.datasets import PUBLIC
from bench.public.hub import DownloadError
from bench.public.labelled import prepare
from bench.public.measuring import ROUNDS, SetFigures, filters, measure_set
from bench.public.picture import draw
from bench.public.report import as_markdown, names_of, summarize
from bench.quality.sets import find_sets, load_set
from bench.speed.report import machine
from spotsieve.stream.base.errors import InputError

DOCUMENT = MEASURED / "public.md"
DATA = Path.home() / ".cache" / "spotsieve" / "public"
NO_SETS = "The labelled sets of development are not beside the repository."


@reports_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the sets that are there, and write the page from all figures. Returns 3 if there is no set at all."""
    parser = argparse.ArgumentParser("python -m bench.public", description="Compare the filter with its peers.")
    parser.add_argument("names", nargs="*", metavar="SET", help="only these sets (default: all)")
    parser.add_argument("--sets", nargs="+", type=Path, metavar="DIR", help="these labelled sets, and no others")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="(%(default)s)")
    parser.add_argument("--pages", type=int, metavar="N", help="the first pages of each set alone")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help="where public sets are (%(default)s)")
    parser.add_argument("--out", type=Path, default=DOCUMENT, metavar="FILE", help="(%(default)s)")
    options = parser.parse_args(arguments)
    return _compare(options)


def _compare(options: argparse.Namespace) -> int:
    stored = options.out.with_suffix(".json")
    kept: dict[str, Any] = {"sets": {}, "absent": []}
    if stored.exists():
        kept |= json.loads(stored.read_text("utf-8"))
    names, kept["missing"] = filters()
    for name, packages in kept["missing"].items():
        say(f"{name} is not installed here: {', '.join(packages)}")
    for folder in _folders(options, kept["absent"]):
        say(f"{folder.name} ...")
        labelled = load_set(folder, options.pages)
        figures = measure_set(labelled, names, options.rounds, say)
        on = f"{datetime.now(UTC).date().isoformat()} (commit {machine()['commit']})"
        found = SetFigures(len(labelled.pages), round(labelled.megabytes, 1), on, figures)
        kept["sets"][folder.name] = found.as_json()
        kept["machine"] = machine() | {"versions": _versions()}
        _keep(stored, kept)
    if not kept["sets"]:
        rule = "has no labelled set, and no public set can be had"
        raise InputError("../shared/data", rule, None, "name the folder of a labelled set with --sets")
    kept["absent"] = sorted(set(kept["absent"]) - set(kept["sets"]))
    _keep(stored, kept)
    page, picture = page_and_picture(kept, f"images/{options.out.stem}.svg")
    (options.out.parent / "images").mkdir(exist_ok=True)
    (options.out.parent / "images" / f"{options.out.stem}.svg").write_text(picture, "utf-8")
    options.out.write_text(page, "utf-8")
    say(f"{options.out} is written")
    return 0


def _keep(stored: Path, kept: Mapping[str, Any]) -> None:
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", "utf-8")


def _folders(options: argparse.Namespace, absent: list[str]) -> Iterator[Path]:
    """The sets to be measured. absent: gets the names of public sets that cannot be downloaded"""
    if options.sets:
        yield from options.sets
        return
    for name in PUBLIC:
        if not options.names or name in options.names:
            try:
                yield prepare(name, options.data)
            except DownloadError as error:
                absent.append(name)
                say(f"{name} is left out: {error}")
    beside = [folder for folder in find_sets() if not options.names or folder.name in options.names]
    if not beside and not options.names:
        say(NO_SETS)
    yield from beside


def page_and_picture(kept: Mapping[str, Any], picture: str) -> tuple[str, str]:
    """The page and the picture of stored figures. picture: its path from the page"""
    order = [*PUBLIC, *sorted(name for name in kept["sets"] if name not in PUBLIC)]
    sets = {name: SetFigures.of_json(kept["sets"][name]) for name in order if name in kept["sets"]}
    about = kept["machine"]
    measured = (
        f"{about['cores']} cores of {about['cpu']}, {about['system']}, Python {about['python']}. {about['versions']}"
    )
    page = as_markdown(sets, measured, picture, kept["absent"], kept["missing"])
    return page, draw([summarize(sets, name) for name in names_of(sets)])


def _versions() -> str:
    found = {package: shown for peer in PEERS.values() for package, shown in peer.versions.items() if shown}
    return ", ".join(f"{package} {shown}" for package, shown in sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())
