"""A page that breaks the code, in any step, is emitted unchecked and kept for a report; all others are judged."""

import base64
import json
import stat
from pathlib import Path

import pytest

from spotsieve.stream.service.pages.poison_pages import FOLDER
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet, header
from tests.fixtures.pages.crawls import edited, html_of, json_page
from tests.fixtures.services.breaking import STEPS, WORD
from tests.fixtures.services.service import Spotsieve

BROKEN = (17, 18, 40)


@pytest.mark.guarantee(
    "a page that causes an internal error stops no worker", fault="decoding, signing or judging it raises"
)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
def test_a_page_that_breaks_a_step_is_passed_on_unchecked_and_kept(kafka: Broker, tmp_path: Path, step: str) -> None:
    pages = [
        json_page(n, html_of(n), **({"url": f"https://a.example/{WORD}/{n}"} if n in BROKEN else {})) for n in range(50)
    ]
    copies = [json_page(100 + n, edited(html_of(n))) for n in (3, BROKEN[0])]
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        Spotsieve(tmp_path, topics.toml(), module="tests.fixtures.services.breaking", command=(step,)) as service,
    ):
        topics.send(pages)
        service.start().until_ready()
        service.until_committed(50)
        topics.send(copies)
        service.until_committed(52)
        assert service.metric("spotsieve_poison_pages_total", step=step) == len(BROKEN)
        assert service.metric("spotsieve_pages_total", verdict="unchecked", reason="internal_error") == len(BROKEN)
        assert service.get("/healthz")[0] == 200
        assert service.terminate() == 0, service.text()
        passed = {record.key: record for record in topics.read("novel")}
        assert {key: passed[key].value for page in pages if (key := page.key)} == {
            page.key: page.value for page in pages
        }
        reasons = [header(passed[page.key], "spotsieve-reason") for page in pages]
        assert reasons == [b"internal_error" if n in BROKEN else b"no_match" for n in range(50)]
        assert passed.keys() - {page.key for page in pages} == {copies[1].key}, "what broke the code is no original"
        assert [record.key for record in topics.read("duplicates")] == [copies[0].key]
        reported = [line for line in service.lines() if "a defect of Spotsieve stopped this page" in line["event"]]
        assert [line["page"] for line in reported] == [f"{topics.names['input']}/0/{n}" for n in BROKEN]
        assert all("Defect" in line["exception"] for line in reported)
        kept = Path(reported[0]["kept"])
        assert (kept.parent, stat.S_IMODE(kept.stat().st_mode)) == (service.state / FOLDER, 0o600)
        report = json.loads(kept.read_text())
        assert base64.b64decode(report["value_base64"]) == pages[BROKEN[0]].value
        assert (report["step"], "Defect" in report["traceback"]) == (step, True)
