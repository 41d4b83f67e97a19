"""The log topic: read, followed, appended to, and what all readers pass over."""
