"""`make chart` checks the Helm chart and writes the manifests that are rendered from it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from spotsieve.stream.base.errors import EXIT_OK, SettingError, SpotsieveError
from spotsieve.stream.demo.localkafka.jars import cache_directory

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
CHART = DEPLOY / "chart"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
HELM_VERSION = "v3.18.6"
DEFINITIONS = {
    "monitoring.coreos.com": (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "example/prometheus-operator-crd",
    ),
    "keda.sh": ("github.com/kedacore/keda/v2@v2.17.2", "config/crd/bases"),
}
"""API group -> the Go module that contains its resource definitions, and their folder in the module."""
SCALED = ("--set=cluster.shards=2", "--set=replicas=2")
KUBERNETES_VERSION = "1.33"
HEAD = """# Rendered from deploy/chart by `make chart`: change the chart, or give it values of your own.
# Chart: {digest}
"""
MANIFESTS: dict[Path, tuple[str, Sequence[str]]] = {
    DEPLOY / "kubernetes.yaml": (
        """# One worker with a state of its own, and a broker with TLS and a login, without Helm. Make the secret first:
#   kubectl create secret generic spotsieve-kafka --from-file=password=password.txt --from-file=ca.pem=kafka-ca.pem
# Then name your broker and the image's place in this file. More replicas are more workers of the same group.
""",
        (),
    ),
    DEPLOY / "kubernetes-scaled.yaml": (
        """# Two shards that hold the state together, two workers, a resolver and one that stands by (docs/scale.md),
# and a broker with TLS and a login, without Helm. The secret is that of kubernetes.yaml. Name your broker and image.
# The StatefulSet's replicas and SPOTSIEVE_CLUSTER__SHARDS of every container are the number of shards.
""",
        SCALED,
    ),
    DEPLOY / "keda.yaml": (
        """# For a cluster with KEDA: as many workers of kubernetes-scaled.yaml as waiting pages ask for. Name your
# Prometheus.
""",
        (*SCALED, "--set=cluster.autoscaling.enabled=true", "--show-only=templates/scaledobject.yaml"),
    ),
    DEPLOY / "kubernetes-serve.yaml": (
        """# `spotsieve serve` without the service and without Helm: clients add and look up pages over HTTP
# (docs/integrations.md). Make the secret first, and name the image's place in this file:
#   kubectl create secret generic spotsieve-serve --from-literal=token=$(openssl rand -hex 32)
# Beside kubernetes.yaml, leave out the ServiceAccount and the ConfigMap, which are the same.
""",
        ("--set=run.enabled=false", "--set=serve.enabled=true"),
    ),
    DEPLOY / "prometheus" / "operator.yaml": (
        """# For a cluster with the Prometheus operator: what to scrape, and the alerts. Give both the labels that your
# Prometheus selects (podMonitorSelector, ruleSelector), and the runbook's address to the alerts.
""",
        (
            "--set=podMonitor.enabled=true",
            "--set=prometheusRule.enabled=true",
            "--show-only=templates/podmonitor.yaml",
            "--show-only=templates/prometheusrule.yaml",
        ),
    ),
}
"""Path -> the head of the file and the flags of `helm template`."""


def chart_digest() -> str:
    """Digest of all files of the chart and of the heads around them. A manifest with another digest is out of date."""
    digest = hashlib.sha256(repr(list(MANIFESTS.values())).encode())
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        digest.update(f"\0{path.relative_to(CHART).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def helm_here() -> Path | None:
    """Helm of our version if it was built before, else None. Another version may render other bytes."""
    cached = cache_directory() / f"helm-{HELM_VERSION}"
    return cached if cached.exists() else None


def build_helm() -> Path:
    """Build Helm from the Go module proxy into the cache, unless it is there. Takes minutes. Raises SettingError."""
    if helm := helm_here():
        return helm
    go = shutil.which("go")
    if go is None:
        raise SettingError("go", "must be on the path to build helm", None, "install Go 1.24 or newer")
    print(f"building helm {HELM_VERSION} by Go: this takes some minutes, once", file=sys.stderr, flush=True)
    cached = cache_directory() / f"helm-{HELM_VERSION}"
    made = cached.with_name("helm-being-built")
    module = f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}"
    environment = {**os.environ, "GOBIN": str(made), "GOFLAGS": "-trimpath"}
    if subprocess.run([go, "install", module], env=environment, check=False).returncode:
        raise SettingError("go", "must build helm", module, "look at its own message above; it needs the network")
    (made / "helm").replace(cached)
    made.rmdir()
    return cached


def helm_template(helm: Path, *flags: str, release: str = "spotsieve") -> str:
    """The output of `helm template` with these flags. Raises SettingError with Helm's message if rendering fails."""
    command = [str(helm), "template", release, str(CHART), f"--kube-version={KUBERNETES_VERSION}", *flags]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SettingError("deploy/chart", f"must render: {ran.stderr.strip()}", " ".join(flags), "mend the values")
    # Helm leaves trailing blanks on indented empty lines.
    return "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())


