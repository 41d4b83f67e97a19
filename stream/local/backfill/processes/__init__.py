"""Readers as processes of this machine.

server.py     the process that readers are forked from
preload.py    loads numba first
preloaded.py  loads the kernels of the default scheme
readers.py    the readers, and the pipes for their calls
"""
