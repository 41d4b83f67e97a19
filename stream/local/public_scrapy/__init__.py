"""The names of the filter in Scrapy, installed as `spotsieve.scrapy` (pyproject.toml).

A module of this name at the root of the checkout would hide the package Scrapy from programs that run there.
"""

from spotsieve.stream.local.scrapy import Addon, DuplicateMiddleware, DuplicatePipeline, DuplicateResponse

__all__ = ["Addon", "DuplicateMiddleware", "DuplicatePipeline", "DuplicateResponse"]
