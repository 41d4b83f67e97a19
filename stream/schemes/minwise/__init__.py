"""The schemes whose page is a sketch of minwise hashes."""
