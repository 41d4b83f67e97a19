"""Pages, crawls and messages that tests make up."""
