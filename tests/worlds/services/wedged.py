"""A worker that hangs: the unchanged service, whose judge thread or event loop never returns once armed.

    python -m tests.worlds.services.wedged judge -c CONFIG

runs `spotsieve run -c CONFIG` with watchdog bounds of seconds. The file CONFIG.armed arms it.
"""

import functools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.worlds.services.killed_at import armed_by, owner_of

STEPS = {
    "judge": "spotsieve.stream.engine:Engine.apply",
    "sign": "spotsieve.stream.service.worker:sign",
    "loop": "spotsieve.stream.service.pages.commit:Committer.submit",
}
BOUND_SECONDS = 3.0


def never_ending(step: Callable[..., Any], armed: Path) -> Callable[..., Any]:
    """The step, which never returns once it is armed."""

    @functools.wraps(step)
    def wedged(*arguments: Any, **named: Any) -> Any:
        if armed.exists():
            threading.Event().wait()
        return step(*arguments, **named)

    return wedged


def main(arguments: list[str]) -> int:
    """Patch the step, then run `spotsieve run`; returns its exit code."""
    from spotsieve.stream.cli import main as spotsieve
    from spotsieve.stream.observe import health

    name, _, config = arguments
    health.LOOP_SECONDS = health.TASK_SECONDS = BOUND_SECONDS
    owner, step = owner_of(STEPS[name])
    setattr(owner, step, never_ending(getattr(owner, step), armed_by(Path(config))))
    return spotsieve(["run", "-c", config])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
