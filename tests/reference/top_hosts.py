"""Reference for the Space-Saving summary: one page after another, as Metwally et al. 2005 print it (fig. 1)."""

from collections.abc import Iterable


def space_saving(pages: Iterable[tuple[str, bool]], capacity: int) -> dict[str, tuple[int, int, int]]:
    """pages: (host, dropped) of each -> of each counted host: pages and dropped ones since, and what it missed."""
    count: dict[str, int] = {}
    error: dict[str, int] = {}
    dropped: dict[str, int] = {}
    place: dict[str, int] = {}
    for host, is_dropped in pages:
        if host not in count:
            if len(count) < capacity:
                place[host], count[host], error[host] = len(count), 0, 0
            else:
                least = min(count, key=lambda one: (count[one], place[one]))
                place[host], count[host], error[host] = place.pop(least), count[least], count[least]
                del count[least], error[least], dropped[least]
            dropped[host] = 0
        count[host] += 1
        dropped[host] += is_dropped
    return {host: (count[host] - error[host], dropped[host], error[host]) for host in count}
