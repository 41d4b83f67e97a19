"""Tags a wheel with compiled kernels for one Python and platform, and leaves the kernels of other Pythons out.

`make wheel` and cibuildwheel compile kernels into the __pycache__ folders of the sources before they build. Without
kernels the wheel fits every Python. Everything else is in pyproject.toml.
"""

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

KERNELS = (".nbi", ".nbc")
OF_THIS_PYTHON = f".py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}."
"""The part of a kernel's file name by which numba tells its Python."""


class _Distribution(Distribution):
    def has_ext_modules(self) -> bool:
        """Whether the wheel fits one Python and platform only."""
        kernels = (path for top in ("state", "stream") for path in Path(top).rglob(f"__pycache__/*{OF_THIS_PYTHON}*"))
        return any(path.suffix in KERNELS for path in kernels)


class _BuildPy(build_py):
    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The modules of a package. The root is a package too, and this file is not part of it."""
        return [found for found in super().find_package_modules(package, package_dir) if found[1] != "setup"]

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        """The data files of a package, without the kernels of other Pythons."""
        found = super().find_data_files(package, src_dir)
        return [name for name in found if not name.endswith(KERNELS) or OF_THIS_PYTHON in Path(name).name]


setup(distclass=_Distribution, cmdclass={"build_py": _BuildPy})
