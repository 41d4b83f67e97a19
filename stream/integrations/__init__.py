"""The filter inside other programs, each with its own package: crawlers' frameworks."""
