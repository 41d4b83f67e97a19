"""Verdicts do not depend on the CPU: the kernels give the same on the plainest x86-64 as on this one."""

import hashlib
import platform
import subprocess
import sys

import pytest

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.conftest import REPOSITORY
from tests.fixtures.kernels import compiled_by
from tests.fixtures.pages.crawls import html_of

PAGES = 64


def digest_of_signatures() -> str:
    """A digest over fingerprints, spot counts and body digests of generated pages, markup and plain."""
    settings = Settings()
    scheme = scheme_of(settings.scheme)
    bodies = [
        html_of(number).encode() + "<p>Ünïcode &eacute;&#x1D49C; 漢字 and the rest".encode() for number in range(PAGES)
    ]
    pages = [Page("cpu", 0, number, "", body, number % 4 > 0, 0) for number, body in enumerate(bodies)]
    signatures = scheme.sign(pages)
    digest = hashlib.sha256(signatures.fingerprint.tobytes())
    digest.update(signatures.feature_count.tobytes())
    digest.update(signatures.digest.tobytes())
    return digest.hexdigest()


@pytest.mark.compiles
@pytest.mark.timeout(900)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names an x86-64 target")
def test_signatures_are_the_same_on_a_cpu_without_vector_extensions() -> None:
    # As optimised as the kernels of this process: vector instructions come from the optimiser.
    plain = compiled_by("plain-cpu", NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="", NUMBA_OPT="3")
    program = "from tests.unit.text.test_text_cpu import digest_of_signatures; print(digest_of_signatures())"
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=plain, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == digest_of_signatures()
