"""Test fixtures that several test folders share: pages, crawls, states, brokers and services.

Code that test modules of different folders share is here, in tests/reference (the reference implementations of
kernels), in tests/conftest.py (pytest fixtures) or in bench (measuring programs). A test module imports nothing from
another test module, and this package imports neither tests nor bench (checked by tests/unit/deploy/test_tree.py).
"""
