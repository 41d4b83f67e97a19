"""The chart's `serve` is open to the cluster. It has the protection that the documents advise for an exposed port."""

import json
from typing import Any

import pytest
import yaml

from bench.deploy.chart import (
    CHART,
    MANIFESTS,
    check_resource,
    documents,
    helm_here,
    helm_template,
)
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.cli import _parser
from spotsieve.stream.local.serve.server import Access
from spotsieve.stream.local.serve.wire import OPEN_PATHS

*_, SERVE, OPERATOR = MANIFESTS
HELM = helm_here()
needs_helm = pytest.mark.skipif(HELM is None, reason="needs helm: make chart builds it")
TOKEN = "0123456789abcdef0123456789abcdef"
POD_IP = "10.1.2.3"
SNAPSHOT = ("serve.add=false", "serve.replicas=3", "serve.snapshot.claim=shared", "serve.snapshot.path=kept/monday")


def rendered_with(*values: str) -> list[Any]:
    assert HELM is not None
    return documents(helm_template(HELM, "--set=serve.enabled=true", *(f"--set={value}" for value in values)))


def workload_of(resources: list[Any]) -> Any:
    label = "app.kubernetes.io/name"
    (found,) = [
        one for one in resources if one["metadata"]["labels"][label] == "spotsieve-serve" and "template" in one["spec"]
    ]
    return found


def default() -> list[Any]:
    return documents(SERVE.read_text("utf-8"))


def pod_of(resources: list[Any]) -> Any:
    return workload_of(resources)["spec"]["template"]["spec"]


def container_of(resources: list[Any]) -> Any:
    (found,) = pod_of(resources)["containers"]
    return found


def environment_of(container: Any, tmp_path: Any) -> dict[str, str]:
    """The variables as the container gets them, with the token's file where a test can write one."""
    (tmp_path / "token").write_text(TOKEN, "utf-8")
    values = {one["name"]: one.get("value", POD_IP).replace("$(POD_IP)", POD_IP) for one in container["env"]}
    assert values["SPOTSIEVE_SERVE__TOKEN_FILE"] == "/etc/spotsieve/serve/token"
    return values | {"SPOTSIEVE_SERVE__TOKEN_FILE": str(tmp_path / "token")}


def access_of(tmp_path: Any, resources: list[Any]) -> Access:
    settings = load_settings(None, environment_of(container_of(resources), tmp_path), {}).serve
    assert settings.host == "0.0.0.0", "another pod reaches it"
    assert settings.port == container_of(resources)["ports"][0]["containerPort"]
    return Access(settings, settings.host)


def headers(host: str, token: str = "") -> list[tuple[bytes, bytes]]:
    login = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return [(b"host", host.encode()), *login]


def test_every_resource_fits_the_schema_of_kubernetes() -> None:
    for one in default():
        check_resource(one)
    kinds = {one["kind"] for one in default()}
    assert kinds == {"ConfigMap", "Service", "ServiceAccount", "StatefulSet"}, "and nothing of the service"


def test_a_request_needs_the_token(tmp_path: Any) -> None:
    access = access_of(tmp_path, default())
    assert access.needs_token
    for path in ("/v1/lookup", "/v1/add", "/metrics", "/openapi.json"):
        refusal = access.check(path, headers("spotsieve-serve"))
        assert refusal is not None
        assert refusal.status == 401
        assert access.check(path, headers("spotsieve-serve", TOKEN)) is None


def test_a_request_must_name_the_service_or_the_pod(tmp_path: Any) -> None:
    access = access_of(tmp_path, default())
    service = next(one for one in default() if one["kind"] == "Service")["metadata"]["name"]
    named = [service, f"{service}.default", f"{service}.default.svc", f"{service}.default.svc.cluster.local", POD_IP]
    assert [name for name in named if access.check("/v1/lookup", headers(f"{name}:7768", TOKEN))] == []
    refused = access.check("/v1/lookup", headers("attacker.example", TOKEN))
    assert refused is not None
    assert refused.status == 403


def test_probes_are_answered_without_a_token(tmp_path: Any) -> None:
    access, container = access_of(tmp_path, default()), container_of(default())
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        request = container[probe]["httpGet"]
        assert request["path"] in OPEN_PATHS
        assert request["port"] == container["ports"][0]["name"]
        (host,) = [one["value"] for one in request["httpHeaders"] if one["name"] == "Host"]
        assert access.check(request["path"], headers(host)) is None


def test_it_owns_a_state_and_takes_pages(tmp_path: Any) -> None:
    container, workload = container_of(default()), workload_of(default())
    options = _parser(container["args"]).parse_args(container["args"])
    assert (options.command, options.add) == ("serve", True)
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == claim["metadata"]["name"]]
    assert str(options.state).startswith(f"{mount['mountPath']}/")
    assert workload["spec"]["replicas"] == 1, "a state belongs to one process"
    (config_map,) = [one for one in default() if one["kind"] == "ConfigMap"]
    (tmp_path / "own.toml").write_text(config_map["data"]["spotsieve.toml"], "utf-8")
    load_settings(tmp_path / "own.toml", {}, {})


