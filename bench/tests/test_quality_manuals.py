"""The bench of reference manuals reads packages, and counts what `spotsieve score` counts."""

import subprocess
from pathlib import Path

import pytest

from bench.quality import manuals
from tests.fixtures.debian import needs_debian
from tests.fixtures.families.prose import Prose


def package(folder: Path, name: str, pages: dict[str, bytes]) -> None:
    """Build a package with these files."""
    tree = folder / f"{name}.tree"
    for path, body in pages.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(body)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: none <none@none.example>\nDescription: pages\n"
    )
    subprocess.run(["dpkg-deb", "--build", str(tree), str(folder / f"{name}_1_all.deb")], check=True)


def test_the_pages_of_each_package_are_judged_as_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_debian("dpkg", "dpkg-deb")
    prose = Prose("manuals")
    texts = [prose.text(200) for _ in range(6)]
    pages = [f"<html><title>{prose.name(3)}</title><body><p>{text} café</p></body></html>" for text in texts]
    files = {f"usr/share/doc/one/{number}.html": page.encode("latin-1") for number, page in enumerate(pages)}
    package(tmp_path, "one-doc", files | {"usr/share/doc/one/copy.htm": pages[0].encode(), "usr/bin/one": b"none"})
    package(tmp_path, "two-doc", {"usr/share/doc/two/index.html": pages[0].encode()})
    out = tmp_path / "manuals.md"
    assert manuals.main([str(tmp_path), "--packages", "one-doc", "two-doc", "--out", str(out)]) == 0
    assert "| one-doc_1_all | 7 | 1 | 0 | 0 | 0 |\n| two-doc_1_all | 1 | 0 | 0 | 0 | 0 |\n" in out.read_text("utf-8")
    assert capsys.readouterr().err == ""


def test_a_package_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "manuals.md"
    assert manuals.main([str(tmp_path / "none"), "--packages", "no-such-doc", "--out", str(out)]) == 1
    assert capsys.readouterr().err == f"no-such-doc is not in {tmp_path / 'none'}, and apt-get cannot download it.\n"
