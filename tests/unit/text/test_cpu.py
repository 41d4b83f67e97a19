"""Kernels are compiled for x86-64-v3 on machines that are one, and otherwise for the very machine."""

import os
import sys
from pathlib import Path

import pytest

from spotsieve.stream.base.startup import NEEDED, PORTABLE, choose_cpu, portable_kernels_fit

CHOSEN = {"NUMBA_CPU_NAME": PORTABLE, "NUMBA_CPU_FEATURES": ""}


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: numba is not loaded, and nobody has named a CPU."""
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    for name in CHOSEN:
        monkeypatch.setenv(name, "")  # So that it is as before when the test ends, whatever the test sets.
        monkeypatch.delenv(name)


def information(folder: Path, flags: str) -> Path:
    """What Linux tells of two CPUs."""
    path = folder / "cpuinfo"
    one = f"processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu sse2 {flags}\nbugs\t\t: none\n\n"
    path.write_text(one * 2)
    return path


def chosen() -> dict[str, str]:
    return {name: os.environ[name] for name in CHOSEN if name in os.environ}


def test_a_machine_with_all_of_x86_64_v3_compiles_for_it(tmp_path: Path) -> None:
    choose_cpu(information(tmp_path, " ".join(sorted(NEEDED)) + " avx512f"))
    assert chosen() == CHOSEN


@pytest.mark.parametrize("missing", sorted(NEEDED))
def test_a_machine_that_lacks_a_part_of_it_compiles_for_itself(tmp_path: Path, missing: str) -> None:
    choose_cpu(information(tmp_path, " ".join(sorted(NEEDED - {missing}))))
    assert chosen() == {}


def test_without_linux_s_file_it_compiles_for_the_machine(tmp_path: Path) -> None:
    choose_cpu(tmp_path / "none")
    assert chosen() == {}


def test_what_the_user_named_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "znver4")
    choose_cpu(information(tmp_path, " ".join(NEEDED)))
    assert chosen() == {"NUMBA_CPU_NAME": "znver4"}


def test_a_program_that_has_loaded_numba_keeps_its_own_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", sys)
    choose_cpu(information(tmp_path, " ".join(NEEDED)))
    assert chosen() == {}


def test_installed_kernels_fit_after_numba_unless_the_user_named_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", sys)
    assert portable_kernels_fit(information(tmp_path, " ".join(NEEDED)))
    assert not portable_kernels_fit(information(tmp_path, " ".join(sorted(NEEDED)[1:])))
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "")
    assert not portable_kernels_fit(information(tmp_path, " ".join(NEEDED)))
