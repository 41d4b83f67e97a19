"""Shares of the HTTP port among its clients: capacity, turns, and the order in which requests are judged."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class BusyError(Exception):
    """The capacity is exhausted; the client should retry later."""


class Claim:
    """The amount that one request uses. gives_way: whether it may lose it to smaller requests, as while it arrives"""

    __slots__ = ("_capacity", "amount", "client", "gives_way", "lost")

    def __init__(self, capacity: "Capacity", client: str) -> None:
        self._capacity = capacity
        self.client = client
        self.amount = 0
        self.gives_way: Callable[[], None] | None = None
        self.lost = False

    def grow(self, amount: int) -> None:
        """Use more. Raises BusyError if it exceeds the free capacity."""
        self._capacity.take(self, amount)


class Capacity:
    """A limit on a quantity in use, such as bytes or pages, of which one client has at most a share.

    A request beyond the whole limit is admitted while nothing else is in use, and beyond the share while its client
    uses nothing else. Where the capacity is exhausted, the largest request that gives way loses what it has:
    otherwise a client could hold everything by requests that arrive slowly.
    """

    def __init__(self, most: int, share: float, what: str) -> None:
        """what: the unit of the quantity, for errors"""
        self.used = 0
        self._most = most
        self._client_most = max(1, int(most * share))
        self._what = what
        self._by_client = dict[str, dict[Claim, None]]()
        self._used_by = Counter[str]()

    @contextmanager
    def claim(self, client: str) -> Iterator[Claim]:
        """A claim that ends with the block, and has nothing at first."""
        claim = Claim(self, client)
        self._by_client.setdefault(client, {})[claim] = None
        try:
            yield claim
        finally:
            self._release(claim)
            del self._by_client[client][claim]
            if not self._by_client[client]:
                del self._by_client[client]
                del self._used_by[client]

    def take(self, claim: Claim, amount: int) -> None:
        """Add to a claim. Raises BusyError if it exceeds the free capacity."""
        while (crowd := self._full_for(claim, amount)) is not None:
            largest = max((one for one in self._by_client[crowd] if one.gives_way), key=_amount, default=None)
            if largest is None or largest.amount <= claim.amount + amount:
                raise BusyError(
                    f"too many requests are in progress: {self.used:,} of {self._most:,} {self._what}; "
                    f"retry in a second"
                )
            self._release(largest)
            largest.lost = True
            assert largest.gives_way is not None
            largest.gives_way()
            largest.gives_way = None
        claim.amount += amount
        self.used += amount
        self._used_by[claim.client] += amount

    def _full_for(self, claim: Claim, amount: int) -> str | None:
        """The client that uses too much for a claim to grow; None if there is room."""
        own = self._used_by[claim.client]
        if own > claim.amount and own + amount > self._client_most:
            return claim.client
        if self.used > claim.amount and self.used + amount > self._most:
            return max(self._used_by, key=self._used_by.__getitem__)
        return None

    def _release(self, claim: Claim) -> None:
        self.used -= claim.amount
        self._used_by[claim.client] -= claim.amount
        claim.amount = 0


def _amount(claim: Claim) -> int:
    return claim.amount


class Turns:
    """Lets a number of requests of each client go on at a time; the others wait in the order of their arrival."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running = dict[str, int]()
        self._waiting = dict[str, deque[asyncio.Future[None]]]()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it while the block runs."""
        running = self._running.get(client, 0)
        if running < self._most:
            self._running[client] = running + 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._pass_on(client)

    async def _wait(self, client: str) -> None:
        waiting = self._waiting.setdefault(client, deque())
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on(client)
            raise

    def _pass_on(self, client: str) -> None:
        """Give a turn that has ended to the next request."""
        waiting = self._waiting.get(client)
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(client, None)
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]


class FairQueue(Generic[T]):
    """Waiting jobs. Clients take turns, and the jobs of each keep their order. size: the size of a job"""

    def __init__(self, size: Callable[[T], int]) -> None:
        self._size = size
        self._by_client = dict[str, deque[T]]()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def first(self) -> T:
        """The job that is taken next."""
        return next(iter(self._by_client.values()))[0]

    def put(self, client: str, job: T) -> None:
        """Add a job behind the other ones of its client."""
        self._by_client.setdefault(client, deque()).append(job)
        self._length += 1

    def take(self, most: int, turn: int) -> list[T]:
        """Remove the next jobs, at least one, up to a total size.

        turn: the total size of the jobs of each client, at least one job, where several clients wait
        """
        batch, total, taken = list[T](), 0, Counter[str]()
        client_most = turn if len(self._by_client) > 1 else most
        skipped = 0
        while skipped < len(self._by_client):
            client, jobs = next(iter(self._by_client.items()))
            size = self._size(jobs[0])
            if batch and total + size > most:
                break
            del self._by_client[client]
            if taken[client] and taken[client] + size > client_most:
                self._by_client[client] = jobs
                skipped += 1
                continue
            skipped = 0
            batch.append(jobs.popleft())
            total += size
            taken[client] += size
            self._length -= 1
            if jobs:
                self._by_client[client] = jobs  # Behind all others.
        return batch
