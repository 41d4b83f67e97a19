"""The chart renders what the manifests hold, and these fit Kubernetes' schemas, our settings and our alerts."""

import copy
import json
import re
import tomllib
from pathlib import Path
from typing import Any

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
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import _parser
from tests.conftest import REPOSITORY

KUBERNETES, SCALED, _, SERVE, OPERATOR = MANIFESTS
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
    import kubernetes_validate

    resources = documents(KUBERNETES.read_text("utf-8"))
    kinds = {"ConfigMap", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet"}
    assert {one["kind"] for one in resources} == kinds
    for one in resources:
        check_resource(one)
    wrong = copy.deepcopy(resource("StatefulSet"))
    container = wrong["spec"]["template"]["spec"]["containers"][0]
    container["startupProb"] = container.pop("startupProbe")
    with pytest.raises(kubernetes_validate.ValidationError, match="startupProb"):
        check_resource(wrong)


def test_the_default_values_fit_their_schema() -> None:
    import jsonschema

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


@pytest.mark.parametrize("path", [KUBERNETES, SCALED, SERVE], ids=lambda path: path.stem)
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
        (account,) = [one for one in documents(path.read_text("utf-8")) if one["kind"] == "ServiceAccount"]
        assert each["serviceAccountName"] == account["metadata"]["name"]


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
    ("serviceAccount.create=false", "serviceAccount.name=crawl", "podLabels.team=crawl"),
    ("cluster.growTo=3", "cluster.shards=2", "annotations.owner=me", "podAnnotations.a=b", "serve.enabled=true"),
    ("serve.enabled=true", "serve.tlsSecret=tls", "serve.env.SPOTSIEVE_SERVE__CLIENT_SHARE=1", "labels.team=crawl"),
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
    (("cluster.growTo=3",), "cluster.growTo needs shards that are there already"),
    (("image.registry=https://registry.example",), "registry"),
    (("extraEnv[0].value=a",), "extraEnv"),
    (("serve.enabled=true", "serve.secret="), "serve.secret must name a secret with the key token"),
    (("serve.enabled=true", "serve.replicas=2"), "serve.replicas must be 1 with serve.add"),
    (("serve.enabled=true", "serve.add=false"), "serve.snapshot.claim must name the volume claim"),
    (("serve.snapshot.path=/a",), "path"),
    (("cluster.autoscaling.enabled=true",), "cluster.autoscaling.enabled needs workers that hold no state"),
]


@needs_helm
@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_value_is_refused_by_its_name(given: tuple[str, ...], message: str) -> None:
    assert HELM is not None
    with pytest.raises(SettingError, match=re.escape(message)):
        helm_template(HELM, *(f"--set={value}" for value in given))


def test_no_pod_gets_variables_of_services_which_look_like_settings() -> None:
    for path in (KUBERNETES, SCALED, SERVE):
        pods = [
            one["spec"]["template"]["spec"]
            for one in documents(path.read_text("utf-8"))
            if "template" in one.get("spec", {})
        ]
        assert pods
        assert all(pod["enableServiceLinks"] is False for pod in pods)


@needs_helm
def test_a_port_without_the_service_gets_no_alerts_about_the_service() -> None:
    assert HELM is not None
    text = helm_template(
        HELM, "--set=prometheusRule.enabled=true", "--set=run.enabled=false", "--set=serve.enabled=true"
    )
    assert "kind: StatefulSet" in text
    assert "kind: PrometheusRule" not in text


@needs_helm
def test_the_runbook_of_the_operator_s_alerts_has_a_place_of_one_s_own() -> None:
    assert HELM is not None
    text = helm_template(
        HELM, "--set=prometheusRule.enabled=true", "--set=prometheusRule.runbook=https://wiki.example/s"
    )
    assert "runbook_url: https://wiki.example/s#spotsievedown\n" in text
    assert "docs/runbook.md#" not in text


def pods_of(*values: str) -> dict[str, Any]:
    """The pod templates of a chart with these values, by the name of their workload."""
    assert HELM is not None
    resources = documents(helm_template(HELM, *(f"--set={value}" for value in values)))
    for one in resources:
        check_resource(one)
    return {one["metadata"]["name"]: one["spec"]["template"] for one in resources if "template" in one.get("spec", {})}


EVERY = ("cluster.shards=2", "cluster.growTo=3", "serve.enabled=true")
"""Values that render a workload of every kind."""


@needs_helm
def test_the_longest_name_of_a_release_leaves_room_for_the_labels_of_a_stateful_set() -> None:
    assert HELM is not None
    for values in (EVERY, ("serve.enabled=true",)):
        text = helm_template(HELM, *(f"--set={value}" for value in values), release="r" * 53)
        sets = [one["metadata"]["name"] for one in documents(text) if one["kind"] == "StatefulSet"]
        assert len(sets) >= 2
        # The label controller-revision-hash of its pods has the name and 11 more characters, of 63.
        assert [name for name in sets if len(name) > 52] == []


