"""`spotsieve serve` answers over HTTP whether pages are known, for crawlers in other languages."""

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.cli.options import add_scheme_arguments, add_settings_arguments, directory, settings_of

if TYPE_CHECKING:
    from spotsieve.stream.base.settings.model import Settings
    from spotsieve.stream.local.library import Deduplicator

ABOUT = """POST /v1/lookup says which verdict a page would get if it came next, and remembers nothing; /v1/lookup/batch
takes many. DIR is a snapshot, or the state of a service or of `spotsieve filter`, which may be at work on it: the port
sees what that one filed up to serve.refresh_seconds ago. With --add the port owns DIR, makes it if it is not there, and
POST /v1/add judges and remembers. GET /openapi.json describes all of it; /healthz, /readyz and /metrics are for those
who watch. There is no login: it binds 127.0.0.1. Exit codes: 0 stopped by SIGTERM or SIGINT; 2 wrong setting, or the
port is taken; 4 the state cannot be used."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve serve`."""
    parser.epilog = ABOUT
    parser.add_argument(
        "--state", type=directory, required=True, metavar="DIR", help="a state directory, or a snapshot"
    )
    parser.add_argument("--add", action="store_true", help="own the state, and let clients add pages (POST /v1/add)")
    parser.add_argument("--host", metavar="ADDRESS", help="address to bind (serve.host: 127.0.0.1)")
    parser.add_argument("--port", metavar="PORT", help="port; 0: any free one (serve.port: 7768)")
    add_scheme_arguments(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    flags = {"serve.host": options.host, "serve.port": options.port}
    settings = settings_of(options, flags)
    # Not imported for --help, and only in an installation with the extra.
    from spotsieve.stream.observe.logs import configure_logs

    try:
        from spotsieve.stream.local.serve.server import bind, serve
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("spotsieve"):
            raise
        rule = f"needs the Python package {error.name}"
        raise SettingError("spotsieve serve", rule, None, "run: pip install 'spotsieve[serve]'") from None
    configure_logs(settings.log)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)

    def settings_for(stored: str | None) -> "Settings":
        from spotsieve.stream.base.settings.load import stored_values

        return settings_of(options, flags, stored_values(stored) if stored is not None and not options.config else None)

    def open_state() -> "Deduplicator":
        from spotsieve.stream.local.library import Deduplicator
        from spotsieve.stream.local.library.engines import open_to_add, open_to_query

        if options.add:
            return Deduplicator.from_engine(open_to_add(options.state, settings_for, "--add", "leave out --add"))
        return Deduplicator.from_engine(open_to_query(options.state, settings_for))

    # The port first: where it is taken, nobody waits for a state to open.
    with bind(settings.serve) as listening:
        serve(
            settings.serve,
            listening,
            open_state,
            settings.service.batch_pages,
            adds=options.add,
            refreshes=not options.add and not _is_snapshot(options.state),
        )
    return EXIT_OK


def _is_snapshot(state: Path) -> bool:
    from spotsieve.state.snapshot.snapshots import MANIFEST_FILE

    return (state / MANIFEST_FILE).exists()
