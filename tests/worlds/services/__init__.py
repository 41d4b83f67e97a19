"""Processes of the service: unchanged, killed at a step or with a defect; and the verdicts that they should give."""
