"""Holds the bytes of what is stored, a module for each stored thing. state/FORMATS.md has the grammar."""
