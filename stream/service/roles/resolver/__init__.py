"""The resolver: which round comes next, what the shards' answers make of it, and what is said of it in `verdicts`."""
