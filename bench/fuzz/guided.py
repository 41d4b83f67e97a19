"""Fuzzes one target in a process of its own, guided by coverage if atheris is installed, else at random.

    python -m bench.fuzz.guided TARGET SECONDS SEED FOLDER

FOLDER/corpus holds the initial inputs and those that reached new code. Without atheris, FOLDER/running holds the input
that is being run; with atheris, a failing input is in FOLDER/crash-..., timeout-... or oom-... The last line of
standard output is JSON: executions and, with guidance, covered edges.
"""

import importlib
import importlib.util
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType

MOST_BYTES = 16_384
SECONDS_AN_INPUT = 60
MEMORY_MIB = 4_096
INSTRUMENTED = (
    "spotsieve.stream.sign.intake",
    "spotsieve.stream.files",
    "spotsieve.stream.base.urls",
    "spotsieve.stream.sign.schemes.identity",
    "spotsieve.state.log.record",
    "spotsieve.state.log.local",
    "spotsieve.state.log.bodies",
    "spotsieve.state.format.entries",
    "spotsieve.state.format.meta",
    "spotsieve.state.snapshot.snapshots",
    "spotsieve.state.verify.log",
    "spotsieve.stream.sharding.records",
    "tests.reference.text",
    "tests.reference.blocks",
    "tests.reference.scorecard",
)
"""Modules without kernels. numba cannot compile instrumented kernels; their plain-Python references guide instead."""


def main(arguments: Sequence[str]) -> None:
    """Fuzz until the time is over or an input breaks a rule, which ends the process with an exception."""
    name, seconds, seed, folder = arguments[0], float(arguments[1]), int(arguments[2]), Path(arguments[3])
    if importlib.util.find_spec("atheris"):
        _guided(importlib.import_module("atheris"), name, seconds, seed, folder)
    else:
        _by_chance(name, seconds, seed, folder)


def _by_chance(name: str, seconds: float, seed: int, folder: Path) -> None:
    from bench.fuzz.mutations import mutated
    from bench.fuzz.targets import TARGETS

    target, chosen, executions = TARGETS[name], random.Random(seed), 0
    seeds = [path.read_bytes() for path in sorted((folder / "corpus").iterdir())]
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        data = mutated(chosen, seeds, target.pieces)
        (folder / "running").write_bytes(data)
        target.run(data)
        executions += 1
    print(json.dumps({"executions": executions}))


def _guided(atheris: ModuleType, name: str, seconds: float, seed: int, folder: Path) -> None:
    from bench.fuzz.mutations import mutated
    from bench.fuzz.targets import TARGETS

    for function in _functions():
        atheris.instrument_func(function)
    target = TARGETS[name]
    seeds = [path.read_bytes() for path in sorted((folder / "corpus").iterdir())]
    for data in seeds:
        target.run(data)  # Compiles kernels that are not cached; this minute counts against no input.

    def mutate(data: bytes, most: int, seed_of_input: int) -> bytes:
        chosen = random.Random(seed_of_input)
        if chosen.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return mutated(chosen, [data, data, chosen.choice(seeds)], target.pieces)[:most]

    atheris.Setup(
        [
            "fuzz",
            str(folder / "corpus"),
            f"-seed={seed}",
            f"-max_total_time={max(1, round(seconds))}",
            f"-max_len={MOST_BYTES}",
            f"-timeout={SECONDS_AN_INPUT}",
            f"-rss_limit_mb={MEMORY_MIB}",
            f"-artifact_prefix={folder}/",
            "-print_final_stats=1",
        ],
        target.run,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def _functions() -> Iterator[FunctionType]:
    """The functions whose coverage guides the fuzzer, once imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith(INSTRUMENTED):
            for value in vars(module).values():
                members = vars(value).values() if isinstance(value, type) else (value,)
                for member in members:
                    if isinstance(member, FunctionType) and member.__module__ == name:
                        yield member


if __name__ == "__main__":
    main(sys.argv[1:])
