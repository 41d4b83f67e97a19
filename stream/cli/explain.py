"""`spotsieve explain` prints why a page was dropped or is novel: its candidates, and each threshold with its value."""

import argparse
import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK, NotFoundError, SettingError
from spotsieve.stream.base.terminal import as_utf8, json_text, show, show_styled, wants_colour
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_scheme_arguments,
    add_settings_arguments,
    add_timeout_argument,
    check_names,
    check_rereadable,
    file_name,
    local_file,
    local_path,
    settings_of,
    settings_of_state,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spotsieve.state.store.state import State
    from spotsieve.stream.base.page import Page
    from spotsieve.stream.base.settings.model import Settings
    from spotsieve.stream.files.inputs import Input
    from spotsieve.stream.insight.explain.explanation import Explanation
    from spotsieve.stream.insight.explain.page_lookup import RecordedVerdict

MAX_COLUMNS = 98

ABOUT = """PAGE is the URL or id of a page that the state has judged or that is in the files of --pages, or the name of
a file: a page itself (HTML or text, with its URL as --url), one page in any format of `spotsieve filter`, a verdict
line, or a report of the topic of duplicates; - is standard input. With --state, the page is compared with the pages of
the state; DIR is a state that may be in use, or a snapshot, and is not changed. Without --state, OTHER or the pages
before PAGE in the files of --pages are judged first, in memory. A state holds signatures and no texts: --pages provides
the texts. A novel page is shown next to the most similar page, with the missed thresholds. Exit codes: 0 explained; 2
wrong setting or usage; 3 a file that cannot be read; 4 the state cannot be used; 7 the page was not found; 130
interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve explain`."""
    parser.epilog = ABOUT
    parser.add_argument("page", type=file_name, metavar="PAGE", help="a URL, an id, or a file")
    parser.add_argument("other", type=file_name, nargs="?", metavar="OTHER", help="compare PAGE with this page")
    parser.add_argument("--state", type=local_path, metavar="DIR", help="a state directory, or a snapshot")
    parser.add_argument(
        "--pages", nargs="+", action="extend", default=[], metavar="FILE", help="files of pages, for their texts"
    )
    parser.add_argument("--url", default="", metavar="URL", help="the URL of PAGE, if PAGE is a page itself")
    parser.add_argument("--other-url", default="", metavar="URL", help="the URL of OTHER, if OTHER is a page itself")
    parser.add_argument(
        "--html", type=local_file, metavar="FILE", help="also write an HTML page with both texts side by side"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_timeout_argument(parser)
    parser.add_argument(
        "--verdicts",
        type=local_file,
        metavar="FILE",
        help="verdict lines, or the verdicts of backfill: also print the recorded verdict",
    )
    add_force_argument(parser)
    add_scheme_arguments(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Explain one page and return the exit code."""
    if options.other_url and (options.other is None or options.state):
        rule = "needs the file OTHER" if options.other is None else "must not be used with --state, which has OTHER"
        raise SettingError(
            "--other-url", rule, options.other_url, "add OTHER without --state, or leave --other-url out"
        )
    inputs = [name for name in (options.page, options.other, *options.pages, options.verdicts) if name]
    check_names({"html": options.html}, inputs, options, [options.state])
    if options.html == "-":
        raise SettingError("--html", "must be a file", "-", "choose a new file, such as why.html")
    if options.html:
        _check_jinja()
    explanation = _explained(options)
    if options.html:
        from spotsieve.stream.insight.explain.rendering import html_page

        try:
            Path(options.html).write_text(html_page(explanation), encoding="utf-8")
        except OSError as error:
            rule = f"cannot be written: {error.strerror}"
            raise SettingError("--html", rule, options.html, "choose a file that can be written") from None
    if options.json:
        from spotsieve.stream.insight.explain.rendering import as_json

        show(json_text(as_json(explanation)))
        return EXIT_OK
    from spotsieve.stream.insight.explain.rendering import as_text

    columns = min(shutil.get_terminal_size((MAX_COLUMNS, 24)).columns, MAX_COLUMNS)
    show_styled(as_text(explanation, columns), colour=wants_colour(sys.stdout, os.environ))
    if options.html:
        show(f"The texts side by side: {Path(options.html).resolve().as_uri()}")
    return EXIT_OK


def _explained(options: argparse.Namespace) -> "Explanation":
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.base.startup import quick_start

    files = _inputs(options.pages)
    line = ProgressLine(sys.stderr, None)
    with contextlib.closing(line):
        line.say("reading the kernels from a cache; the first time they are compiled, which takes up to a minute")
        quick_start()
        if options.state is None:
            return _without_state(options, files)
        from spotsieve.state.still.reading import read_only_state

        with read_only_state(options.state, options.timeout, line.update_step) as state:
            return _in_state(options, files, state)


def _inputs(names: "Sequence[str]") -> "Sequence[Input]":
    """The files of --pages, which are read twice. Raises SettingError, InputError."""
    if not names:
        return ()
    check_rereadable("--pages", names)
    from spotsieve.stream.files import check_inputs

    return check_inputs(names)


def _in_state(options: argparse.Namespace, files: "Sequence[Input]", state: "State") -> "Explanation":
    """Explain a page by the pages of a state."""
    from spotsieve.stream.insight.explain.context import (
        ExplainContext,
        ExplainSubject,
        explain,
        explain_entry,
        find_subject,
        subject_of,
    )
    from spotsieve.stream.insight.explain.page_lookup import StateEntry, find_in_entries, read_page_argument
    from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope

    settings = settings_of_state(options, state)
    given = read_page_argument(options.page, options.url, "--url", settings.input)
    scheme, known = salted(scheme_in_scope(settings), state.salt), state.entry_count - state.clock.floor
    judged = ExplainContext(settings, scheme, state, state.clock, str(state.directory), known)
    recorded = given.recorded or _recorded(options, given.name)
    page, where = given.page, f"file {as_utf8(options.page)}"
    if page is None and files:
        from spotsieve.stream.insight.explain.page_lookup import find_last_page

        # The capture that the verdict is of, or the last one, as without the files.
        names = [*([recorded.id] if recorded else []), given.name]
        page, where = find_last_page(names, files, settings.input), "the files of --pages"
    found: ExplainSubject | StateEntry = (
        find_subject(state, given.name, settings, recorded) if page is None else subject_of(page, scheme, where)
    )
    if isinstance(found, StateEntry):
        return explain_entry(given.name, found, judged, recorded)
    beside = None
    if options.other is not None:
        other = as_utf8(options.other)
        indexed = find_in_entries(state, other)
        if not indexed:
            then = "name a novel page, or leave out --state to compare two files"
            raise NotFoundError("OTHER", "is not indexed in this state", other, then)
        beside = indexed[-1].number
    return explain(given.name, found, judged, files, recorded, beside)


def _without_state(options: argparse.Namespace, files: "Sequence[Input]") -> "Explanation":
    """Explain a page by pages in memory: OTHER, or the pages before it in the files of --pages."""
    from spotsieve.stream.insight.explain.context import context_after, context_before, explain, subject_of
    from spotsieve.stream.insight.explain.page_lookup import name_apart, read_page_argument
    from spotsieve.stream.sign.schemes.registry import scheme_in_scope

    settings = settings_of(options)
    scheme = scheme_in_scope(settings)
    given = read_page_argument(options.page, options.url, "--url", settings.input)
    recorded = given.recorded or _recorded(options, given.name)
    if given.page is None and not files:
        rule = "must be a file, unless --state or --pages name the place of a URL or id"
        raise SettingError("PAGE", rule, options.page, "add --state DIR, --pages FILE, or both")
    others, held = [], {}
    if options.other is not None:
        other = read_page_argument(options.other, options.other_url, "--other-url", settings.input)
        others = [name_apart(other.page, "other") if other.page else _named(other.name, files, settings)]
        held = {"texts": others}
    if given.page is None and not others:
        page, judged = context_before(given.name, files, settings, scheme)
    else:
        page = name_apart(given.page, "page") if given.page else _named(given.name, files, settings)
        if others and (page.source, page.offset) == (others[0].source, others[0].offset):
            raise SettingError("OTHER", "must be another page than PAGE", given.name, "name another page")
        judged = context_after(next(iter(others), None), settings, scheme)
    where = f"file {as_utf8(options.page)}" if given.page is not None else "the files of --pages"
    beside = 0 if others and judged.pages else None
    return explain(given.name, subject_of(page, judged.scheme, where), judged, files, recorded, beside, **held)


def _named(name: str, files: "Sequence[Input]", settings: "Settings") -> "Page":
    """A page of the files of --pages. Raises NotFoundError, InputError."""
    from spotsieve.stream.insight.explain.page_lookup import find_first_page

    page = find_first_page(name, files, settings.input)
    if page is None:
        raise NotFoundError("PAGE", "is in none of the files of --pages", name, "check the URL or id")
    return page


def _recorded(options: argparse.Namespace, name: str) -> "RecordedVerdict | None":
    """The verdict of a page in --verdicts; None without the flag.

    Raises NotFoundError if the file has none, InputError if it cannot be read.
    """
    if options.verdicts is None:
        return None
    from spotsieve.stream.files.verdict_lines import verdict_files
    from spotsieve.stream.insight.explain.page_lookup import find_recorded

    recorded = find_recorded(verdict_files(Path(options.verdicts)), name)
    if recorded is None:
        raise NotFoundError(
            "--verdicts", "has no verdict of PAGE", options.verdicts, "choose another file, or leave it out"
        )
    return recorded


def _check_jinja() -> None:
    """Raises SettingError, before any work, if the extra for HTML is not installed."""
    try:
        import jinja2  # noqa: F401 - only a check
    except ImportError:
        raise SettingError(
            "--html", "needs the package jinja2", None, 'install the extra: pip install "spotsieve[report]"'
        ) from None
