"""A Scrapy project that follows the links of novel pages only: scrapy crawl site -a url=https://example.org/."""
