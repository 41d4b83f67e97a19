"""Encodes log records, which define the order of pages, and stores a local log in a file."""
