"""A `spotsieve run` process that freezes itself (SIGSTOP) while the broker holds an open transaction of it."""

from dataclasses import dataclass

from tests.worlds.services.killed_at import FROZEN, SAID, armed_by
from tests.worlds.services.service import Spotsieve
from tests.worlds.waiting import SECONDS, wait_until

STEP = "outputs sent"


@dataclass
class Freezing(Spotsieve):
    """A service that freezes once it is armed and has sent the outputs of a number of transactions.

    A test that froze it from outside would have to hit the moment by chance.
    """

    transactions: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.module = "tests.worlds.services.killed_at"
        self.command = (STEP, str(self.transactions), FROZEN)

    def arm(self) -> None:
        """Count transactions from now on."""
        armed_by(self.config).touch()

    def until_frozen(self) -> None:
        """Wait until it stands in a transaction; `thaw` resumes it, and it does not freeze again."""
        wait_until(lambda: SAID.format(STEP) in self.text().splitlines(), SECONDS, f"{self.name} to freeze")
