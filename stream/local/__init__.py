"""The engine without a broker: it filters files, answers queries and forgets pages, with a log in a file."""
