"""The names of the filter in Scrapy, installed as `spotsieve.scrapy` (pyproject.toml).

A file scrapy.py or a folder scrapy/ at the root of the checkout would hide the package Scrapy from programs that run
there.
"""

from spotsieve.stream.local.scrapy import Addon, DuplicateMiddleware, DuplicatePipeline, DuplicateResponse

__all__ = ["Addon", "DuplicateMiddleware", "DuplicatePipeline", "DuplicateResponse"]
