"""`spotsieve serve`: verdicts over HTTP, for crawlers in other languages. It stands on the library."""
