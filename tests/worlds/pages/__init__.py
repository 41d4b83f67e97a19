"""Generated pages, crawls and messages for tests."""
