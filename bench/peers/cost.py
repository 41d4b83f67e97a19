"""Measures the CPU time and the peak memory of a command: `python -m bench.peers.cost COMMAND...` prints them as JSON.

A small process starts the command: Linux counts the memory of the process that starts a program as the program's own.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple


class CommandCost(NamedTuple):
    """cpu_s: of the command and its children, user and system  peak_mib: of its largest process"""

    cpu_s: float
    peak_mib: float


def measure(command: Sequence[str]) -> CommandCost:
    """Run a command to its end. Raises RuntimeError with its last output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers.cost", *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return CommandCost(**json.loads(done.stdout.splitlines()[-1]))


def _main() -> int:
    done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1024 if sys.platform == "linux" else 1024**2
    print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss / unit}))
    return done.returncode


if __name__ == "__main__":
    sys.exit(_main())
