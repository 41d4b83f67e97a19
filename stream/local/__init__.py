"""The engine without a broker: pages of files filtered, asked about or forgotten, with a log in a file."""
