"""What is taken from a page's tokens to tell pages apart."""