@needs_helm
def test_a_pod_that_serves_takes_requests_until_the_nodes_know_that_it_leaves() -> None:
    (pod,) = (pod for name, pod in pods_of("serve.enabled=true").items() if name.endswith("serve"))
    (container,) = pod["spec"]["containers"]
    *sleep, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == ["sleep"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= int(seconds) + Settings().serve.stop_seconds + 5


@needs_helm
def test_volumes_variables_labels_and_annotations_of_one_s_own_are_in_every_pod() -> None:
    own = (
        "extraVolumes[0].name=snapshots",
        "extraVolumes[0].persistentVolumeClaim.claimName=shared",
        "extraVolumeMounts[0].name=snapshots",
        "extraVolumeMounts[0].mountPath=/snapshots",
        "extraEnv[0].name=AWS_SECRET_ACCESS_KEY",
        "extraEnv[0].valueFrom.secretKeyRef.name=s3",
        "extraEnv[0].valueFrom.secretKeyRef.key=key",
        "podLabels.team=crawl",
        "podAnnotations.example\\.org/owner=crawl",
    )
    pods = pods_of(*EVERY, *own)
    assert len(pods) == 6
    for name, pod in pods.items():
        assert pod["metadata"]["labels"]["team"] == "crawl", name
        assert pod["metadata"]["annotations"]["example.org/owner"] == "crawl", name
        assert {"name": "snapshots", "persistentVolumeClaim": {"claimName": "shared"}} in pod["spec"]["volumes"], name
        for container in pod["spec"]["containers"]:
            assert {"name": "snapshots", "mountPath": "/snapshots"} in container["volumeMounts"], name
            assert [one for one in container["env"] if one["name"] == "AWS_SECRET_ACCESS_KEY"], name


@needs_helm
def test_labels_and_annotations_are_on_every_resource_and_in_no_selector() -> None:
    assert HELM is not None
    watched = ("podMonitor.enabled=true", "prometheusRule.enabled=true", "cluster.autoscaling.enabled=true")
    own = ("labels.team=crawl", "annotations.owner=me", "serviceAccount.annotations.role=reader")
    given = (*EVERY, *watched, *own)
    for one in documents(helm_template(HELM, *(f"--set={value}" for value in given))):
        assert one["metadata"]["labels"]["team"] == "crawl", one["kind"]
        assert one["metadata"]["annotations"]["owner"] == "me", one["kind"]
        assert (one["metadata"]["annotations"].get("role") == "reader") == (one["kind"] == "ServiceAccount")
        assert "team" not in json.dumps(one["spec"].get("selector", {}) if "spec" in one else {})


@needs_helm
@pytest.mark.parametrize(
    ("given", "image"),
    [
        ((), "spotsieve:0.1.0"),
        (("image.registry=registry.example:5000/team",), "registry.example:5000/team/spotsieve:0.1.0"),
        (("image.registry=registry.example/", "image.repository=crawl/sieve"), "registry.example/crawl/sieve:0.1.0"),
        (("image.registry=r.example", "image.digest=sha256:" + "a" * 64), "r.example/spotsieve@sha256:" + "a" * 64),
    ],
)
def test_every_container_is_of_the_image_in_the_registry(given: tuple[str, ...], image: str) -> None:
    pods = [pod["spec"] for pod in pods_of(*EVERY, *given).values()]
    used = {each["image"] for pod in pods for each in (*pod.get("initContainers", []), *pod["containers"])}
    assert used == {image.replace("0.1.0", version())}


def version() -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    return str(chart["appVersion"])


@needs_helm
def test_an_account_of_one_s_own_takes_the_place_of_the_chart_s() -> None:
    assert HELM is not None
    given = ("serviceAccount.create=false", "serviceAccount.name=crawl")
    assert "kind: ServiceAccount" not in helm_template(HELM, *(f"--set={value}" for value in given))
    assert {pod["spec"]["serviceAccountName"] for pod in pods_of(*EVERY, *given).values()} == {"crawl"}
    nameless = pods_of(*EVERY, "serviceAccount.create=false")
    assert {pod["spec"]["serviceAccountName"] for pod in nameless.values()} == {"default"}


@needs_helm
def test_the_number_of_shards_is_changed_by_a_value() -> None:
    assert HELM is not None
    jobs = {}
    for given in (("growTo=3",), ("growTo=3", "replicas=7"), ("growTo=4",), ("growTo=2",), ("growTo=0",)):
        values = [f"--set=cluster.{value}" if "growTo" in value else f"--set={value}" for value in given]
        resources = documents(helm_template(HELM, "--set=cluster.shards=2", *values))
        jobs[given] = [one for one in resources if one["kind"] == "Job"]
    (job,), (same,), (other,) = jobs["growTo=3",], jobs["growTo=3", "replicas=7"], jobs["growTo=4",]
    assert jobs["growTo=2",] == jobs["growTo=0",] == [], "there is nothing to request"
    assert job == same, "an upgrade with other values does not change the Job, because that is not allowed"
    assert job["metadata"]["name"] != other["metadata"]["name"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    options = _parser(container["args"]).parse_args(container["args"])
    assert (options.command, options.action, options.shards) == ("shards", "resize", 3)
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert (variables["SPOTSIEVE_CLUSTER__SHARDS"], variables["SPOTSIEVE_KAFKA__SASL_USERNAME"]) == ("2", "spotsieve")
    service = resource("Service")["spec"]["selector"]
    assert not service.items() <= job["spec"]["template"]["metadata"]["labels"].items(), (
        "Prometheus would miss its port"
    )
