"""Subjects of commits are phrases that fit a line of `git log`."""

import subprocess

import pytest

from tests.conftest import REPOSITORY

BASE = "7c0d28bb5421"
"""The last commit before this rule. Commits after it are checked."""
LONGEST = 72


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)


def too_long(log: str) -> list[str]:
    """Lines of a log, an abbreviated hash and a subject each, whose subject has more than LONGEST characters."""
    return [line for line in log.splitlines() if len(line.partition(" ")[2]) > LONGEST]


def test_subjects_of_new_commits_have_at_most_72_characters() -> None:
    if git("rev-parse", "--git-dir").returncode != 0:
        pytest.skip("needs a git work tree")
    if git("merge-base", "--is-ancestor", BASE, "HEAD").returncode != 0:
        pytest.skip(f"needs the history back to {BASE}; this clone is shallow")
    log = git("log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD")
    assert log.returncode == 0, log.stderr
    assert too_long(log.stdout) == [], f"shorten these subjects to {LONGEST} characters"


def test_a_subject_of_73_characters_is_too_long() -> None:
    fits, longer = f"0123abc {'x' * LONGEST}", f"0123abd {'x' * (LONGEST + 1)}"
    assert too_long(f"{fits}\n{longer}\n") == [longer]
