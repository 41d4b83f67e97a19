"""The settings: a frozen model of all of them, read once at the edge, and which of them change verdicts."""
