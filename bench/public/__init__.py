"""Compares the filter with its peers on data that anyone can have: `make public`."""
