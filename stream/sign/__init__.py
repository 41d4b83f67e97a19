"""Signing: from page bytes to a signature, by intake, text, features, fingerprints and the published schemes."""
