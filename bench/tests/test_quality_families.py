"""The command that prints the figures of generated families."""

import pytest

from bench.quality.families import main
from tests.fixtures.families import FAMILIES, family_pages
from tests.fixtures.families.measure import BOUNDS, Bound, measure


def test_a_row_for_each_chosen_family_has_its_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("theme", "ring"):
        monkeypatch.setitem(BOUNDS, name, Bound(lost=1.0, found=0.0))
    assert main(["theme", "ring", "--size", "0.1", "--seed", "3"]) == 0
    header, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header[:7] == ["family", "pages", "novel", "lost", "copies", "missed", "dropped"]
    assert [row[0] for row in rows] == ["theme", "ring"]
    figures = measure(family_pages("theme", 3, 0.1))
    assert [int(count) for count in rows[0][1:]] == [figures.total(name) for name in ("pages", *header[2:7])]


def test_a_family_over_its_bounds_is_named_and_changes_the_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BOUNDS, "sessions", Bound(lost=-1.0, found=1.1))
    assert main(["sessions", "--size", "0.1"]) == 1
    assert capsys.readouterr().out.splitlines()[1].endswith("lost, missed")


def test_kinds_and_pages_with_wrong_verdicts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The scheme minhash has no memory of hosts and drops pages for their sketches alone: it has faults to show."""
    pages = family_pages("growing", 1, 0.3)
    figures = measure(pages, scheme__name="minhash")
    assert figures.lost + figures.missed > 0
    main(["growing", "--size", "0.3", "--set", "scheme.name=minhash", "--kinds", "--show", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert {line.split("  ")[1] for line in lines if line.startswith("  ") and line[2] != " "} == {
        page.kind for page in pages
    }
    shown = [line.split()[0] for line in lines if line.startswith("    ")]
    assert shown == ["lost"] * bool(figures.lost) + ["missed"] * bool(figures.missed)


def test_an_unknown_family_and_a_wrong_setting_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["themes"])
    assert f"Unknown families: themes. Choose from {', '.join(FAMILIES)}." in capsys.readouterr().err
    assert main(["ring", "--set", "scheme.nonsense=1"]) == 2
    assert "scheme.nonsense" in capsys.readouterr().err
