"""`make exact` compares every exact scheme with brute force, on many random stores and on labelled sets."""
