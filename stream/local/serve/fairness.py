"""Shares of the HTTP port among its clients: capacity, turns, and the order in which requests are read and judged."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class BusyError(Exception):
    """The capacity is exhausted; the client should retry later."""


class DisconnectedError(Exception):
    """The client of a request disconnected, so there is no response."""


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
            largest = max(
                (one for one in self._by_client[crowd] if one.gives_way), key=attrgetter("amount"), default=None
            )
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


RECENT_SECONDS = 2.0
"""A client counts for so long after its last request."""


class RecentClients:
    """The clients that sent requests in the last RECENT_SECONDS. Its length is their number."""

    def __init__(self) -> None:
        self._last = dict[str, float]()
        """Client -> time.monotonic() of its last request, in the order of these times."""

    def note(self, client: str) -> None:
        """A client sends a request."""
        self._last.pop(client, None)
        self._last[client] = time.monotonic()

    def __len__(self) -> int:
        since = time.monotonic() - RECENT_SECONDS
        while self._last and self._last[oldest := next(iter(self._last))] < since:
            del self._last[oldest]
        return len(self._last)


FLOOD_TURNS = 4
"""Requests of a client that floods the port that go on at a time, and the fewest of each of many clients."""


class Turns:
    """Lets a number of requests go on at a time; the others wait in the order of their arrival.

    Clients share this number. A client with more requests that wait than this number floods the port: where there are
    other clients, it has FLOOD_TURNS.
    """

    def __init__(self, most: int, clients: RecentClients) -> None:
        self._most = most
        self._clients = clients
        self._running = Counter[str]()
        self._waiting = dict[str, deque[tuple[asyncio.Future[bool], Callable[[], bool]]]]()

    @asynccontextmanager
    async def turn(self, client: str, is_gone: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
        """Wait for a turn, and have it while the block runs.

        is_gone: whether the client has disconnected. Then the request gets no turn. Raises DisconnectedError.
        """
        self._clients.note(client)
        if client not in self._waiting and self._running[client] < self._share(client):
            self._running[client] += 1
        elif not await self._wait(client, is_gone):
            raise DisconnectedError
        try:
            yield
        finally:
            self._end(client)

    def _share(self, client: str) -> int:
        """The number of turns that a client may have."""
        clients = len(self._clients)
        if clients < 2:
            return self._most
        floods = len(self._waiting.get(client, ())) > self._most
        return min(self._most, FLOOD_TURNS if floods else max(FLOOD_TURNS, self._most // clients))

    async def _wait(self, client: str, is_gone: Callable[[], bool]) -> bool:
        """Wait for a turn; returns False if the client has disconnected meanwhile."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append((turn, is_gone))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._end(client)
            raise

    def _end(self, client: str) -> None:
        """End a turn, and give turns to the next requests."""
        self._running[client] -= 1
        waiting, share = self._waiting.get(client, ()), self._share(client)
        while waiting and self._running[client] < share:
            turn, is_gone = waiting.popleft()
            if turn.done():
                continue
            turn.set_result(not is_gone())
            self._running[client] += turn.result()
        if not waiting:
            self._waiting.pop(client, None)
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

        turn: the total size of the jobs of each client, at least one job
        """
        batch, total, taken = list[T](), 0, Counter[str]()
        skipped = 0
        while skipped < len(self._by_client):
            client, jobs = next(iter(self._by_client.items()))
            size = self._size(jobs[0])
            if batch and total + size > most:
                break
            del self._by_client[client]
            if taken[client] and taken[client] + size > turn:
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


class PausableReader(Protocol):
    """A connection whose received bytes can wait."""

    def read(self, data: bytes) -> None:
        """Parse received bytes."""

    def wait(self) -> None:
        """Receive nothing more until go_on()."""

    def go_on(self) -> None:
        """Receive again."""


class ReadQueue:
    """Shares the time of the event loop among clients that send bytes.

    In each turn of the loop, the bytes of a client are read at once for SLICE_SECONDS. What it sends beyond that waits,
    one received part for each of its connections, and is read in later turns, where clients alternate. So the bytes of
    one client never wait for those of all connections of another, and a client that is alone has the whole loop.
    """

    def __init__(self) -> None:
        self._waiting = dict[str, deque[tuple[PausableReader, bytes]]]()
        self._spent = dict[str, float]()
        """Client -> seconds that reading its bytes took in this turn."""

    def receive(self, client: str, reader: PausableReader, data: bytes) -> None:
        """Read bytes now or, if their client has used its share of this turn, later."""
        if not self._spent and not self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if client in self._waiting or self._spent.get(client, 0.0) >= SLICE_SECONDS:
            self._waiting.setdefault(client, deque()).append((reader, data))
            reader.wait()
        else:
            self._read(client, reader, data)

    def _read(self, client: str, reader: PausableReader, data: bytes) -> None:
        began = time.perf_counter()
        try:
            reader.read(data)
        finally:
            self._spent[client] = self._spent.get(client, 0.0) + time.perf_counter() - began

    def _next_turn(self) -> None:
        """Begin a turn, with bytes that wait for SLICE_SECONDS."""
        self._spent.clear()
        if not self._waiting:
            return
        asyncio.get_running_loop().call_soon(self._next_turn)  # First, so that an error below ends no later turn.
        end = time.perf_counter() + SLICE_SECONDS
        while self._waiting and time.perf_counter() < end:
            client, parts = next(iter(self._waiting.items()))
            reader, data = parts.popleft()
            del self._waiting[client]
            if parts:
                self._waiting[client] = parts  # Behind all other clients.
            try:
                self._read(client, reader, data)
            finally:
                reader.go_on()


SLICE_SECONDS = 0.001
"""Longest time, but for the last read, that the event loop reads bytes of one client in a turn."""
