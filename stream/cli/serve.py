"""`spotsieve serve` looks up pages over HTTP, for crawlers in other languages."""

import argparse
import logging
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.cli.options import (
    add_salt_argument,
    add_scheme_arguments,
    add_settings_arguments,
    local_path,
    settings_of,
)

if TYPE_CHECKING:
    from spotsieve.stream.base.settings.model import Settings
    from spotsieve.stream.local.library import Deduplicator

ABOUT = """POST /v1/lookup returns the verdict that a page would get as the next page, and does not index it;
/v1/lookup/batch takes several pages. DIR is a snapshot, or the state of a service or of `spotsieve filter`, which may
be in use: look-ups see the pages indexed up to serve.refresh_seconds ago. With --add, this process owns DIR, creates it
if necessary, and POST /v1/add judges and indexes pages. GET /openapi.json describes the API; /healthz, /readyz and
/metrics serve monitoring. The port binds 127.0.0.1 and answers to loopback names; set serve.token_file, and
serve.tls_certfile with serve.tls_keyfile, before you bind another address. Exit codes: 0 stopped by SIGTERM or SIGINT;
2 wrong setting, or the port is in use; 4 the state cannot be used."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve serve`."""
    parser.epilog = ABOUT
    parser.add_argument(
        "--state", type=local_path, required=True, metavar="DIR", help="a state directory, or a snapshot"
    )
    parser.add_argument("--add", action="store_true", help="own the state, and let clients add pages (POST /v1/add)")
    add_salt_argument(parser)
    parser.add_argument("--host", metavar="ADDRESS", help="address to bind (serve.host: 127.0.0.1)")
    parser.add_argument("--port", metavar="PORT", help="port; 0: any free one (serve.port: 7768)")
    add_scheme_arguments(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    flags = {"serve.host": options.host, "serve.port": options.port, "index.salt_from": options.salt_from}
    settings = settings_of(options, flags)
    # These imports need the extra `serve`, and would slow --help down.
    from spotsieve.state.directory import is_snapshot
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

    # The port comes first: a port in use is reported before the state is opened.
    with bind(settings.serve) as listening:
        serve(
            settings.serve,
            listening,
            open_state,
            settings.service.batch_pages,
            adds=options.add,
            refreshes=not options.add and not is_snapshot(options.state),
        )
    return EXIT_OK
