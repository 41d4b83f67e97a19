"""Folds features into identities of a fixed size, and makes keys of them."""
