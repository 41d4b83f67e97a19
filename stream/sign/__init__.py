"""From page bytes to a signature: intake, text, features, fingerprints and the published schemes."""
