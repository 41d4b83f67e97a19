"""The bytes of what is stored; state/FORMATS.md has the grammar."""
