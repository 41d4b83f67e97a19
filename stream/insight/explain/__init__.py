"""Explains a verdict: what a page meets, what each pair has and needs, and the two texts side by side."""