def rendered(helm: Path) -> dict[Path, str]:
    """Path -> the manifests of the chart with its defaults."""
    head = HEAD.format(digest=chart_digest())
    return {path: head + about + helm_template(helm, *flags) for path, (about, flags) in MANIFESTS.items()}


def documents(text: str) -> list[dict[str, Any]]:
    """The resources of a manifest."""
    return [one for one in yaml.safe_load_all(text) if one is not None]


def check_resource(resource: Mapping[str, Any]) -> None:
    """Validate a resource of Kubernetes itself against its schema; unknown fields are errors."""
    import kubernetes_validate

    kubernetes_validate.validate(resource, KUBERNETES_VERSION, strict=True)


def check_by_definition(resource: Mapping[str, Any]) -> None:
    """Validate a resource of an operator against the operator's own definition, which Go downloads."""
    group, _, version = resource["apiVersion"].partition("/")
    module, folder = DEFINITIONS[group]
    downloaded = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, check=True)
    definition = Path(json.loads(downloaded.stdout)["Dir"]) / folder / f"{group}_{resource['kind'].lower()}s.yaml"
    # Go accepts a flag inside a pattern, Python only at its beginning.
    text = definition.read_text("utf-8").replace("^(?i)", "(?i)^")
    (schema,) = [
        one["schema"]["openAPIV3Schema"] for one in yaml.safe_load(text)["spec"]["versions"] if one["name"] == version
    ]
    for part in _objects(schema):
        # A cluster silently prunes unknown fields, so a misspelt field would do nothing.
        part.setdefault("additionalProperties", False)
    schema["properties"]["metadata"] = {"type": "object"}
    import jsonschema

    jsonschema.validate(resource, schema)


def _objects(schema: object) -> Iterator[dict[str, Any]]:
    """Every part of a schema that lists properties."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and "type" in schema:
            yield schema
        for value in list(schema.values()):
            yield from _objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _objects(value)


def main() -> int:
    """Check, render, validate and write; returns the exit code."""
    try:
        helm = build_helm()
        shutil.copyfile(ALERTS, CHART / "files" / ALERTS.name)
        subprocess.run(
            [str(helm), "lint", "--strict", "--quiet", f"--kube-version={KUBERNETES_VERSION}", str(CHART)], check=True
        )
        texts = rendered(helm)
    except SpotsieveError as error:
        print(f"spotsieve: {error}", file=sys.stderr)
        return error.exit_code
    for path, text in texts.items():
        resources = documents(text)
        for resource in resources:
            group = resource["apiVersion"].partition("/")[0]
            (check_by_definition if group in DEFINITIONS else check_resource)(resource)
        path.write_text(text, "utf-8")
        print(f"{path.relative_to(REPOSITORY)}: {', '.join(one['kind'] for one in resources)}")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
