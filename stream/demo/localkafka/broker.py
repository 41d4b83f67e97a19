"""Runs one local Kafka broker as a process, which tests can also kill, freeze and restart.

The broker has Kafka's default settings, except where one node or a quick start needs others. `prepare` fetches the jars
and makes one training run, in which Java stores the broker's classes already linked (JEP 514). Measured on 2 cores: the
start takes 1.2 s instead of 2.3 s, and formatting the storage 0.5 s instead of 1.1 s, for 6 s and 66 MB once.
"""

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.demo.localkafka import jars
from spotsieve.stream.demo.localkafka.watchdog import watch

HOST = "127.0.0.1"
# Below Linux's ephemeral range (32768 up): no client connection may take the port of a broker while it restarts.
LOWEST_PORT = 20_000
HIGHEST_PORT = 32_000
PORT_TRIES = 200


def free_port(taken: int = 0) -> int:
    """A port of 127.0.0.1, other than `taken`, on which nothing listens. Raises BrokerError after PORT_TRIES tries."""
    choose = random.SystemRandom()
    for _ in range(PORT_TRIES):
        port = choose.randrange(LOWEST_PORT, HIGHEST_PORT)
        if port != taken and is_free(port):
            return port
    raise BrokerError(
        "the local broker",
        f"found no free port on {HOST} in {LOWEST_PORT} to {HIGHEST_PORT}",
        None,
        "choose one: --port",
    )


def is_free(port: int) -> bool:
    """Whether no server listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


NODE_ID = 1

ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A misspelled topic must be an error, as on a production cluster.
    "auto.create.topics.enable": "false",
}

QUICK = {
    # The default of 50 partitions each costs a second of start-up and a hundred open files.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # After a SIGKILL the controller rejects the restarted broker until its old session expires (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # The transaction of a killed producer is aborted within a second after its time-out.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Preallocated for each segment (10 MB by default), and tests create many topics.
    "log.index.size.max.bytes": "1048576",
    # 128 MB of heap by default.
    "log.cleaner.dedupe.buffer.size": "4194304",
    # Messages have the timestamps of the crawl, often years old: retention would delete them at once.
    "log.retention.ms": "-1",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


CLASSIC = {
    # Kafka 3.9 has both coordinators; 4.0 and later have only the new one.
    "group.coordinator.new.enable": "false",
    "group.coordinator.rebalance.protocols": "classic",
}


def write_properties(
    path: Path, data: Path, port: int, controller_port: int, settings: Mapping[str, str], *, classic: bool = False
) -> None:
    """Write server.properties for a broker on 127.0.0.1. `settings` override all others.

    classic: use the classic group coordinator, which Kafka 4 no longer has
    """
    places = {
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
    }
    merged = {**ONE_NODE, **QUICK, **(CLASSIC if classic else {}), **places, **settings}
    path.write_text("".join(f"{name}={value}\n" for name, value in merged.items()), "utf-8")


METADATA_KEY = 3
METADATA_VERSION = 1
CORRELATION_ID = 7
NO_TOPICS = 0


def serves_clients(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether the broker lists itself in its metadata, which means that the controller has unfenced it.

    An open port is not enough: a fenced broker already listens, and responds with an empty broker list. The request is
    Metadata v1 for no topics (Kafka protocol guide, "Metadata API").
    """
    request = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, CORRELATION_ID, -1) + struct.pack(">i", NO_TOPICS)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _read_exactly(connection, 4))[0]
            response = _read_exactly(connection, size)
    except (OSError, struct.error):
        return False
    if len(response) < 8:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", response)
    return bool(correlation_id == CORRELATION_ID and brokers > 0)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise OSError("the connection was closed in the middle of a response")
        parts += part
    return bytes(parts)


