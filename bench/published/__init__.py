"""Runs published files of other projects through the intake: `make archives` and `make standards`."""
