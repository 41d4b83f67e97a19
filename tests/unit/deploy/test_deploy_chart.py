"""The chart renders what the manifests hold, and these fit Kubernetes' schemas, our settings and our alerts."""

import copy
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from bench.deploy.chart import (
    ALERTS,
    CHART,
    HELM_VERSION,
    MANIFESTS,
    chart_digest,
    check_resource,
    documents,
    helm_here,
    helm_template,
    rendered,
)
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.cli import _parser
from tests.conftest import REPOSITORY

KUBERNETES, SCALED, _, OPERATOR = MANIFESTS
HELM = helm_here()
needs_helm = pytest.mark.skipif(HELM is None, reason=f"needs helm {HELM_VERSION}: make chart builds it")


def resource(kind: str, path: Path = KUBERNETES) -> Any:
    (found,) = [one for one in documents(path.read_text("utf-8")) if one["kind"] == kind]
    return found


def pod() -> Any:
    return resource("StatefulSet")["spec"]["template"]["spec"]


def test_manifests_are_rendered_from_the_chart_as_it_is() -> None:
    out_of_date = [path.name for path in MANIFESTS if f"# Chart: {chart_digest()}\n" not in path.read_text("utf-8")]
    assert out_of_date == [], "run `make chart`"
    assert (CHART / "files" / ALERTS.name).read_bytes() == ALERTS.read_bytes(), "run `make chart`"


@needs_helm
def test_helm_renders_the_manifests_byte_for_byte() -> None:
    assert HELM is not None
    assert {path: path.read_text("utf-8") for path in MANIFESTS} == rendered(HELM)


def test_the_chart_is_of_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_every_resource_fits_the_schema_of_kubernetes_and_a_misspelt_field_does_not() -> None:
    resources = documents(KUBERNETES.read_text("utf-8"))
    assert {"ConfigMap", "PodDisruptionBudget", "Service", "StatefulSet"} == {one["kind"] for one in resources}
    for one in resources:
        check_resource(one)
    wrong = copy.deepcopy(resource("StatefulSet"))
    container = wrong["spec"]["template"]["spec"]["containers"][0]
    container["startupProb"] = container.pop("startupProbe")
    with pytest.raises(kubernetes_validate.ValidationError, match="startupProb"):
        check_resource(wrong)