CLUSTER_ID = "c3BvdHNpZXZlLWxvY2FsMQ"
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 15.0
POLL_S = 0.05
FORMAT_HEAP_MB = 128
LOG_TAIL_LINES = 15
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class LocalKafka:
    """A real Apache Kafka in KRaft combined mode on 127.0.0.1, as a context manager.

    directory: for data, settings and broker.log; None for a temporary one, which stop() removes
    port: 0 chooses a free port and keeps it over restarts  settings: server.properties that override ours
    java_options: further options of Java
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int = 0,
        heap_mb: int = 768,
        settings: Mapping[str, str] = NO_SETTINGS,
        java_options: tuple[str, ...] = (),
    ) -> None:
        self.port = port
        self._given_directory = directory
        self._heap_mb = heap_mb
        self._settings = dict(settings)
        self._java_options = java_options
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, "127.0.0.1:PORT". Without a given port it is valid after the first start."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id; None if it is not running."""
        return self._process.pid if self._process else None

    @property
    def directory(self) -> Path:
        """The directory with the data, server.properties and broker.log. Raises BrokerError before the first start."""
        if self._directory is None:
            raise BrokerError("the local broker", "has no directory yet", None, "start it first")
        return self._directory

    def start(self) -> None:
        """Start the broker and block until it serves clients.

        Raises BrokerError with the end of the broker's log if it does not serve them within START_TIMEOUT_S.
        """
        if self._process is not None:
            raise BrokerError("the local broker", "is already running", self.bootstrap_servers, "stop it first")
        jars.classpath()
        if self._directory is None:
            self._directory = self._make_directory()
        self._choose_port()
        try:
            self._format()
            self._launch()
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker (SIGTERM, then SIGKILL after STOP_TIMEOUT_S), and remove a temporary directory."""
        if self._process is not None:
            self._terminate()
        if self._given_directory is None and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def kill(self) -> None:
        """Kill the broker (SIGKILL). start() then recovers the same data on the same port."""
        self._running().kill()
        self._reap()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the broker ends by itself, as on a full disk. start() then recovers its data.

        Raises BrokerError if it is still running after `seconds`.
        """
        try:
            self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._failure(f"is still running after {seconds:.0f} s") from None
        self._reap()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP), and return when all its threads have stopped.

        Connections stay open, but nothing responds.
        """
        broker = self._running()
        broker.send_signal(signal.SIGSTOP)
        # The signal alone is not enough: on a busy machine a thread may respond until it is scheduled again.
        os.waitid(os.P_PID, broker.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continue a paused broker."""
        self._running().send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop the broker normally and start it again with the same data and port."""
        self._terminate()
        self.start()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError("the local broker", "is not running", None, "start it first")
        return self._process

    def _make_directory(self) -> Path:
        if self._given_directory is None:
            return Path(tempfile.mkdtemp(prefix="spotsieve-kafka-"))
        self._given_directory.mkdir(parents=True, exist_ok=True)
        return self._given_directory.resolve()

    def _choose_port(self) -> None:
        if not self.port:
            self.port = free_port()
        elif not is_free(self.port):
            raise BrokerError("port", f"is in use on {HOST}", self.port, "choose another one, or 0 for any free port")
        write_properties(
            self.directory / "server.properties",
            self.directory / "data",
            self.port,
            free_port(taken=self.port),
            self._settings,
            classic=jars.release() == jars.CLASSIC_VERSION,
        )

    def _format(self) -> None:
        if (self.directory / "data" / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties"]
        with (self.directory / "broker.log").open("ab") as log:
            done = subprocess.run(
                [*self._java(FORMAT_HEAP_MB), *tool],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        if done.returncode != 0:
            raise self._failure(f"could not format its storage (exit code {done.returncode})")

    def _launch(self) -> None:
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java(self._heap_mb), *self._java_options, "kafka.Kafka", "server.properties"],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A session of its own: Ctrl-C must reach the filter first, which still needs the broker.
                start_new_session=True,
            )
        own_directory = [str(self.directory)] if self._given_directory is None else []
        self._watchdog = watch(self._process, *own_directory)

    def _java(self, heap_mb: int) -> list[str]:
        return [
            str(jars.java()),
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            # These brokers run for seconds or minutes. In the first minute Java's second compiler takes half a core.
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            # Kafka 4.1 unmaps files, and zstd-jni loads its library, in ways that Java 24 and later warn about.
            "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED",
            "-Xlog:disable",
            "-Xlog:all=error:stderr",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            *([f"-XX:AOTCache={jars.startup_cache()}"] if jars.startup_cache().exists() else []),
            "-cp",
            ":".join(str(path) for path in jars.classpath()),
        ]

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._running().poll() is not None:
                raise self._failure(f"ended while starting (exit code {self._running().returncode})")
            if serves_clients(HOST, self.port):
                return
            time.sleep(POLL_S)
        raise self._failure(f"did not serve clients within {START_TIMEOUT_S:.0f} s")

    def _failure(self, rule: str) -> BrokerError:
        path = self.directory / "broker.log"
        lines = path.read_text("utf-8", errors="replace").splitlines() if path.exists() else []
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        return BrokerError("the local broker", rule, None, f"the end of its log:\n{tail}")

    def _terminate(self) -> None:
        broker = self._running()
        # A paused broker must continue before it can end.
        broker.send_signal(signal.SIGCONT)
        broker.terminate()
        try:
            broker.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            broker.kill()
        self._reap()

    def _reap(self) -> None:
        """Reap the broker's process, and stop its watchdog."""
        self._running().wait()
        self._process = None
        if self._watchdog is not None:
            self._watchdog.communicate(b"stopped\n")
            self._watchdog = None


def prepare(say: Callable[[str], None] = jars.say_on_stderr) -> None:
    """Fetch and prepare all files of the local broker. Afterwards LocalKafka starts without a network.

    A second call only checks that the files are there. say: called with a line before each slow step
    Raises BrokerError, which names what is missing, if Java or the jars are not available.
    """
    jars.fetch(say)
    with jars.one_at_a_time():
        if not jars.startup_cache().exists():
            say("preparing a fast broker start, once: 10 s")
            _train(say)


def _train(say: Callable[[str], None]) -> None:
    """Start and stop one broker while Java records its classes. A failure only makes later starts slower."""
    target = jars.startup_cache()
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        with LocalKafka(java_options=(f"-XX:AOTCacheOutput={partial}",)):
            pass
        partial.replace(target)
    except (BrokerError, OSError) as error:
        partial.unlink(missing_ok=True)
        say(f"no fast start ({error}); each start takes a second longer")
