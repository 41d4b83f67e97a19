"""`spotsieve state forget`: finds the named pages in a state and appends records to the log that forget them."""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from spotsieve.stream.base.errors import EXIT_INTERRUPTED, EXIT_NOT_FOUND, EXIT_OK, SettingError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import (
    add_settings_arguments,
    add_timeout_argument,
    local_path,
    number_within,
    progress_line,
    settings_of,
    show_json,
)

if TYPE_CHECKING:
    from spotsieve.state.removal import ForgottenPage
    from spotsieve.state.still.finding import PageQuery, QueryResult
    from spotsieve.state.store.state import State
    from spotsieve.stream.base.settings.model import Settings

MAX_SHOWN = 20
"""Pages that are printed without --json."""
MAX_SHARE = 0.1
"""The default of --max-share."""
Append = Callable[[Sequence[bytes]], list[int]]
"""Appends records to the log that a state follows, and returns their offsets."""
HELP = "forget pages: the next copy of each is novel"
ABOUT = """Searches a checkpoint of the state for indexed pages (it reads the whole state once), and appends records to
the log that forget them. Every reader of the log applies these records at their position; a running service does so at
once. Give the configuration of a service (-c), or the --state of a `spotsieve filter` that is not running. The next
copy of a forgotten page is novel; pages that were dropped earlier stay dropped. The pages of a prefix or a host are
forgotten only after a confirmation (--yes skips it), and may be at most a tenth of the state (--max-share). Exit codes:
0 all named pages are forgotten; 7 some were not found (the others are forgotten); 2 wrong settings or usage; 4 the
state cannot be used; 5 the broker."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state forget`."""
    parser.add_argument("--url", action="append", default=[], metavar="URL", help="the exact URL of a page")
    parser.add_argument(
        "--id",
        action="append",
        default=[],
        metavar="ID",
        dest="ids",
        help="the page's own id, or topic/partition/offset as in reports",
    )
    parser.add_argument(
        "--url-prefix", action="append", default=[], metavar="TEXT", help="all pages whose URL begins with TEXT"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="all pages of a host, without its subdomains; www. is ignored",
    )
    parser.add_argument(
        "--state",
        type=local_path,
        metavar="DIR",
        help="a state directory, or a snapshot (index.directory of the configuration)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for a confirmation with --url-prefix or --host")
    parser.add_argument(
        "--max-share",
        type=_share,
        default=MAX_SHARE,
        metavar="SHARE",
        help="with --url-prefix or --host: forget at most this share of the pages of the state (%(default)s)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print which pages would be forgotten, and write nothing"
    )
    add_timeout_argument(parser)
    add_settings_arguments(parser)


def _share(text: str) -> float:
    return number_within(text, 0, 1, f"a share in 0..1, such as {MAX_SHARE}")


class _ForgetResult(NamedTuple):
    """The outcome of a run.

    found: the result of the search  pages: the pages found, with their buckets  offsets: the offsets of the records
    that forget them; none in a dry run  position: the log position of the state that was searched
    """

    found: "QueryResult"
    pages: "list[ForgottenPage]"
    offsets: list[int]
    log_name: str
    position: int
    dry_run: bool


def run(options: argparse.Namespace) -> int:
    """Find the pages, append the records that forget them, print the outcome, and return the exit code."""
    query = _query(options)
    settings = settings_of(options, {"index.directory": options.state})
    from spotsieve.state.log.record import encode_forget_records
    from spotsieve.state.still.finding import file_places, find_entries
    from spotsieve.state.still.reading import read_only_state
    from spotsieve.stream.base.settings.digest import settings_digest
    from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES

    with progress_line() as on_progress, ExitStack() as closing:
        with read_only_state(settings.index.directory, options.timeout, on_progress) as state:
            # The log comes first: a log that cannot be opened is reported before the long search.
            append = None if options.dry_run else _open_log(state, settings, closing, on_progress)
            found = find_entries(state, query, on_progress)
            pages = file_places(state, found, on_progress) if found.pages else []
        offsets = list[int]()
        if append is not None and pages and not _confirmed(options, len(pages), found.living):
            show("nothing was forgotten", to=sys.stderr)
            return EXIT_INTERRUPTED
        if append is not None and pages:
            digest = settings_digest(state.identity.settings)
            offsets = append(encode_forget_records(pages, digest, LOG_RECORD_BYTES))
    outcome = _ForgetResult(found, pages, offsets, state.identity.log, state.progress.position, options.dry_run)
    if options.json:
        show_json(_facts(outcome))
    else:
        _show(outcome)
    return EXIT_NOT_FOUND if found.missing else EXIT_OK


