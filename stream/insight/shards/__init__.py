"""Looks at a service of shards from its topics alone, and asks its resolver for another number of shards.

reading.py reads the ends of the topics, status.py says what these mean, awaiting.py who holds a round up, told_text.py
says it to a person, and asking.py asks for a resize. Nothing here is a member of a group, and only an ask writes.
"""
