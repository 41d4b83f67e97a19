"""Dashboard and alert rules use the metrics that the service really has."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from spotsieve.stream.observe.metrics import Metrics
from tests.conftest import REPOSITORY
from tests.fixtures.debian import needs_debian

DEPLOY = REPOSITORY / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "spotsieve.json"
PROMETHEUS = DEPLOY / "prometheus"
RULE_TESTS = sorted(PROMETHEUS.glob("alerts*.test.yml"))
SUFFIXES = ("_total", "_bucket", "_sum", "_count", "_info", "_created")


def dashboard() -> dict[str, Any]:
    loaded = json.loads(DASHBOARD.read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def rows() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] == "row"]


def panels() -> list[dict[str, Any]]:
    """All panels, those of collapsed rows too."""
    outside = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    return outside + [panel for row in rows() for panel in row["panels"]]


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def family(name: str) -> str:
    """A series' name without what the exposition format adds to it."""
    return re.sub(f"({'|'.join(SUFFIXES)})$", "", name)


def families_of(text: str) -> set[str]:
    return {family(name) for name in re.findall(r"(?<![:\w])spotsieve_\w+", text)}


def families_served() -> set[str]:
    return {metric.name for metric in Metrics().registry.collect() if metric.name.startswith("spotsieve_")}


def promtool(*arguments: str) -> str:
    tool = needs_debian("prometheus", program="promtool")
    done = subprocess.run([tool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_dashboard_shows_every_metric_of_the_service_and_no_other() -> None:
    shown, served = families_of("\n".join(queries())), families_served()
    assert sorted(served - shown) == [], "add a panel in bench/deploy/dashboard, then run `make dashboard`"
    assert sorted(shown - served) == [], "no such metric in stream/observe/metrics.py"


def test_alert_rules_ask_only_for_metrics_that_exist() -> None:
    queried = families_of("\n".join(rule["expr"] for rule in rules()))
    assert queried
    assert queried <= families_served()


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len(alerts) >= 6
    for alert in alerts:
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert alert["annotations"]["summary"]
        assert len(alert["annotations"]["description"]) > 80


def test_every_alert_is_seen_firing_by_a_rule_test() -> None:
    fired = set()
    for test in (test for file in RULE_TESTS for test in yaml.safe_load(file.read_text("utf-8"))["tests"]):
        for queried in test.get("promql_expr_test", []):
            if queried["exp_samples"] and "ALERTS{" in queried["expr"]:
                found = {
                    name for sample in queried["exp_samples"] for name in re.findall(r"Spotsieve\w+", sample["labels"])
                }
                fired |= found or set(re.findall(r'alertname="(\w+)"', queried["expr"]))
        fired |= {queried["alertname"] for queried in test.get("alert_rule_test", []) if queried["exp_alerts"]}
    missing = [rule["alert"] for rule in rules() if "alert" in rule and rule["alert"] not in fired]
    assert missing == [], "add a test of the alert to deploy/prometheus/alerts.test.yml"


def test_every_alert_has_a_section_of_the_runbook_and_leads_there() -> None:
    sections = re.findall(r"(?m)^### (\w+)\n\n\S", (REPOSITORY / "docs" / "runbook.md").read_text("utf-8"))
    alerts = [rule for rule in rules() if "alert" in rule]
    assert sorted(sections) == sorted(alert["alert"] for alert in alerts), (
        "one section of docs/runbook.md for each alert"
    )
    for alert in alerts:
        assert alert["annotations"]["runbook_url"] == f"docs/runbook.md#{alert['alert'].lower()}"


def test_the_alert_of_skewed_shards_counts_the_work_that_its_panel_shows() -> None:
    stages = re.compile(r'stage=~"([^"]*)"')
    (panel,) = [panel for panel in panels() if panel["title"] == "Skew between shards"]
    (rule,) = [rule for rule in rules() if rule.get("record") == "instance:spotsieve_shard_busy:rate30m"]
    assert stages.findall(rule["expr"])
    assert {*stages.findall(panel["targets"][0]["expr"])} == {*stages.findall(rule["expr"])}


def test_panels_have_a_title_a_meaning_and_a_place_of_their_own() -> None:
    taken: dict[tuple[int, int], str] = {}
    assert all(panel["title"] and panel["description"] for panel in panels())
    for panel in (*rows(), *panels()):
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert (x, y) not in taken, f"{panel['title']} lies over {taken[x, y]}"
                taken[x, y] = panel["title"]
    ids = [panel["id"] for panel in (*rows(), *panels())]
    assert len(ids) == len(set(ids))


def test_rows_ask_in_order_whether_it_is_well_why_not_and_what_is_dropped() -> None:
    first, *others = rows()
    assert (first["title"], first["collapsed"], first["panels"]) == ("Is it well?", False, [])
    assert [row["title"] for row in others if not (row["collapsed"] and row["panels"])] == []
    questions = [row["title"].partition("? ")[0].partition(":")[0] for row in others]
    assert questions == sorted(questions, key=["Why not", "What is dropped"].index)
    assert set(questions) == {"Why not", "What is dropped"}
    shown = {panel["title"] for panel in dashboard()["panels"]}
    assert {"Ready workers", "Firing alerts", "Waiting pages", "Share dropped"} <= shown, "seen without opening a row"


def test_the_dashboard_counts_the_alerts_that_are_ours() -> None:
    ours = {rule["alert"] for rule in rules() if "alert" in rule}
    counted = {pattern for query in queries() for pattern in re.findall(r'ALERTS\{alertname=~"([^"]+)"', query)}
    assert len(counted) == 1
    assert [name for name in ours if not re.fullmatch(min(counted), name)] == []


def test_every_query_can_be_narrowed_to_one_worker() -> None:
    selectors = [selector for query in queries() for selector in re.findall(r"\{([^}]*)\}", query)]
    assert [selector for selector in selectors if 'instance=~"$instance"' not in selector] == []


def test_grafana_finds_the_dashboard_and_prometheus_where_compose_mounts_them() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    mounts = dict(mount.split(":")[:2] for mount in services["grafana"]["volumes"])
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/spotsieve.yaml").read_text("utf-8"))
    assert mounts["./grafana/dashboards"] == provider["providers"][0]["options"]["path"]
    assert mounts["./grafana/provisioning"] == "/etc/grafana/provisioning"
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text("utf-8"))
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{mounts['./grafana/dashboards']}/{DASHBOARD.name}"


def test_prometheus_scrapes_every_service_of_compose_that_runs_a_part_of_the_filter() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    job = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))["scrape_configs"][0]
    running = [name for name, service in services.items() if service.get("command", [""])[0] == "run"]
    assert "filter" in running
    assert sorted(job["dns_sd_configs"][0]["names"]) == sorted(running)
    mounted = {Path(mount.split(":")[0]).name for mount in services["prometheus"]["volumes"]}
    assert {"prometheus.yml", "alerts.yml"} <= mounted


def test_prometheus_accepts_its_configuration() -> None:
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml")


def test_prometheus_accepts_the_alert_rules() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", "alerts.yml")


def test_alerts_fire_when_they_should_and_not_before() -> None:
    promtool("test", "rules", *(file.name for file in RULE_TESTS))
