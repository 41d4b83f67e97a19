"""The log: its records, the form in which the order of pages is written down, and the log as a file."""
