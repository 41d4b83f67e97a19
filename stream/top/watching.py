"""Looks at the workers of a service again and again, and remembers what each said at the last look."""

from collections.abc import Sequence

from spotsieve.stream.top.figures import Table, sample_worker, tables
from spotsieve.stream.top.scrape import NoAnswer, Scrape, scrape_all


class Watch:
    """The workers at these URLs. A worker that does not answer any more is shown as such, and asked again."""

    def __init__(self, urls: Sequence[str], most_hosts: int) -> None:
        """most_hosts: so many hosts with most dropped pages are shown"""
        self._urls = urls
        self._most_hosts = most_hosts
        self._last: dict[str, Scrape] = {}

    def tables(self) -> list[Table]:
        """Look again; rates are known from the second look on. Raises NoAnswer where no worker has ever answered."""
        found = dict(zip(self._urls, scrape_all(self._urls), strict=True))
        answers = {url: one for url, one in found.items() if isinstance(one, Scrape)}
        failed = [one for one in found.values() if isinstance(one, NoAnswer)]
        if not answers and not self._last:
            raise failed[0]
        looks = [sample_worker(self._last.get(url), now) for url, now in answers.items()]
        self._last |= answers
        return tables(looks, [url for url in self._urls if url not in answers], self._most_hosts)
