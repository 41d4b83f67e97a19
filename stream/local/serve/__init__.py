"""`spotsieve serve`: verdicts over HTTP for crawlers in other languages, on top of the library."""
