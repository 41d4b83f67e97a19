"""Readers as processes of this machine.

server.py    the process that readers are forked from
first.py     what it does before it loads anything
loaded.py    what it loads beside their modules, once for all of them
readers.py   the readers, and the pipes through which they are asked
"""