def _confirmed(options: argparse.Namespace, pages: int, total: int) -> bool:
    """Whether the pages may be forgotten: a person is asked if --url-prefix or --host named them.

    pages: to be forgotten  total: pages of the state that are not forgotten
    Raises SettingError if the share is too large, or if no person at a terminal can confirm.
    """
    if not (options.url_prefix or options.host):
        return True
    share, count = pages / max(total, 1), f"{pages:,} of {total:,} pages"
    if share > options.max_share:
        rule = f"must be at least {share:.3g}: --url-prefix and --host match {count}"
        then = "check the list with --dry-run, and raise the share if it is right"
        raise SettingError("--max-share", rule, options.max_share, then)
    if options.yes:
        return True
    if not sys.stdin.isatty():
        rule = f"must be given without a terminal, where nobody can confirm: {count} are about to be forgotten"
        raise SettingError("--yes", rule, None, "check the list with --dry-run first")
    sys.stderr.write(f"forget {count}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _open_log(state: "State", settings: "Settings", closing: ExitStack, on_progress: OnProgress) -> Append:
    """Open the log that the state follows, a local log or the topic; the result appends to it."""
    from spotsieve.state.log.local import LocalLog

    if state.identity.log == LocalLog.name:
        return _open_local_log(state, closing)
    return _open_topic(state, settings, on_progress)


def _open_local_log(state: "State", closing: ExitStack) -> Append:
    from spotsieve.stream.local.engines import check_identity_of_log, check_log
    from spotsieve.stream.local.maintenance import append_and_apply, open_log_to_forget

    log, notices = open_log_to_forget(state.directory)
    closing.enter_context(log)
    show(*(f"spotsieve: {notice}" for notice in notices), to=sys.stderr)
    check_identity_of_log(log.read_from(0), state.directory, state.identity.log_identity)
    check_log(log, state.progress.position, state.progress.last_record, state.progress.pages_applied)
    return lambda records: append_and_apply(state.directory, log, records, state.identity.settings)


def _open_topic(state: "State", settings: "Settings", on_progress: OnProgress) -> Append:
    import asyncio  # This would cost --help a tenth of a second.

    from spotsieve.state.identity import check_service
    from spotsieve.stream.base.settings.digest import verdict_settings_text
    from spotsieve.stream.observe.logs import configure_logs
    from spotsieve.stream.service.log.skips import check_log_of_state
    from spotsieve.stream.service.log.writer import append_records

    check_service(state.directory, state.identity, verdict_settings_text(settings), settings.topics.log)
    configure_logs(settings.log, of_a_command=True)
    asyncio.run(check_log_of_state(settings, state.directory, state.identity.log_identity, state.progress))
    return lambda records: asyncio.run(
        append_records(settings, records, lambda done: on_progress("records written", done, len(records)))
    )


def _query(options: argparse.Namespace) -> "PageQuery":
    """The pages that the flags name. Raises SettingError."""
    flags = {"--url": options.url, "--id": options.ids, "--url-prefix": options.url_prefix, "--host": options.host}
    if not any(flags.values()):
        raise SettingError("state forget", "must name pages", None, f"use {', '.join(flags)}; each may be repeated")
    for flag, texts in flags.items():
        if not all(text.strip() for text in texts):
            raise SettingError(flag, "must not be empty", "", "name the pages to forget")
    from spotsieve.state.still.finding import page_query

    return page_query(options.url, options.ids, options.url_prefix, options.host)


def _facts(outcome: _ForgetResult) -> dict[str, Any]:
    """The outcome as JSON."""
    found = outcome.found
    named = [(page, found.pages[page.number]) for page in outcome.pages]
    return {
        "dry_run": outcome.dry_run,
        "log": outcome.log_name,
        "looked_at_up_to": outcome.position,
        "records": outcome.offsets,
        "found": [
            {
                "id": entry.id,
                "page": entry.page_id,
                "url": entry.url,
                "entry": page.number,
                "buckets": len(page.keys),
            }
            for page, entry in named
        ],
        "missing": [{kind.replace(" ", "_"): text} for kind, text in found.missing],
        "similar": {url: found.similar.get(url, []) for kind, url in found.missing if kind == "url"},
    }


def _show(outcome: _ForgetResult) -> None:
    found, pages, offsets = outcome.found, outcome.pages, outcome.offsets
    word = "would forget" if outcome.dry_run else "forgot"
    for page in pages[:MAX_SHOWN]:
        entry = found.pages[page.number]
        named = f" {entry.label!r}" if entry.label else ""
        show(f"{word}  {entry.page_id}{named}  {entry.url}  (entry {page.number}, {len(page.keys)} buckets)")
    if len(pages) > MAX_SHOWN:
        show(f"{word}  {len(pages) - MAX_SHOWN:,} more (--json lists all)")
    _show_missing(outcome)
    count = f"{len(pages):,} page{'s' * (len(pages) != 1)}"
    if outcome.dry_run:
        show(f"{count}; nothing was written (--dry-run)")
    elif pages:
        where = f"{offsets[0]}" if len(offsets) == 1 else f"{offsets[0]}..{offsets[-1]}"
        show(
            f"{count} forgotten from record {where} of the log {outcome.log_name!r} on: the next copy of each "
            "is novel. The log still holds the URLs."
        )


def _show_missing(outcome: _ForgetResult) -> None:
    found = outcome.found
    for kind, text in found.missing:
        show(f"not found  {kind} {text}")
        for other in found.similar.get(text, []) if kind == "url" else []:
            show(f"           similar: {other}")
    if found.missing:
        show(
            f"Searched all pages up to record {outcome.position} of the log {outcome.log_name!r}. Only novel pages are "
            "indexed (within the deduplication window, if there is one): for a dropped page, name the original in its "
            "report."
        )
