"""The spiders of the project."""
