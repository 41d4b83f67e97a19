"""Runs the engine without a broker: filters files, answers queries and forgets pages, with the log in a local file."""
