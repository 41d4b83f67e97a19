"""`make exact`: every scheme that claims to find all copies, against brute force, on many random stores and on sets."""
