"""The log topic: reading, following and appending, and the records that all readers skip."""
