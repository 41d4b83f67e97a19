"""The settings of the project. The add-on skips the responses that are copies of earlier ones."""

BOT_NAME = "crawl"
SPIDER_MODULES = ["crawl.spiders"]
ADDONS = {"spotsieve.scrapy.Addon": 500}
SPOTSIEVE_STATE = "seen"
