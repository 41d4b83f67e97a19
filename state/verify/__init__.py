"""Verifies every value of a state and of its local log against the stored formats."""
