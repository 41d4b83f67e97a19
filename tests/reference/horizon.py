"""The horizon: every page's step is kept, and an entry counts unless it is dead. Reference for state.horizon."""

from spotsieve.stream.base.signature import Signatures
from tests.reference.judge import ObviousJudge, Outcome

STEPS = 64


class ForgetfulJudge:
    """The obvious judge with a horizon: before each page it forgets, everywhere, the entries that are dead."""

    def __init__(self, judge: ObviousJudge, step_ms: int) -> None:
        self._judge = judge
        self._step_ms = step_ms
        self._filed_in: list[int] = []
        self._watermark_ms: int | None = None

    def judge(self, signatures: Signatures) -> list[Outcome]:
        """-> the outcome of each page, in order."""
        return [
            self._judge_page(signatures.part(index, index + 1), time)
            for index, time in enumerate(signatures.event_time_ms.tolist())
        ]

    def living(self) -> set[int]:
        """The numbers of the entries that count now."""
        return {number for number, step in enumerate(self._filed_in) if not self._dead(step)}

    def buckets(self) -> dict[object, list[tuple[int, int]]]:
        """The live postings of every bucket that is not empty."""
        self._forget()
        return {key: postings for key, postings in self._judge.buckets.items() if postings}

    def _judge_page(self, page: Signatures, time: int) -> Outcome:
        self._watermark_ms = time if self._watermark_ms is None else max(self._watermark_ms, time)
        self._forget()
        (outcome,) = self._judge.judge(page)
        self._filed_in += [self._step()] * (len(self._judge.entries) - len(self._filed_in))
        return outcome

    def _forget(self) -> None:
        for key, postings in self._judge.buckets.items():
            self._judge.buckets[key] = [one for one in postings if not self._dead(self._filed_in[one[0]])]

    def _step(self) -> int:
        assert self._watermark_ms is not None
        return self._watermark_ms // self._step_ms

    def _dead(self, step: int) -> bool:
        return self._step() > step + STEPS
