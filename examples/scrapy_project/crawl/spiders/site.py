"""A spider that follows all links of a site and yields one item for each novel page."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.http import Response


class Site(scrapy.Spider):
    """Crawls the site of the argument `url`."""

    name = "site"

    async def start(self) -> AsyncIterator[Any]:
        """The first request. A page of links may be equal at each visit, so it is not judged."""
        yield scrapy.Request(self.url, meta={"spotsieve": False})

    def parse(self, response: Response) -> Iterator[Any]:
        """An item, and requests for the links of the page."""
        yield {"url": response.url, "title": response.css("title::text, h1::text").get()}
        yield from response.follow_all(css="a")
