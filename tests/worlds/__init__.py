"""The worlds that tests take place in: pages, crawls, states, brokers and services that several test folders share.

What two test modules of different folders need is here, in tests/reference (the obvious twins of kernels), in
tests/conftest.py (fixtures) or in bench (measuring programs). A test module imports nothing from another test
module, and worlds import neither tests nor measurements; tests/unit/deploy/test_tree.py holds the tests to it.
"""
