"""What every district builds on: errors, settings, the page, its signature and its verdict."""
