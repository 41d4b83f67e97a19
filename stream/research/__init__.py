"""Measures schemes: labelled sets, scores, evaluation reports and the models that some schemes need."""
