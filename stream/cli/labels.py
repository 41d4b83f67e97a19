"""Reads the labels that `score --labels` and `calibrate --labels` are given, and filters the files by settings."""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.cli.settings import settings_of
from spotsieve.stream.errors import SettingError

if TYPE_CHECKING:
    from spotsieve.stream.evaluation.choices import Choice
    from spotsieve.stream.labelling.estimating import ChoiceEstimate
    from spotsieve.stream.labelling.labels import Labels
    from spotsieve.stream.settings.model import Settings


def reviewed(options: argparse.Namespace) -> "tuple[Labels, Settings]":
    """The labels, and the settings, which must be of the scheme that was reviewed. Raises InputError, SettingError."""
    from spotsieve.stream.labelling.labels import read_labels

    labels, settings = read_labels(Path(options.labels)), settings_of(options)
    if settings.scheme.name != labels.scheme:
        then = f"--set scheme.name={labels.scheme}, or the configuration that was reviewed: -c FILE"
        rule = f"must be {labels.scheme}, as in {options.labels}"
        raise SettingError("scheme.name", rule, settings.scheme.name, then)
    return labels, settings


def estimated(
    options: argparse.Namespace, labels: "Labels", settings: "Settings", choices: "Sequence[Choice]"
) -> "list[ChoiceEstimate]":
    """What each choice is worth on the files that were reviewed. Raises InputError, SettingError."""
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.kernels import compile_kernels
    from spotsieve.stream.labelling.estimating import estimate
    from spotsieve.stream.progress import COMPILING, ProgressLine
    from spotsieve.stream.schemes.registry import scheme_of

    names = [str(name) for name in getattr(options, "files", None) or options.sets]
    if "-" in names:
        raise SettingError("FILES", "must be files, which are read again", "-", "write standard input to a file first")
    inputs = check_inputs(names)
    with contextlib.closing(ProgressLine(sys.stderr, total_bytes(inputs))) as line:
        line.say(COMPILING)
        for scheme in {choice.settings.scheme.name: choice.settings.scheme for choice in choices}.values():
            compile_kernels(scheme_of(scheme))
        return estimate(inputs, settings, labels, choices, line.say)
