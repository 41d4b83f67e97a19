"""Runs readers as processes of this machine.

server.py     the process that readers are forked from
preload.py    what it imports first
preloaded.py  what it imports once for all readers, beside their modules
readers.py    the readers, and the pipes to them
"""
