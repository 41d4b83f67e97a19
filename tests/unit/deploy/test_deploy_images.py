"""Dockerfile and compose.yaml are checked as text, because they cannot be run where there is no Docker."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from spotsieve.stream import warm
from spotsieve.stream.base.errors import EXIT_OK, EXIT_SETTING, SettingError
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS
from spotsieve.stream.cli import _parser
from tests.conftest import REPOSITORY
from tests.fixtures.locked_packages import exported

DEPLOY = REPOSITORY / "deploy"


def dockerfile() -> list[tuple[str, str]]:
    """Instructions and their arguments, continued lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8")).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(line[0], line[1].strip()) for line in lines]


def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def services() -> dict[str, Any]:
    found = compose()["services"]
    assert isinstance(found, dict)
    return found


def is_in_build_context(path: str) -> bool:
    """By .dockerignore: everything is left out but the lines that begin with "!"."""
    rules = (REPOSITORY / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in rules
    return any(fnmatch(path, rule[1:]) for rule in rules if rule.startswith("!"))


def is_pinned(image: str) -> bool:
    tag = image.partition(":")[2]
    return bool(re.search(r"\d", tag)) and tag != "latest"


def test_every_file_that_the_image_copies_exists_and_is_in_the_build_context() -> None:
    copied = [
        source
        for instruction, arguments in dockerfile()
        if instruction == "COPY" and not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    ]
    assert {"uv.lock", "deploy/uv.txt", "stream", "state"} <= set(copied)
    assert [name for name in copied if not (REPOSITORY / name).exists()] == []
    assert [name for name in copied if not is_in_build_context(name)] == []


def test_the_image_runs_without_rights_and_keeps_state_in_a_volume() -> None:
    last_stage = dockerfile()[[name for name, _ in dockerfile()].index("FROM", 1) :]
    arguments = dict(last_stage)
    assert arguments["USER"] == "10001:10001"
    assert json.loads(arguments["VOLUME"]) == ["/var/lib/spotsieve"]
    assert json.loads(arguments["ENTRYPOINT"]) == ["spotsieve"]
    port = Settings().metrics.port
    assert f"HEALTH_URL=http://127.0.0.1:{port}/healthz" in arguments["ENV"], "the default of the health check"
    assert "os.environ['HEALTH_URL']" in arguments["HEALTHCHECK"]
    assert set(arguments["EXPOSE"].split()) == {str(port), str(Settings().serve.port)}
    assert "SPOTSIEVE_INDEX__DIRECTORY=/var/lib/spotsieve/" in arguments["ENV"]


def test_the_image_has_the_packages_of_debian_that_it_names_and_no_package_manager() -> None:
    stages = [arguments for name, arguments in dockerfile() if name == "FROM"]
    assert stages == ["${DEBIAN_IMAGE} AS build", "${DEBIAN_IMAGE} AS root", "scratch"]
    last_stage = dockerfile()[max(at for at, (name, _) in enumerate(dockerfile()) if name == "FROM") :]
    copied = [arguments for name, arguments in last_stage if name == "COPY"]
    assert copied == ["--from=root /root-fs /", "--from=build /opt/spotsieve /opt/spotsieve"]
    (unpacking,) = [text for _, text in dockerfile() if "dpkg-deb --extract" in text]
    (left_out,) = re.findall(r"(\S+)\) continue", unpacking)
    assert {"dpkg", "perl-base"} <= set(left_out.split("|"))


def test_the_image_has_the_extras_of_the_commands_that_the_chart_runs() -> None:
    (line,) = [text for name, text in dockerfile() if name == "RUN" and "/tmp/run.txt" in text]
    assert set(re.findall(r"--extra (\w+)", line)) == {"fast", "serve"}


def test_base_images_have_a_version() -> None:
    named = dict(arguments.split("=", 1) for name, arguments in dockerfile() if name == "ARG")
    bases = [arguments.split()[0].strip("${}") for name, arguments in dockerfile() if name == "FROM"]
    bases.remove("scratch")
    images = [named[base] for base in bases]
    images += [service["image"] for service in services().values() if "build" not in service]
    assert [image for image in images if not is_pinned(image)] == []


def test_the_image_installs_locked_packages_only() -> None:
    installs = [part for name, text in dockerfile() if name == "RUN" for part in re.split(r"&&", text) if "pip" in part]
    installs = [part for part in installs if " install " in part or " wheel " in part]
    assert len(installs) == 5
    assert [part for part in installs if "--require-hashes" not in part and "--no-index" not in part] == []


def test_the_list_of_packages_has_the_versions_and_hashes_of_the_lock(tmp_path: Path) -> None:
    (line,) = re.findall(r"(?m)^\t@\$\(VENV\)/bin/(cyclonedx-py .*)$", (REPOSITORY / "Makefile").read_text("utf-8"))
    program, action, source, *arguments, place = shlex.split(line)
    assert (source, place) == ("out/requirements-run.txt", "out/sbom.cdx.json")
    requirements = exported("--no-default-groups", "--extra", "fast")
    (tmp_path / "run.txt").write_text(requirements, "utf-8")
    arguments = [action, str(tmp_path / "run.txt"), *arguments]
    command = [str(Path(sys.executable).with_name(program)), *arguments, str(tmp_path / "sbom.json")]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    listed = json.loads((tmp_path / "sbom.json").read_text("utf-8"))
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "spotsieve"
    locked = re.findall(r"(?m)^([\w.-]+)==([\w.]+)", requirements)
    assert sorted((one["name"], one["version"]) for one in listed["components"]) == sorted(locked)
    assert all(one["purl"] and one["externalReferences"][0]["hashes"] for one in listed["components"])


def test_the_image_lists_the_packages_that_are_in_it() -> None:
    (line,) = [text for name, text in dockerfile() if name == "RUN" and "cyclonedx-py" in text]
    program, action, *arguments = shlex.split(line)
    program = Path(program).name
    assert (program, action) == ("cyclonedx-py", "environment")
    assert arguments[arguments.index("--output-file") + 1].startswith("/opt/spotsieve/"), "what the last stage copies"
    assert arguments[-1] == "/opt/spotsieve/bin/python"
    options = subprocess.run(
        [str(Path(sys.executable).with_name(program)), action, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert [one for one in arguments if one.startswith("--") and one not in options] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_line_that_compiles_the_kernels_in_the_image_works(tmp_path: Path) -> None:
    (line,) = [text for name, text in dockerfile() if name == "RUN" and "spotsieve.stream.warm" in text]
    assert ("ARG", 'SCHEMES=""') in dockerfile(), "without it every scheme's are compiled"
    command = shlex.split(line.replace("$SCHEMES", "subhash imatch"))
    assert command[0] == "python"
    # A package with the kernels of the sources, but for those of one folder: the line compiles only these.
    missing, package, cache = "stream/sign/fingerprints", tmp_path / "spotsieve", tmp_path / "cache"
    for name in ("stream", "state"):
        shutil.copytree(REPOSITORY / name, package / name, copy_function=os.symlink)
    (package / "__init__.py").symlink_to(REPOSITORY / "__init__.py")
    shutil.rmtree(package / missing / "__pycache__", ignore_errors=True)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, *command[1:]], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert ran.stderr.splitlines() == ["compiling the kernels of subhash", "compiling the kernels of imatch"]
    folders = {path.parent.name.rpartition("_")[0] for path in cache.rglob("*.nbi")}
    assert Path(missing).name in folders, "compiled kernels must land in NUMBA_CACHE_DIR"


def test_a_scheme_whose_model_cannot_be_built_is_skipped_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compile_named(name: str) -> None:
        if name == "concept":
            raise SettingError("scheme.name", "needs scikit-learn to build its model", name)

    monkeypatch.setattr(warm, "compile_named", compile_named)
    assert warm.main([]) == EXIT_OK
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(SCHEME_SETTINGS) + 1
    assert [line for line in lines if "skipped concept" in line and "scikit-learn" in line]
    assert warm.main(["concept"]) == EXIT_SETTING
    assert "skipped" not in capsys.readouterr().err


ENGINES = {"docker": "docker build", "podman": "podman build --format docker", "buildah": "buildah build --layers"}


def built(folder: Path, engines: Sequence[str], **given: str) -> tuple[int, str, list[str]]:
    """Exit code, standard error and the commands of build-image.sh where only these engines are on the path."""
    calls = folder / "calls"
    calls.touch()
    for program in (*engines, "mmdebstrap"):
        # `inspect` fails: there is no base yet.
        text = f"""#!/bin/sh\necho "{program} $*" >> {calls}\n[ "$1" != inspect ] && echo made\n"""
        (folder / program).write_text(text, "utf-8")
        (folder / program).chmod(0o755)
    for program in ("dirname", "sed", "mktemp", "rm"):
        if not (folder / program).exists():
            (folder / program).symlink_to(str(shutil.which(program)))
    ran = subprocess.run(
        [str(shutil.which("sh")), str(DEPLOY / "build-image.sh")],
        env={"PATH": str(folder), **given},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stderr, calls.read_text("utf-8").splitlines()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_image_is_built_by_the_engine_that_is_there(engine: str, tmp_path: Path) -> None:
    code, _, commands = built(tmp_path, [engine], BUILD_FLAGS="--build-arg SCHEMES=minhash")
    chart = yaml.safe_load((DEPLOY / "chart" / "Chart.yaml").read_text("utf-8"))
    assert code == 0
    assert commands[-1].startswith(ENGINES[engine])
    words = commands[-1].split()
    assert words[words.index("-t") + 1] == f"spotsieve:{chart['appVersion']}", "the image that the chart asks for"
    assert words[words.index("-f") + 1] == "deploy/Dockerfile"
    assert "--build-arg SCHEMES=minhash" in commands[-1]
    assert "DEBIAN_IMAGE" not in commands[-1]


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_registry_the_base_is_made_of_packages(engine: str, tmp_path: Path) -> None:
    code, _, commands = built(tmp_path, [engine], BASE="packages")
    assert code == 0
    assert [line for line in commands if line.startswith("mmdebstrap ") and "bookworm" in line]
    (base,) = re.findall(r"--build-arg DEBIAN_IMAGE=(\S+)", commands[-1])
    made = [line for line in commands[:-1] if line.endswith(f" {base}") and " inspect " not in line]
    assert len(made) == 1, "the base is an image before it is built upon"


@pytest.mark.parametrize(
    ("engines", "given", "message"),
    [
        ((), {}, "apt-get install buildah"),
        (("podman",), {"BASE": "alpine"}, "must be packages or empty, got 'alpine'"),
    ],
)
def test_an_image_that_cannot_be_built_is_said_with_the_next_step(
    engines: tuple[str, ...], given: dict[str, str], message: str, tmp_path: Path
) -> None:
    code, error, commands = built(tmp_path, engines, **given)
    assert (code, commands) == (1, [])
    assert message in error


def test_a_scheme_that_there_is_none_of_is_refused_when_an_image_is_built() -> None:
    command = [sys.executable, "-m", "spotsieve.stream.warm", "spotsieve", "minhsh"]
    ran = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert ran.returncode == EXIT_SETTING
    assert "did you mean minhash?" in ran.stderr


def test_compose_refers_to_services_volumes_and_files_that_exist() -> None:
    volumes = set(compose()["volumes"])
    used = set()
    for name, service in services().items():
        for other in service.get("depends_on", []):
            assert other in services(), f"{name} depends on {other}"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
            elif ":" in volume:
                used.add(source)
    assert used == volumes


def test_compose_opens_ports_to_this_machine_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_the_filter_in_compose_has_no_rights_and_time_to_close() -> None:
    service = services()["filter"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert int(service["stop_grace_period"].removesuffix("s")) > 10


def test_workers_in_compose_share_no_state_no_kernels_and_no_port() -> None:
    # A volume with a name is one for all containers of a service, and so is a port.
    own = [volume for volume in services()["filter"]["volumes"] if ":" not in volume]
    (cache,) = re.findall(r"NUMBA_CACHE_DIR=(\S+)", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert own == ["/var/lib/spotsieve", cache]
    assert [volume for volume in services()["filter"]["volumes"] if ":" in volume and not volume.endswith(":ro")] == []
    first, last = re.findall(r":(\d+)-(\d+):", services()["filter"]["ports"][0])[0]
    assert int(last) - int(first) >= 8
    assert "container_name" not in services()["filter"]


@pytest.mark.parametrize("name", ["topics", "filter"])
def test_the_commands_in_compose_are_commands_of_ours(name: str) -> None:
    command = services()[name]["command"]
    assert _parser(command).parse_args(command).command == command[0]


def test_the_settings_in_compose_are_settings_of_ours() -> None:
    environment = {key: str(value) for key, value in services()["filter"]["environment"].items()}
    settings = load_settings(DEPLOY / "spotsieve.toml", environment, {})
    assert settings.kafka.bootstrap_servers == "kafka:19092"
    (ports,) = services()["filter"]["ports"]
    assert re.fullmatch(rf"127\.0\.0\.1:{settings.metrics.port}-\d+:{settings.metrics.port}", ports)
    assert settings.metrics.host == "0.0.0.0", "Prometheus scrapes from another container"


def test_compose_builds_what_the_dockerfile_describes() -> None:
    built = [service["build"] for service in services().values() if "build" in service]
    assert len(built) == 7
    assert {build["context"] for build in built} == {".."}
    assert (DEPLOY / built[0]["context"] / built[0]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_docker_itself_accepts_the_compose_file() -> None:
    probe = ["docker", "compose", "version"]
    try:
        has_compose = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        has_compose = False
    if not has_compose:
        pytest.skip("needs the docker client with its compose plug-in")
    subprocess.run(shlex.split("docker compose -f compose.yaml config --quiet"), cwd=DEPLOY, check=True)


@pytest.fixture
def to_pin(tmp_path: Path) -> Path:
    """A copy of what pin-images.sh changes, beside it."""
    for name in ("Dockerfile", "compose.yaml", "pin-images.sh"):
        (tmp_path / name).write_bytes((DEPLOY / name).read_bytes())
    return tmp_path


def pinned(folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """What pin-images.sh does where docker answers every question with this line of a shell."""
    docker = folder / "docker"
    docker.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    docker.chmod(0o755)
    given = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    command = ["sh", str(folder / "pin-images.sh")]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False)


def test_images_are_pinned_by_the_digest_that_their_registry_names(to_pin: Path) -> None:
    before = [(to_pin / name).read_text("utf-8") for name in ("Dockerfile", "compose.yaml")]
    for letter in "ab":  # the second digest takes the first one's place
        assert pinned(to_pin, f"echo sha256:{letter * 64}").returncode == 0
    after = [(to_pin / name).read_text("utf-8") for name in ("Dockerfile", "compose.yaml")]
    assert [text.count(f"@sha256:{'b' * 64}") for text in after] == [1, 3]
    assert [text.replace(f"@sha256:{'b' * 64}", "") for text in after] == before


@pytest.mark.parametrize(
    ("script", "message"), [("exit 1", "must be found"), ("echo no digest", "answer with a digest")]
)
def test_an_image_without_a_digest_is_said_and_nothing_is_changed(to_pin: Path, script: str, message: str) -> None:
    before = (to_pin / "Dockerfile").read_text("utf-8")
    ran = pinned(to_pin, script)
    assert ran.returncode == 1
    assert message in ran.stderr
    assert (to_pin / "Dockerfile").read_text("utf-8") == before
