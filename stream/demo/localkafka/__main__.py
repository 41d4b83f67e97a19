"""`python -m spotsieve.stream.demo.localkafka` runs a broker in the foreground, or only fetches what one needs."""

import argparse
import signal
import sys
import threading
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK, SpotsieveError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.demo.localkafka import LocalKafka, prepare, release


def main(arguments: list[str] | None = None) -> int:
    """Run until Ctrl-C or SIGTERM; -> the exit code, 0 or that of the error."""
    parser = argparse.ArgumentParser(
        "python -m spotsieve.stream.demo.localkafka", description="Runs a local Apache Kafka."
    )
    parser.add_argument("--port", type=int, default=9092, help="port on 127.0.0.1; 0 for any free one (default 9092)")
    parser.add_argument("--dir", type=Path, help="keep the data here (default: a temporary directory, removed)")
    parser.add_argument("--heap-mb", type=int, default=768, help="Java heap in MiB (default 768)")
    parser.add_argument("--prepare", action="store_true", help="only fetch the files of a broker, then exit")
    options = parser.parse_args(arguments)
    try:
        prepare()
        if not options.prepare:
            _run(LocalKafka(options.dir, port=options.port, heap_mb=options.heap_mb))
    except SpotsieveError as error:
        show(str(error), to=sys.stderr)
        return error.exit_code
    return EXIT_OK


def _run(kafka: LocalKafka) -> None:
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    with kafka:
        show(f"Kafka {release()} serves {kafka.bootstrap_servers}; Ctrl-C stops it")
        done.wait()


if __name__ == "__main__":
    sys.exit(main())
