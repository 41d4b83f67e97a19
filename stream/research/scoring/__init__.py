"""Scores verdicts: the labels of a set, and the measures of pages, links and clusters against them."""

from spotsieve.stream.research.scoring.measures import Scores, score
from spotsieve.stream.research.scoring.truth import Label, Truth, check_verdicts, load_truth

__all__ = ["Label", "Scores", "Truth", "check_verdicts", "load_truth", "score"]