def test_the_default_values_fit_their_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    jsonschema.validate(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")), schema)


def test_selectors_name_the_labels_of_the_pods_and_ports_their_names() -> None:
    labels = resource("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    (container,) = pod()["containers"]
    (monitored,) = resource("PodMonitor", OPERATOR)["spec"]["podMetricsEndpoints"]
    selectors = [
        resource("StatefulSet")["spec"]["selector"]["matchLabels"],
        resource("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        resource("PodMonitor", OPERATOR)["spec"]["selector"]["matchLabels"],
        resource("Service")["spec"]["selector"],
    ]
    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    assert resource("StatefulSet")["spec"]["serviceName"] == resource("Service")["metadata"]["name"]
    ports = {port["name"] for port in container["ports"]}
    probes = [container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")]
    (served,) = resource("Service")["spec"]["ports"]
    assert {monitored["port"], served["targetPort"], *probes} == ports


def test_the_job_label_is_the_one_that_alerts_ask_for() -> None:
    (monitored,) = resource("PodMonitor", OPERATOR)["spec"]["podMetricsEndpoints"]
    jobs = [rule["replacement"] for rule in monitored["relabelings"] if rule["targetLabel"] == "job"]
    assert jobs == ["spotsieve"]
    assert set(re.findall(r'job="(\w+)"', ALERTS.read_text("utf-8"))) == set(jobs)


def test_the_operator_s_rules_are_the_alerts() -> None:
    rendered, alerts = resource("PrometheusRule", OPERATOR)["spec"], yaml.safe_load(ALERTS.read_text("utf-8"))
    assert rendered == alerts, "run `make chart` after a change of deploy/prometheus/alerts.yml"


def test_the_image_s_kernels_are_copied_before_a_volume_hides_them() -> None:
    image = (REPOSITORY / "deploy" / "Dockerfile").read_text("utf-8")
    (cache,) = re.findall(r"NUMBA_CACHE_DIR=(\S+)", image)
    first, (container,) = pod()["initContainers"][0], pod()["containers"]
    (volume,) = first["volumeMounts"]
    assert first["command"] == ["cp", "-R", f"{cache}/.", volume["mountPath"]]
    assert volume["mountPath"] != cache, "it would copy the empty volume"
    assert {"name": volume["name"], "mountPath": cache} in container["volumeMounts"]
    assert first["image"] == container["image"]


def test_each_pod_has_a_state_of_its_own() -> None:
    (claim,) = resource("StatefulSet")["spec"]["volumeClaimTemplates"]
    (container,) = pod()["containers"]
    image = (REPOSITORY / "deploy" / "Dockerfile").read_text("utf-8")
    (state,) = re.findall(r"SPOTSIEVE_INDEX__DIRECTORY=(\S+)", image)
    (place,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == claim["metadata"]["name"]]
    assert state.startswith(f"{place}/")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


@pytest.mark.parametrize("path", [KUBERNETES, SCALED], ids=lambda path: path.stem)
def test_a_pod_has_no_rights_and_bounded_memory(path: Path) -> None:
    specs = [one.get("spec", {}) for one in documents(path.read_text("utf-8"))]
    pods = [one["template"]["spec"] for one in specs if "template" in one]
    assert pods
    for each in pods:
        for container in (*each["initContainers"], *each["containers"]):
            assert container["resources"]["limits"]["memory"]
            assert "cpu" not in container["resources"]["limits"], "it would throttle the worker while it catches up"
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert each["securityContext"]["runAsNonRoot"] is True
        assert each["automountServiceAccountToken"] is False


def test_the_settings_in_the_config_map_are_settings_of_ours(tmp_path: Path) -> None:
    config = tmp_path / "spotsieve.toml"
    config.write_text(resource("ConfigMap")["data"]["spotsieve.toml"], "utf-8")
    assert load_settings(config, {}, {}).input.format == "json"
    for container in (*pod()["initContainers"][1:], *pod()["containers"]):
        assert _parser(container["args"]).parse_args(container["args"]).config.name == "spotsieve.toml"


VALUES = [
    ("kafka.securityProtocol=PLAINTEXT", "kafka.secret="),
    ("kafka.privateCa=false", "kafka.saslMechanism=PLAIN"),
    ("kafka.securityProtocol=SSL", "replicas=3", "topics.create=false", "storage.className=fast"),
    ("image.digest=sha256:" + "a" * 64, "env.SPOTSIEVE_INDEX__CACHE_MB=512", "image.pullSecrets={registry}"),
    ("podDisruptionBudget.maxUnavailable=50%", "nodeSelector.disk=ssd", "tolerations[0].operator=Exists"),
    ("cluster.shards=5", "cluster.resolvers=1", "replicas=0", "nodeSelector.disk=ssd", "topics.create=false"),
]


@needs_helm
@pytest.mark.parametrize("given", VALUES, ids=lambda given: given[0].partition("=")[0])
def test_other_values_render_what_fits_the_schema(given: tuple[str, ...]) -> None:
    assert HELM is not None
    text = helm_template(HELM, *(f"--set={value}" for value in given))
    for one in documents(text):
        check_resource(one)
    assert ("SASL" in text, "ssl_cafile" in text.lower()) == (
        not any("securityProtocol" in value for value in given),
        given[0] not in {"kafka.securityProtocol=PLAINTEXT", "kafka.privateCa=false"},
    )
    assert ("@sha256:" in text) == any("digest" in value for value in given)


WRONG = [
    (("replica=2",), "replica"),
    (("kafka.securityProtocol=TLS",), "securityProtocol"),
    (("kafka.bootstrapServers=kafka",), "bootstrapServers"),
    (("image.digest=latest",), "digest"),
    (("env.PATH=/x",), "PATH"),
    (("kafka.secret=",), "kafka.secret must name a secret"),
    (("kafka.secret=", "cluster.shards=2"), "with ca.pem for SSL, got none"),
    (("cluster.shards=1025",), "shards"),
    (("cluster.growTo=-1",), "growTo"),
    (("cluster.autoscaling.enabled=true",), "cluster.autoscaling.enabled needs workers that hold no state"),
]


@needs_helm
@pytest.mark.parametrize(("given", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_value_is_refused_by_its_name(given: tuple[str, ...], said: str) -> None:
    assert HELM is not None
    with pytest.raises(SettingError, match=re.escape(said)):
        helm_template(HELM, *(f"--set={value}" for value in given))


@needs_helm
def test_the_runbook_of_the_operator_s_alerts_has_a_place_of_one_s_own() -> None:
    assert HELM is not None
    text = helm_template(
        HELM, "--set=prometheusRule.enabled=true", "--set=prometheusRule.runbook=https://wiki.example/s"
    )
    assert "runbook_url: https://wiki.example/s#spotsievedown\n" in text
    assert "docs/runbook.md#" not in text
