"""`make image` builds the image without a Docker engine, starts it, and writes docs/measured/image.md.

Buildah builds and unpacks the image, and bubblewrap runs it for a user without rights: in a user namespace, with a
read-only root file system and no capability, as in the chart's pods. Needs root to build, and a Kafka of `make setup`.
"""

import argparse
import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.deploy.chart import REPOSITORY
from spotsieve.stream.base.errors import EXIT_BROKER
from spotsieve.stream.demo.localkafka.broker import LocalKafka, free_port

PAGE = REPOSITORY / "docs" / "measured" / "image.md"
MOST_BYTES = 400_000_000
"""The target: the unpacked image is smaller."""
USER = 10001
WRITABLE = ("/var/lib/spotsieve", "/var/cache/spotsieve", "/tmp")
"""The folders that must be writable. The image needs the kernels' cache filled, the others empty."""
SETTINGS, KEPT = "/etc/spotsieve", "kept"
"""The folder of the image that a read-only volume hides, and the folder that stands for this volume if it exists."""
SECONDS = 300.0
TOKEN = "0123456789abcdef0123456789abcdef"


class ImageFact(NamedTuple):
    """A line of the page. is_met: whether the target is met"""

    what: str
    found: str
    target: str
    is_met: bool


class Image:
    """A built image, unpacked. config: what the engine starts by default"""

    def __init__(self, name: str, folder: Path) -> None:
        inspected = json.loads(_output("buildah", "inspect", "--type", "image", name))
        self.config: dict[str, Any] = inspected["Docker"]["config"]
        self.root = folder / "root"
        container = _output("buildah", "from", name)
        try:
            shutil.copytree(_output("buildah", "mount", container), self.root, symlinks=True, copy_function=_copy)
        finally:
            _output("buildah", "rm", container)

    def files(self) -> Iterator[Path]:
        """Every regular file."""
        return (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())

    def fill(self, folder: Path) -> None:
        """Copy what must be writable into a new folder, as an engine fills a volume."""
        for place in WRITABLE:
            shutil.copytree(self.root / place.lstrip("/"), folder / _volume(place))
        _output("chown", "-R", f"{USER}:{USER}", str(folder))

    def command(self, arguments: Sequence[str], folder: Path, given: Mapping[str, str]) -> list[str]:
        """A command that runs in the image for the user of the image. folder: as fill() made it"""
        variables = {**dict(entry.split("=", 1) for entry in self.config["Env"]), **given}
        return [
            *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"),
            *("bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"),
            *("--ro-bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev", "--clearenv"),
            *("--ro-bind-try", str(folder / KEPT), SETTINGS),
            *(word for place in WRITABLE for word in ("--bind", str(folder / _volume(place)), place)),
            *(word for name, value in variables.items() for word in ("--setenv", name, value)),
            *("--chdir", self.config["WorkingDir"], "--", *arguments),
        ]

    def run(self, arguments: Sequence[str], folder: Path, **given: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the image to its end."""
        command = self.command(arguments, folder, given)
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    @contextlib.contextmanager
    def started(self, arguments: Sequence[str], folder: Path, url: str, **given: str) -> "Iterator[RunningService]":
        """A service of the image that responds at the URL. Its log is in the folder."""
        with (folder / "log").open("w+") as log:
            began = time.monotonic()
            process = subprocess.Popen(self.command(arguments, folder, given), stdout=log, stderr=log)
            try:
                _wait_for(url, process, folder / "log")
                yield RunningService(process, time.monotonic() - began, folder / "log")
            finally:
                process.kill()
                process.wait()


def _volume(place: str) -> str:
    """The name of the folder that stands for a writable folder of the image."""
    return place.strip("/").replace("/", "-")


class RunningService(NamedTuple):
    """A service that is ready. seconds: from its start to that  log: what it wrote"""

    process: "subprocess.Popen[bytes]"
    seconds: float
    log: Path

    def stop(self) -> tuple[int, float]:
        """Exit code and seconds after SIGTERM to the service, which is the child of bubblewrap's own children."""
        began = time.monotonic()
        for child in _descendants(self.process.pid)[-1:]:
            os.kill(child, signal.SIGTERM)
        return self.process.wait(SECONDS), time.monotonic() - began


def _descendants(pid: int) -> list[int]:
    """The processes below one, from the nearest to the farthest."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return [found for child in children for found in (int(child), *_descendants(int(child)))]


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _copy(source: str, target: str) -> str:
    """Copy a file with its owner, which shutil leaves out."""
    shutil.copy2(source, target)
    found = Path(source).stat()
    os.chown(target, found.st_uid, found.st_gid)
    return target


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
            if response.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{url} must respond within {SECONDS:.0f} s: {log.read_text('utf-8')}")


# What is looked at


def contents(image: Image) -> Iterator[ImageFact]:
    """Size, and files that an intruder would use."""
    files = list(image.files())
    size = sum(path.stat().st_size for path in files)
    packed = sum(len(gzip.compress(path.read_bytes(), 6)) for path in files)
    yield ImageFact("size, unpacked", f"{size / 1e6:.0f} MB", f"below {MOST_BYTES / 1e6:.0f} MB", size < MOST_BYTES)
    yield ImageFact("size, each file packed by gzip", f"{packed / 1e6:.0f} MB", "-", True)
    privileged = [path for path in files if path.stat().st_mode & 0o6000]
    yield ImageFact("setuid and setgid files", str(len(privileged)), "0", not privileged)
    tools = {"apt", "apt-get", "dpkg", "pip", "pip3", "gcc", "cc", "perl"}
    found = sorted(path.name for path in image.root.rglob("*bin/*") if path.name in tools)
    yield ImageFact("package managers and compilers", ", ".join(found) or "none", "none", not found)
    kernels = [path for path in files if path.suffix == ".nbc"]
    yield ImageFact("files with compiled kernels", f"{len(kernels):,}", "some", bool(kernels))


def rights(image: Image, folder: Path) -> Iterator[ImageFact]:
    """The user, and what it can write."""
    user = image.config["User"]
    yield ImageFact("user of the image", user, f"{USER}:{USER}", user == f"{USER}:{USER}")
    found = image.run(["id", "-u"], folder).stdout.strip()
    yield ImageFact("user of a process", found, str(USER), found == str(USER))
    probe = (
        "import os, sys; print(*sorted(place for place, _, _ in os.walk('/')"
        " if not place.startswith(('/proc', '/dev', '/sys')) and os.access(place, os.W_OK)"
        " and not any(place.startswith(top + '/') for top in sys.argv[1:])))"
    )
    places = image.run(["python", "-c", probe, *WRITABLE], folder).stdout.split()
    yield ImageFact("writable folders", ", ".join(places), ", ".join(sorted(WRITABLE)), places == sorted(WRITABLE))


def filtered(image: Image, folder: Path) -> Iterator[ImageFact]:
    """A file of three pages, two of them copies."""
    pages = [{"url": f"https://example.org/{n}", "body": _page(n // 2)} for n in range(3)]
    _place(folder / _volume(WRITABLE[0]) / "pages.jsonl", "\n".join(map(json.dumps, pages)))
    ran = image.run(["spotsieve", "filter", "pages.jsonl", "--state", "seen", "--out", "novel.jsonl"], folder)
    novel = folder / _volume(WRITABLE[0]) / "novel.jsonl"
    count = len(novel.read_text("utf-8").splitlines()) if novel.exists() else 0
    yield ImageFact("`filter`: novel pages of 3 with a copy", str(count), "2", (ran.returncode, count) == (0, 2))
    compiled = "compiling" in ran.stderr
    yield ImageFact("kernels compiled at a start", "yes" if compiled else "no", "no", not compiled)
    ran = image.run(["spotsieve", "state", "snapshot", "--state", "seen", KEPT], folder)
    (folder / _volume(WRITABLE[0]) / KEPT).rename(folder / KEPT)
    port = free_port()
    given, url = _port_of_serve(port), f"http://127.0.0.1:{port}"
    with image.started(["spotsieve", "serve", "--state", SETTINGS], folder, f"{url}/readyz", **given):
        known = [_response_to(f"{url}/v1/lookup", name, number)["known"] for name, number in (("0", 0), ("new", 9))]
        found = ", ".join("known" if one else "new" for one in known)
        yield ImageFact(
            "`serve` on a read-only snapshot: an indexed page, another", found, "known, new", known == [True, False]
        )


def served(image: Image, folder: Path) -> Iterator[ImageFact]:
    """`serve` with its own state, as the chart starts it, and the health check of the image."""
    port = free_port()
    given, url = _port_of_serve(port), f"http://127.0.0.1:{port}"
    with image.started(
        ["spotsieve", "serve", "--add", "--state", "served"], folder, f"{url}/readyz", **given
    ) as service:
        yield ImageFact("`serve`: seconds to ready", f"{service.seconds:.1f}", "-", True)
        kinds = [_response_to(f"{url}/v1/add", name, 0)["verdict"] for name in ("page", "copy")]
        yield ImageFact(
            "`serve`: a page and its copy", ", ".join(kinds), "novel, duplicate", kinds == ["novel", "duplicate"]
        )
        yield _health(image, folder, "`serve`", f"{url}/healthz")
        code, seconds = service.stop()
        yield ImageFact(
            "`serve`: exit code after SIGTERM", f"{code}, {seconds:.1f} s", "0 within 10 s", code == 0 and seconds < 10
        )


def streamed(image: Image, folder: Path) -> Iterator[ImageFact]:
    """`run` without a broker, then with one."""
    ran = image.run(["spotsieve", "run", "--bootstrap-servers", "127.0.0.1:1", "--set", "metrics.port=0"], folder)
    last = json.loads(ran.stderr.splitlines()[-1])
    is_met = ran.returncode == last.get("exit_code") == EXIT_BROKER
    yield ImageFact("`run` without a broker: exit code", str(ran.returncode), f"{EXIT_BROKER}, also in the log", is_met)
    with LocalKafka() as broker:
        port = free_port()
        given = {"SPOTSIEVE_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers, "SPOTSIEVE_METRICS__PORT": str(port)}
        topics = image.run(["spotsieve", "topics", "create", "--partitions", "2"], folder, **given)
        yield ImageFact("`topics create`: exit code", str(topics.returncode), "0", topics.returncode == 0)
        url = f"http://127.0.0.1:{port}"
        with image.started(["spotsieve", "run"], folder, f"{url}/readyz", **given) as service:
            yield ImageFact("`run` with a broker: seconds to ready", f"{service.seconds:.1f}", "-", True)
            yield _health(image, folder, "`run`", f"{url}/healthz")
            code, seconds = service.stop()
            yield ImageFact(
                "`run`: exit code after SIGTERM",
                f"{code}, {seconds:.1f} s",
                "0 within 10 s",
                code == 0 and seconds < 10,
            )
    yield _health(image, folder, "no service", f"{url}/healthz", healthy=False)


def _health(image: Image, folder: Path, of: str, url: str, *, healthy: bool = True) -> ImageFact:
    _, *command = image.config["Healthcheck"]["Test"]
    code = image.run(command, folder, HEALTH_URL=url).returncode
    target = "0" if healthy else "not 0"
    return ImageFact(f"health check, {of}: exit code", str(code), target, (code == 0) == healthy)


def _page(number: int) -> str:
    words = "mill river fox hill light keeper sack night yard roof song field horse road bridge winter letter".split()
    sentences = (
        f"The {words[(number * 7 + n) % 17]} of {n} is at the {words[(number + n * n) % 17]}." for n in range(60)
    )
    return f"<html><title>Page {number}</title><p>{' '.join(sentences)}</p></html>"


def _place(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    os.chown(path, USER, USER)


def _port_of_serve(port: int) -> dict[str, str]:
    """The variables of an open port with a token, as in the chart."""
    values = {"TOKEN": TOKEN, "PORT": port, "HOST": "0.0.0.0"}
    return {f"SPOTSIEVE_SERVE__{name}": str(value) for name, value in values.items()}


def _response_to(url: str, name: str, number: int) -> dict[str, Any]:
    """The response to a page of this name with the text of this number."""
    body = json.dumps({"url": f"https://example.org/{name}", "body": _page(number)}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as response:
        found: dict[str, Any] = json.load(response)
    return found


def page_of(rows: Sequence[ImageFact], engine: str) -> str:
    """docs/measured/image.md."""
    lines = [f"| {row.what} | {row.found} | {row.target} | {'yes' if row.is_met else '**no**'} |" for row in rows]
    return f"""# Image

Written by `make image` on {datetime.now(UTC):%Y-%m-%d}: `deploy/build-image.sh` with `BASE=packages` built the image of
`deploy/Dockerfile` from Debian's packages ({engine}), and bubblewrap ran it for user {USER} of the
host: without capabilities, in a user namespace, with a read-only root file system. Seconds are of a shared machine with
two cores.

| what | found | target | met |
|---|---|---|---|
{chr(10).join(lines)}

Only these folders must be writable: {", ".join(f"`{place}`" for place in WRITABLE)}. The second one must
hold a copy of the image's files, or the kernels are compiled at each start.

**Not tried here:** a build by Docker or from the base image of a registry, containerd, a cluster, and another
architecture than x86-64. There is no Docker engine, registry or cluster on the development machine.
"""


def main(arguments: Sequence[str]) -> int:
    """Build, look and write; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", metavar="NAME", help="look at this image of buildah; do not build one")
    options = parser.parse_args(arguments)
    name = options.image or "localhost/spotsieve:checked"
    if not options.image:
        given = {**os.environ, "BASE": "packages", "ENGINE": "buildah"}
        subprocess.run(["sh", str(REPOSITORY / "deploy" / "build-image.sh"), name], env=given, check=True)
    rows: list[ImageFact] = []
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o755)  # The user of the image must reach what is below.
        image = Image(name, place)
        for number, look in enumerate((rights, filtered, served, streamed)):
            folder = place / str(number)
            image.fill(folder)
            for row in look(image, folder):
                rows.append(row)
                print(*row, sep=" | ", flush=True)
        rows = [*contents(image), *rows]
    PAGE.write_text(page_of(rows, _output("buildah", "--version").partition(" (")[0]), "utf-8")
    return 0 if all(row.is_met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
