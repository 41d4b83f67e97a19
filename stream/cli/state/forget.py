"""Owns `spotsieve state forget`: which pages are meant, where their forgetting is logged, and what is said of it."""

import argparse
import asyncio
import sys
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotsieve.stream.cli.settings import add_settings_arguments, settings_of
from spotsieve.stream.errors import EXIT_NOT_FOUND, EXIT_OK, SettingError, SettingsMismatch, StateError
from spotsieve.stream.text_safety import show

if TYPE_CHECKING:
    from spotsieve.state.forgetting import ForgottenPage
    from spotsieve.state.log.local import LocalLog
    from spotsieve.state.still.finding import Found, Wanted
    from spotsieve.state.still.reading import StillState
    from spotsieve.stream.settings.model import Settings

MOST_SHOWN = 20
Told = Callable[[str, int, int], None]
Facts = dict[str, Any]
ABOUT = """Pages that were let through are looked for in a checkpoint of the state (all of it is read once), and a
record that forgets them is appended to the log: every reader of the log forgets them at that place, a running service
at once. Give the service's configuration (-c), or the --state of a `spotsieve filter` that is not running. From then on
the next copy of a forgotten page is novel; what was dropped before stays dropped. Exit codes: 0 all that was named is
forgotten, 7 some of it is not there (the rest is forgotten), 2 wrong settings or usage, 4 the state cannot be used, 5
the broker."""