def test_every_volume_is_mounted_and_every_mount_has_a_volume() -> None:
    pod = pod_of(default())
    claims = {one["metadata"]["name"] for one in workload_of(default())["spec"]["volumeClaimTemplates"]}
    mounts = [mount for one in (*pod["initContainers"], *pod["containers"]) for mount in one["volumeMounts"]]
    assert {one["name"] for one in mounts} == {one["name"] for one in pod["volumes"]} | claims
    (secret,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert secret["defaultMode"] == 0o440, "not everybody in the container reads the token"


@needs_helm
def test_pods_beside_the_service_are_in_no_selector_of_it() -> None:
    resources = rendered_with("podMonitor.enabled=true", "cluster.shards=2")
    labels = workload_of(resources)["spec"]["template"]["metadata"]["labels"].items()
    others = [one for one in resources if "serve" not in one["metadata"]["name"]]
    selectors = [one["spec"]["selector"] for one in others if one.get("spec", {}).get("selector")]
    assert selectors
    for selector in selectors:
        assert not selector.get("matchLabels", selector).items() <= labels


@needs_helm
def test_look_ups_in_a_snapshot_share_a_claim_that_nobody_writes() -> None:
    resources = rendered_with(*SNAPSHOT)
    workload, container = workload_of(resources), container_of(resources)
    assert (workload["kind"], workload["spec"]["replicas"]) == ("Deployment", 3)
    options = _parser(container["args"]).parse_args(container["args"])
    assert (options.add, str(options.state), options.config) == (False, "/snapshot/kept/monday", None)
    (volume,) = [one for one in pod_of(resources)["volumes"] if "persistentVolumeClaim" in one]
    assert volume["persistentVolumeClaim"] == {"claimName": "shared", "readOnly": True}
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
    assert (mount["mountPath"], mount["readOnly"]) == ("/snapshot", True)


@needs_helm
def test_settings_of_verdicts_come_from_the_snapshot_alone(tmp_path: Any) -> None:
    values = ("env.SPOTSIEVE_SCHEME__MIN_FEATURES=9", "serve.env.SPOTSIEVE_SERVE__CLIENT_SHARE=1")
    own = environment_of(container_of(rendered_with(*values)), tmp_path)
    read = environment_of(container_of(rendered_with(*values, *SNAPSHOT)), tmp_path)
    assert (own["SPOTSIEVE_SCHEME__MIN_FEATURES"], own["SPOTSIEVE_SERVE__CLIENT_SHARE"]) == ("9", "1")
    assert read["SPOTSIEVE_SERVE__CLIENT_SHARE"] == "1"
    assert "SPOTSIEVE_SCHEME__MIN_FEATURES" not in read


@needs_helm
def test_with_tls_probes_and_prometheus_use_it(tmp_path: Any) -> None:
    resources = rendered_with("serve.tlsSecret=certificate", "podMonitor.enabled=true")
    container = container_of(resources)
    settings = load_settings(None, environment_of(container, tmp_path), {}).serve
    (mount,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "tls"]
    assert [settings.tls_certfile, settings.tls_keyfile] == [f"{mount}/tls.crt", f"{mount}/tls.key"]
    assert {container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")} == {
        "HTTPS"
    }
    (monitor,) = [one for one in resources if one["kind"] == "PodMonitor" and "serve" in one["metadata"]["name"]]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert settings.allowed_hosts[2] == endpoint["tlsConfig"]["serverName"]


@needs_helm
def test_prometheus_sends_the_token_and_another_job(tmp_path: Any) -> None:
    resources = rendered_with("podMonitor.enabled=true")
    (monitor,) = [one for one in resources if one["kind"] == "PodMonitor" and "serve" in one["metadata"]["name"]]
    labels = workload_of(resources)["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (secret,) = [one["secret"]["secretName"] for one in pod_of(resources)["volumes"] if "secret" in one]
    assert endpoint["authorization"]["credentials"] == {"name": secret, "key": "token"}
    assert endpoint["port"] == container_of(resources)["ports"][0]["name"]
    jobs = [one["replacement"] for one in endpoint["relabelings"] if one["targetLabel"] == "job"]
    assert jobs == ["spotsieve-serve"], "alerts and dashboard of the service ask for spotsieve"
    assert access_of(tmp_path, resources).check("/metrics", headers(f"{POD_IP}:7768", TOKEN)) is None


def test_the_schema_knows_the_defaults_of_serve() -> None:
    import jsonschema

    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values["serve"]["tokn"] = "a"
    with pytest.raises(jsonschema.ValidationError, match="tokn"):
        jsonschema.validate(values, schema)
