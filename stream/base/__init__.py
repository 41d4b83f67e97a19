"""The base of all districts: errors, settings, the page, its signature and its verdict."""