def add_forget_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve state forget`."""
    parser.add_argument("--url", action="append", default=[], metavar="URL", help="the page's address, exactly")
    parser.add_argument("--id", action="append", default=[], metavar="ID", dest="ids",
                        help="the page's own name, or topic/partition/offset as in reports")  # fmt: skip
    parser.add_argument("--url-prefix", action="append", default=[], metavar="TEXT", help="all addresses that begin so")
    parser.add_argument("--host", action="append", default=[], metavar="HOST",
                        help="all pages of a host (without its subdomains; www. makes no difference)")  # fmt: skip
    parser.add_argument("--state", type=Path, metavar="DIR",
                        help="a state directory, or a snapshot (index.directory of the configuration)")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="say what would be forgotten, and write nothing")
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS",
        help="how long to wait for the process that works on the state (300)",
    )  # fmt: skip
    add_settings_arguments(parser)


def run_forget(
    options: argparse.Namespace, progress: Callable[[], AbstractContextManager[Told]], say: Callable[[Facts], None]
) -> int:
    """Find, log, and say what was done: progress shows a line meanwhile, say prints JSON. The exit code."""
    wanted = _wanted(options)
    settings = settings_of(options, {"index.directory": options.state})
    from spotsieve.state.still.finding import file_places, find_entries
    from spotsieve.state.still.reading import still_state

    directory = settings.index.directory
    with progress() as told, ExitStack() as closing:
        with still_state(directory, options.timeout, told) as state:
            target = _Target(state, settings, closing, options.dry_run)
            found = find_entries(state, wanted, told)
            pages = file_places(state, found.pages, told) if found.pages else []
        offsets = target.write(pages, told) if pages and not options.dry_run else []
    _report(found, pages, offsets, target, options, say)
    return EXIT_NOT_FOUND if found.missing else EXIT_OK


class _Target:
    """Where the records go: the local log beside the state, or the log topic. Made before the long walk, to refuse."""

    def __init__(self, state: "StillState", settings: "Settings", closing: ExitStack, dry_run: bool) -> None:
        from spotsieve.state.log.local import LocalLog

        self._settings, self._directory = settings, state.directory
        _, self._settings_text, self.log_name = state.identity
        progress = state.progress
        self.position = progress.position
        self._local: LocalLog | None = None
        if dry_run:
            return
        if self.log_name == LocalLog.name:
            self._local = closing.enter_context(_open_local_log(self._directory))
            from spotsieve.stream.local.filtering import check_log

            check_log(self._local, progress.position, progress.last_record, progress.pages_applied)
            return
        from spotsieve.stream.observe.logs import configure_logs
        from spotsieve.stream.service.forgetting import check_log_topic
        from spotsieve.stream.settings.verdicts import describe_difference, verdict_settings_text

        text, this_config = (
            verdict_settings_text(settings),
            "give the configuration of the service that works on it (-c)",
        )
        if self.log_name != settings.topics.log:
            raise SettingError(
                "topics.log", f"must be the log that the state {self._directory} follows, {self.log_name!r}",
                settings.topics.log, this_config,
            )  # fmt: skip
        if self._settings_text != text:
            raise SettingsMismatch(
                f"state {self._directory}", "was written with other settings that change verdicts: "
                f"{describe_difference(self._settings_text, text, 'state')}", None, this_config,
            )  # fmt: skip
        configure_logs(settings.log)
        asyncio.run(check_log_topic(settings, progress.position, progress.last_record, progress.pages_applied))

    def write(self, pages: "list[ForgottenPage]", told: Told) -> list[int]:
        """Append what forgets these pages; -> the offsets of the records."""
        from spotsieve.state.forgetting import split_pages
        from spotsieve.state.log.record import FRAME_BYTES, encode_forget
        from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
        from spotsieve.stream.settings.verdicts import settings_digest

        digest, writer = settings_digest(self._settings_text), uuid.uuid4().bytes
        parts = split_pages(pages, LOG_RECORD_BYTES - FRAME_BYTES)
        records = [encode_forget(part, writer, number, digest) for number, part in enumerate(parts)]
        if self._local is not None:
            from spotsieve.stream.local.forgetting import append_and_apply

            return append_and_apply(self._directory, self._local, records, self._settings_text)
        from spotsieve.stream.service.forgetting import append_records

        return asyncio.run(
            append_records(self._settings, records, lambda done: told("records written", done, len(records)))
        )


def _open_local_log(directory: Path) -> "LocalLog":
    from spotsieve.state.log.local import FILE_NAME
    from spotsieve.state.snapshot.manifest import FILE_NAME as MANIFEST
    from spotsieve.stream.local.filtering import open_log

    if (directory / MANIFEST).exists():
        raise StateError(
            "--state", "must not be a snapshot of a state with a local log: it would end before the state does",
            str(directory), "name the state directory itself",
        )  # fmt: skip
    if not (directory / FILE_NAME).exists():
        raise StateError(
            "--state", "must hold its local log", str(directory), f"bring the file {FILE_NAME!r} back from a snapshot"
        )
    try:
        log, notices = open_log(directory)
    except StateError as error:
        if "holds its lock" not in error.rule:
            raise
        raise StateError(
            "--state", "must not be in use to forget pages of it, and a running spotsieve filter holds its log",
            str(directory), "wait until it has ended, then forget them; --dry-run works now",
        ) from None  # fmt: skip
    show(*(f"spotsieve: {notice}" for notice in notices), to=sys.stderr)
    return log


def _wanted(options: argparse.Namespace) -> "Wanted":
    """What the flags name, as the state has it. Raises SettingError."""
    given = {"--url": options.url, "--id": options.ids, "--url-prefix": options.url_prefix, "--host": options.host}
    if not any(given.values()):
        raise SettingError("state forget", "must name pages", None, f"give {', '.join(given)}; each may be repeated")
    for flag, texts in given.items():
        if not all(text.strip() for text in texts):
            raise SettingError(flag, "must not be empty", "", "name what is to be forgotten")
    from spotsieve.state.log.record import cut_address
    from spotsieve.state.still.finding import Wanted
    from spotsieve.stream.schemes.identity import host_of

    hosts = [host_of(f"//{host}") for host in options.host]
    for host, given_host in zip(hosts, options.host, strict=True):
        if not host or any(mark in given_host for mark in "/?#@"):
            raise SettingError("--host", "must be the name of a host", given_host, "such as example.org")
    urls = [cut_address(url.encode("utf-8", "replace")).decode() for url in options.url]
    return Wanted(frozenset(urls), frozenset(options.ids), tuple(dict.fromkeys(options.url_prefix)), frozenset(hosts))


def _report(
    found: "Found",
    pages: "list[ForgottenPage]",
    offsets: list[int],
    target: _Target,
    options: argparse.Namespace,
    say: Callable[[Facts], None],
) -> None:
    if options.json:
        say({
            "dry_run": options.dry_run, "log": target.log_name, "looked_at_up_to": target.position, "records": offsets,
            "found": [
                {"id": entry.id, "page": entry.page_id, "url": entry.url, "entry": page.number,
                 "buckets": len(page.keys)}
                for page, entry in zip(pages, (found.pages[page.number] for page in pages), strict=True)
            ],
            "missing": [{kind.replace(" ", "_"): text} for kind, text in found.missing],
            "similar": {url: found.similar.get(url, []) for kind, url in found.missing if kind == "url"},
        })  # fmt: skip
        return
    word = "would forget" if options.dry_run else "forgot"
    for page in pages[:MOST_SHOWN]:
        entry = found.pages[page.number]
        named = f" {entry.label!r}" if entry.label else ""
        show(f"{word}  {entry.page_id}{named}  {entry.url}  (entry {page.number}, {len(page.keys)} buckets)")
    if len(pages) > MOST_SHOWN:
        show(f"{word}  {len(pages) - MOST_SHOWN:,} more (--json names all)")
    for kind, text in found.missing:
        show(f"not found  {kind} {text}")
        similar = found.similar.get(text, []) if kind == "url" else []
        for other in similar:
            show(f"           but there is {other}")
    if found.missing:
        show(
            f"Looked at everything up to record {target.position} of the log {target.log_name!r}. Only pages that were "
            "let through are remembered (within the horizon, if there is one): of a dropped page name the original, "
            "which its report tells."
        )
    if options.dry_run:
        show(f"{_pages(pages)}; nothing was written (--dry-run)")
    elif pages:
        where = f"{offsets[0]}" if len(offsets) == 1 else f"{offsets[0]}..{offsets[-1]}"
        show(
            f"{_pages(pages)} forgotten from record {where} of the log {target.log_name!r} on: the next copy of each "
            "is novel. The log still holds the addresses."
        )


def _pages(pages: "list[ForgottenPage]") -> str:
    return f"{len(pages):,} page{'s' * (len(pages) != 1)}"
