"""The schemes whose page is one 64-bit fingerprint: simhash, and tables that find those a few bits away."""
