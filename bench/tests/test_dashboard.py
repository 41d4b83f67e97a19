"""The dashboard is generated from its code, and a real Prometheus with our metrics serves each of its queries."""

import contextlib
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from bench.deploy.dashboard.write import FILE, dashboard_text
from spotsieve.stream.demo.localkafka.broker import free_port
from spotsieve.stream.observe.metrics import Metrics
from tests.fixtures.debian import needs_debian
from tests.fixtures.waiting import SECONDS, wait_until

WORKER = {"job": "spotsieve", "instance": "w:9464"}
ALERT = {"alertname": "SpotsieveNotReady", "alertstate": "firing"}
"""The labels that Prometheus gives to a firing alert."""
POINTS, STEP_SECONDS = 40, 15
IN_PLACE_OF = {"$__rate_interval": "1m", "$__range": "5m", "$instance": ".*"}
"""The values of Grafana's own variables."""
_PLACED = json.loads(FILE.read_text("utf-8"))["panels"]
PANELS = [panel for one in _PLACED for panel in (one["panels"] if one["type"] == "row" else [one])]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


def as_grafana_asks(query: str) -> str:
    for word, value in IN_PLACE_OF.items():
        query = query.replace(word, value)
    return query


def counted() -> Metrics:
    """The metrics of a process that has seen every label."""
    metrics = Metrics()
    for by_partition in (metrics.lag, metrics.unstable, metrics.transaction_age):
        by_partition.labels("pages", 0).set(1)
    metrics.driver_patches.labels("frames").set(1)
    metrics.page_bytes.labels("novel").inc()
    metrics.retries.labels("fetch").inc()
    metrics.role.labels("shard", "0").set(1)
    metrics.count_rules({"https://example.org/": 1})
    metrics.observe_waiting([0], 12.0)
    for stage in ("prefetch", "find_candidates", "confirm", "resolve_hosts", "index"):
        metrics.stage.labels(stage).observe(0.1)
    metrics.commit_failures.labels("ProducerFenced").inc()
    metrics.build.info({"version": "0.1.0", "scheme": "spotsieve"})
    stats = dict.fromkeys(("entries", "bytes_on_disk", "floor", "watermark_ms", "swept_buckets"), 1)
    metrics.observe_state(stats, (2, 1))
    metrics.hosts.count([b"https://shop.example/"] * 100, [True] * 100)
    return metrics


def history(metrics: Metrics, end: float) -> str:
    """Ten minutes of every series in the format of OpenMetrics: counters grow by 30 per step."""
    lines = []
    for family in metrics.registry.collect():
        lines.append(f"# TYPE {family.name} {family.type}")
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in (sample.labels | WORKER).items())
            grows = family.type in {"counter", "histogram"}
            for point in range(POINTS):
                at = end - STEP_SECONDS * (POINTS - 1 - point)
                lines.append(f"{sample.name}{{{labels}}} {30 * point if grows else 1} {at:.3f}")
    labels = ",".join(f'{name}="{value}"' for name, value in {**ALERT, **WORKER}.items())
    lines += ["# TYPE ALERTS gauge", f"ALERTS{{{labels}}} 1 {end:.3f}"]
    return "\n".join([*lines, "# EOF\n"])


class Prometheus:
    """A real Prometheus on a port of its own, with a history."""

    def __init__(self, url: str, end: float) -> None:
        self._url = url
        self._end = end

    def ready(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as response:
            return bool(response.status == 200)
        return False

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series of the result at the end of the history. Raises HTTPError for an invalid query."""
        parameters = urllib.parse.urlencode({"query": query, "time": f"{self._end:.3f}"})
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{parameters}", timeout=60) as response:
            found: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    program, tool = (needs_debian("prometheus", program=name) for name in ("prometheus", "promtool"))
    folder = tmp_path_factory.mktemp("prometheus")
    end = float(int(time.time()))
    (folder / "history").write_text(history(counted(), end), "utf-8")
    (folder / "prometheus.yml").touch()
    backfill = [tool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "history"), str(folder / "data")]
    subprocess.run(backfill, check=True, capture_output=True)
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("w") as log:
        running = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        made = Prometheus(f"http://{address}", end)
        wait_until(made.ready, SECONDS, "Prometheus")
        yield made
    finally:
        running.terminate()
        running.wait(SECONDS)


def test_the_dashboard_is_what_its_code_writes() -> None:
    assert FILE.read_text("utf-8") == dashboard_text(), "run `make dashboard`"


def test_prometheus_answers_every_query_of_the_dashboard(prometheus: Prometheus) -> None:
    empty = [(title, query) for title, query in QUERIES if not prometheus.ask(as_grafana_asks(query))]
    assert empty == []


def test_a_legend_names_labels_that_the_answer_has(prometheus: Prometheus) -> None:
    wrong = []
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            response = prometheus.ask(as_grafana_asks(target["expr"]))
            wrong += [(panel["title"], named)] if not any(named <= one["metric"].keys() for one in response) else []
    assert wrong == []


def test_the_choice_of_workers_and_the_marks_of_rebalances_are_answered(prometheus: Prometheus) -> None:
    made = json.loads(FILE.read_text("utf-8"))
    (mark,) = made["annotations"]["list"]
    assert prometheus.ask(as_grafana_asks(mark["expr"]))
    (workers,) = [one for one in made["templating"]["list"] if one["type"] == "query"]
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", workers["query"])
    assert found is not None
    assert {one["metric"][found[2]] for one in prometheus.ask(found[1])} == {WORKER["instance"]}
