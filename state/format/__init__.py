"""Encodes and decodes stored values, one module for each kind of value. state/FORMATS.md has the grammar."""
