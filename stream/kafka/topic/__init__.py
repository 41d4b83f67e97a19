"""Topics: made, checked and read by ranges, without a group."""
