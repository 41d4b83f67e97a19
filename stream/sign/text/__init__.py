"""From page bytes to blocks of tokens: the markup scanner, its frozen tables and the token hash."""
