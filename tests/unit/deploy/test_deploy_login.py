"""The examples with TLS and a login name settings of ours, and files that they mount."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import _parser
from spotsieve.stream.kafka.clients import PRIVATE_FILES
from tests.conftest import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
OTHERS_MAY = 0o007


def loaded(name: str) -> dict[str, Any]:
    found = yaml.safe_load((DEPLOY / name).read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def settings_of(environment: dict[str, str], tmp_path: Path) -> Settings:
    """As in the container, but for the password's file, which is looked for here."""
    password = tmp_path / "password"
    password.write_text("canary\n", "utf-8")
    return load_settings(None, {**environment, "SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE": str(password)}, {})


def check_login(settings: Settings) -> None:
    kafka = settings.kafka
    assert (kafka.security_protocol, kafka.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert kafka.sasl_username
    assert kafka.sasl_password.get_secret_value() == "canary"
    assert kafka.ssl_cafile


@pytest.mark.parametrize("name", ["topics", "filter"])
def test_the_login_in_compose_is_settings_of_ours_and_its_files_are_mounted(name: str, tmp_path: Path) -> None:
    compose = loaded("compose.login.yaml")
    service = compose["services"][name]
    environment: dict[str, str] = service["environment"]
    check_login(settings_of(environment, tmp_path))
    mounted = {f"/run/secrets/{secret}" for secret in service["secrets"]}
    assert {value for value in environment.values() if value.startswith("/")} == mounted
    assert set(service["secrets"]) == compose["secrets"].keys()
    assert name in loaded("compose.yaml")["services"]


def test_the_topics_in_compose_are_made_on_the_brokers_of_the_environment() -> None:
    command = loaded("compose.login.yaml")["services"]["topics"]["command"]
    assert _parser(command).parse_args(command).bootstrap_servers is None


def stateful_set() -> dict[str, Any]:
    resources: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))
    (found,) = [one["spec"] for one in resources if one["kind"] == "StatefulSet"]
    assert isinstance(found, dict)
    return found


def test_workers_on_kubernetes_do_not_wait_for_one_that_rebuilds_its_state() -> None:
    assert stateful_set()["podManagementPolicy"] == "Parallel"


def test_the_login_on_kubernetes_is_settings_of_ours_and_its_files_are_mounted(tmp_path: Path) -> None:
    pod = stateful_set()["template"]["spec"]
    (container,) = pod["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    settings = settings_of(environment, tmp_path)
    check_login(settings)
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    files = [PurePosixPath(value) for value in environment.values() if value.startswith("/")]
    assert {mounts[str(file.parent)] for file in files} == {"kafka"}
    (secret,) = (volume["secret"] for volume in pod["volumes"] if volume["name"] == "kafka")
    assert secret["defaultMode"] & OTHERS_MAY == 0, "else a warning comes at every start"
    assert secret["defaultMode"] & 0o040, "the container's group reads it"
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"] == 10001
    # A worker that rebuilds its state for hours must have started, and live.
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    (topics,) = [each for each in pod["initContainers"] if each["name"] == "topics"]
    assert topics["env"] == container["env"]
    assert _parser(topics["args"]).parse_args(topics["args"]).command == "topics"
    assert [port["containerPort"] for port in container["ports"]] == [settings.metrics.port]
    assert pod["terminationGracePeriodSeconds"] > 10
    assert _parser(container["args"]).parse_args(container["args"]).command == "run"


def test_what_is_warned_of_are_files_with_secrets() -> None:
    assert set(PRIVATE_FILES) < set(type(Settings().kafka).model_fields)
    assert {name for name in type(Settings().kafka).model_fields if name.endswith("password_file")} < set(PRIVATE_FILES)
