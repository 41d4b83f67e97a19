"""Turns a state into JSON Lines, which other programs can read, and makes a state from them again."""
