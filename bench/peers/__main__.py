"""`python -m bench.peers NAME FILE OUT` runs a peer over a file of pages; without arguments it lists the peers."""

import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from bench.peers.filters import PEERS


def main(arguments: Sequence[str] | None = None) -> int:
    """Write {"id", "duplicate_of"} for each page. Returns 2 for other arguments, 3 if a package is not installed."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        for name, peer in PEERS.items():
            print(f"{name}: {', '.join(f'{package} {found}' for package, found in peer.versions.items() if found)}")
            if peer.missing:
                print(f"  not installed: {', '.join(peer.missing)}")
        return 0
    if len(given) != 3 or given[0] not in PEERS:
        print(f"usage: python -m bench.peers NAME FILE OUT; NAME is one of: {'; '.join(PEERS)}", file=sys.stderr)
        return 2
    peer = PEERS[given[0]]
    if peer.missing:
        print(f"{given[0]}: not installed: {', '.join(peer.missing)}; run `make public`", file=sys.stderr)
        return 3
    with Path(given[2]).open("wb") as out:
        for name, original in peer.run(Path(given[1])):
            out.write(orjson.dumps({"id": name, "duplicate_of": original}) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
