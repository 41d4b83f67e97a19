"""The hosts with most pages are found in bounded memory: against the reference, and against exact counts."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spotsieve.stream.observe.top_hosts import TopHosts
from tests.reference.top_hosts import space_saving

HOSTS = st.sampled_from([f"{letter}.example" for letter in "abcdefghijkl"])
PAGES = st.lists(st.tuples(HOSTS, st.booleans()), max_size=200)


def counted(hosts: TopHosts) -> dict[str, tuple[int, int, int]]:
    return {one.host: (one.pages, one.dropped, one.missed) for one in hosts.counts()}


@given(PAGES, st.integers(1, 6))
def test_pages_one_by_one_are_counted_as_the_paper_does(pages: list[tuple[str, bool]], capacity: int) -> None:
    hosts = TopHosts(capacity)
    for host, dropped in pages:
        hosts.add([host], [dropped])
    assert counted(hosts) == space_saving(pages, capacity)


@given(st.lists(PAGES, max_size=8), st.integers(1, 6))
def test_every_large_host_is_counted_and_what_it_missed_is_bounded(
    batches: list[list[tuple[str, bool]]], capacity: int
) -> None:
    hosts, true = TopHosts(capacity), Counter[str]()
    for pages in batches:
        hosts.add([host for host, _ in pages], [dropped for _, dropped in pages])
        true.update(host for host, _ in pages)
    found, bound = counted(hosts), true.total() / capacity
    assert len(found) <= capacity
    assert {host for host, number in true.items() if number > bound} <= found.keys()
    for host, (number, dropped, missed) in found.items():
        assert missed <= bound
        assert number <= true[host] <= number + missed
        assert dropped <= number
