"""Text of a page: from bytes to blocks of tokens, with the markup scanner, its frozen tables and the token hash."""
