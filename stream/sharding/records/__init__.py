"""Encodes and decodes the records between shards and the resolver; state/FORMATS.md gives every byte.

frame.py     the frame of every record, and the packed columns of bodies
shard.py     bodies that shards write
resolver.py  bodies that the resolver writes, and resizes
"""
