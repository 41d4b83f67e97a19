"""The way of a page: from bytes to verdict, and the service around it."""
