"""The manifests and the compose file of a service whose state shards hold: roles, numbers, volumes and probes fit."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.deploy.chart import DEPLOY, MANIFESTS, check_resource, documents, helm_here, helm_template
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.cli import _parser
from spotsieve.stream.cli.run import opener_of

_, SCALED, KEDA, _, OPERATOR = MANIFESTS
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
IN_PROFILE = {name: service for name, service in COMPOSE.items() if service.get("profiles") == ["scaled"]}
ROLES = {name: service for name, service in IN_PROFILE.items() if service["command"][0] == "run"}
RESOURCES = documents(SCALED.read_text("utf-8"))
WORKLOADS: dict[str, Any] = {
    one["metadata"]["labels"]["app.kubernetes.io/component"]: one
    for one in RESOURCES
    if one["kind"] in {"Deployment", "StatefulSet"}
}
STATE = "/var/lib/spotsieve"


def pod(role: str) -> Any:
    return WORKLOADS[role]["spec"]["template"]


def container(role: str) -> Any:
    (found,) = pod(role)["spec"]["containers"]
    return found


def given(environment: Mapping[str, str], config: Path, args: list[str]) -> None:
    """Refuse a command that our command line, our settings or the roles themselves would refuse."""
    options = _parser(args).parse_args(args)
    assert (options.command, options.config.name) == ("run", "spotsieve.toml")
    settings = load_settings(config, environment, {})
    opener_of(options.role, options.shard, settings)


def test_every_resource_of_the_scaled_manifests_fits_the_schema_of_kubernetes() -> None:
    for one in RESOURCES:
        check_resource(one)
    assert set(WORKLOADS) == {"worker", "shard", "resolver"}


def test_each_role_runs_by_a_command_and_settings_of_ours(tmp_path: Path) -> None:
    (config_map,) = [one for one in RESOURCES if one["kind"] == "ConfigMap"]
    config = tmp_path / "spotsieve.toml"
    config.write_text(config_map["data"]["spotsieve.toml"], "utf-8")
    (tmp_path / "password").write_text("canary", "utf-8")
    shards = WORKLOADS["shard"]["spec"]["replicas"]
    for role in WORKLOADS:
        variables = {one["name"]: one for one in container(role)["env"]}
        numbers = range(shards) if variables.pop("POD_INDEX", None) else [0]
        environment = {name: str(one["value"]) for name, one in variables.items()}
        assert environment["SPOTSIEVE_CLUSTER__SHARDS"] == str(shards)
        environment["SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE"] = str(tmp_path / "password")
        for number in numbers:
            given(environment, config, [one.replace("$(POD_INDEX)", str(number)) for one in container(role)["args"]])
        assert container(role)["args"][3:5] == ["--role", role]
        topics = pod(role)["spec"]["initContainers"][1]
        assert {one["name"]: one["value"] for one in topics["env"]}["SPOTSIEVE_CLUSTER__SHARDS"] == str(shards)


def test_the_number_of_a_shard_is_that_of_its_pod() -> None:
    assert container("shard")["args"][-2:] == ["--shard", "$(POD_INDEX)"]
    (number,) = [one for one in container("shard")["env"] if one["name"] == "POD_INDEX"]
    assert number["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    # Kubernetes labels the pods of a StatefulSet so from 1.28 on.
    chart = yaml.safe_load((DEPLOY / "chart" / "Chart.yaml").read_text("utf-8"))
    assert tuple(map(int, re.findall(r"\d+", chart["kubeVersion"])[:2])) >= (1, 28)
    assert WORKLOADS["shard"]["kind"] == "StatefulSet"
    assert WORKLOADS["shard"]["spec"]["podManagementPolicy"] == "Parallel"


def test_shards_keep_their_volume_and_the_other_roles_have_none() -> None:
    (claim,) = WORKLOADS["shard"]["spec"]["volumeClaimTemplates"]
    mounts = {role: {one["mountPath"]: one["name"] for one in container(role)["volumeMounts"]} for role in WORKLOADS}
    places = {role: found.get(STATE) for role, found in mounts.items()}
    assert places == {"shard": claim["metadata"]["name"], "worker": "state", "resolver": None}
    (kept,) = [one for one in pod("worker")["spec"]["volumes"] if one["name"] == "state"]
    assert set(kept) == {"name", "emptyDir"}
    assert {WORKLOADS[role]["kind"] for role in ("worker", "resolver")} == {"Deployment"}


def test_each_role_has_pods_and_a_disruption_budget_of_its_own() -> None:
    labels = {role: pod(role)["metadata"]["labels"] for role in WORKLOADS}
    budgets = [one for one in RESOURCES if one["kind"] == "PodDisruptionBudget"]
    selectors = [one["spec"]["selector"]["matchLabels"] for one in (*WORKLOADS.values(), *budgets)]
    chosen = [[role for role in labels if selector.items() <= labels[role].items()] for selector in selectors]
    assert chosen == [*([role] for role in WORKLOADS), ["worker"], ["shard"], ["resolver"]]
    (service,) = [one for one in RESOURCES if one["kind"] == "Service"]
    (monitor,) = [one for one in documents(OPERATOR.read_text("utf-8")) if one["kind"] == "PodMonitor"]
    for every in (service["spec"]["selector"], monitor["spec"]["selector"]["matchLabels"]):
        assert all(every.items() <= found.items() for found in labels.values())
    assert WORKLOADS["shard"]["spec"]["serviceName"] == service["metadata"]["name"]


def test_a_resolver_that_stands_by_holds_up_no_update() -> None:
    assert WORKLOADS["resolver"]["spec"]["replicas"] == 2
    probes = {role: container(role)["readinessProbe"]["httpGet"]["path"] for role in WORKLOADS}
    assert probes == {"worker": "/readyz", "shard": "/readyz", "resolver": "/healthz"}
    (spread,) = pod("resolver")["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= pod("resolver")["metadata"]["labels"].items()


def test_the_autoscaler_scales_the_workers_by_the_lag_that_they_tell() -> None:
    (scaled,) = documents(KEDA.read_text("utf-8"))
    assert scaled["spec"]["scaleTargetRef"]["name"] == WORKLOADS["worker"]["metadata"]["name"]
    (trigger,) = scaled["spec"]["triggers"]
    assert "spotsieve_consumer_lag{" in trigger["metadata"]["query"]
    assert trigger["metadata"]["ignoreNullValues"] == "false", "no answer must not end the workers"
    assert all(isinstance(value, str) for value in trigger["metadata"].values())


HELM = helm_here()
needs_helm = pytest.mark.skipif(HELM is None, reason="needs helm: make chart builds it")


@needs_helm
def test_the_autoscaler_alone_says_how_many_workers_there_are() -> None:
    assert HELM is not None
    scaled = documents(helm_template(HELM, "--set=cluster.shards=2", "--set=cluster.autoscaling.enabled=true"))
    (workers,) = [one for one in scaled if (one["kind"], one["metadata"]["name"]) == ("Deployment", "spotsieve-worker")]
    assert "replicas" not in workers["spec"]


@needs_helm
def test_shards_of_another_number_are_a_set_of_their_own_beside_the_first() -> None:
    assert HELM is not None
    resources = documents(helm_template(HELM, "--set=cluster.shards=2", "--set=cluster.growTo=3"))
    sets = {one["spec"]["replicas"]: one for one in resources if one["kind"] == "StatefulSet"}
    assert sets[2] == WORKLOADS["shard"], "who answers now is left as it is"
    (grown,) = sets[3]["spec"]["template"]["spec"]["containers"]
    assert {one["name"]: one.get("value") for one in grown["env"]}["SPOTSIEVE_CLUSTER__SHARDS"] == "3"
    assert sets[2]["metadata"]["name"] != sets[3]["metadata"]["name"], "and so are their volumes"
    labels = {number: one["spec"]["template"]["metadata"]["labels"] for number, one in sets.items()}
    selectors = {number: one["spec"]["selector"]["matchLabels"].items() for number, one in sets.items()}
    assert [(a, b) for a in sets for b in sets if selectors[a] <= labels[b].items()] == [(2, 2), (3, 3)]
    for one in (*sets.values(), *resources):
        check_resource(one)


def test_the_roles_in_compose_run_by_commands_and_settings_of_ours() -> None:
    shards = []
    for service in ROLES.values():
        environment = {name: str(value) for name, value in service["environment"].items()}
        given(environment, DEPLOY / "spotsieve.toml", service["command"])
        options = _parser(service["command"]).parse_args(service["command"])
        shards += [options.shard] if options.role == "shard" else []
    assert shards == list(range(ROLES["worker"]["environment"]["SPOTSIEVE_CLUSTER__SHARDS"]))
    assert set(ROLES) == {"worker", "resolver", *(f"shard-{number}" for number in shards)}
    assert ROLES["resolver"]["scale"] == 2


def test_the_profile_of_compose_makes_the_topics_of_rounds_before_a_role_starts() -> None:
    topics = IN_PROFILE["topics-scaled"]
    assert set(IN_PROFILE) == {"topics-scaled", *ROLES}
    assert topics["environment"] == ROLES["worker"]["environment"]
    options = _parser(topics["command"]).parse_args(topics["command"])
    assert (options.command, options.bootstrap_servers) == ("topics", None)
    assert (
        options.partitions == _parser(COMPOSE["topics"]["command"]).parse_args(COMPOSE["topics"]["command"]).partitions
    )
    for service in ROLES.values():
        assert service["depends_on"] == {"topics-scaled": {"condition": "service_completed_successfully"}}


def test_the_roles_in_compose_have_the_rights_of_the_filter_and_volumes_of_their_own() -> None:
    alike = ("read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period", "restart", "image")
    for service in ROLES.values():
        assert {key: service[key] for key in alike} == {key: COMPOSE["filter"][key] for key in alike}
    named = {name: [one for one in ROLES[name]["volumes"] if one.endswith(":/var/lib/spotsieve")] for name in ROLES}
    assert named == {name: [f"{name}:{STATE}"] if "shard" in name else [] for name in ROLES}
    taken = [re.findall(r":(\d+)-(\d+):", service["ports"][0])[0] for service in (COMPOSE["filter"], ROLES["worker"])]
    assert taken[0][1] < taken[1][0], "the filter and the roles would fight for ports"
