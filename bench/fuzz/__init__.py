"""Fuzzing of every reader of foreign bytes: targets, seeds, mutations, and the long run."""
