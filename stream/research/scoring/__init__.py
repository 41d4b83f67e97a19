"""Scores verdicts against the labels of a set, by page, by link and by cluster."""

from spotsieve.stream.research.scoring.measures import Scores, score
from spotsieve.stream.research.scoring.truth import Label, Truth, check_verdicts, load_truth

__all__ = ["Label", "Scores", "Truth", "check_verdicts", "load_truth", "score"]
