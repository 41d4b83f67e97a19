"""Every value of a state and its local log, checked against the formats."""
