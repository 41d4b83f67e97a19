"""Runs one local Kafka broker as a process: it starts, stops, and can be killed or frozen as tests need it.

The settings of a one-node broker: Kafka's defaults, except where one node or a quick start needs others.

Chooses a free port on the loopback address.

Asks a broker in Kafka's own protocol whether it serves clients yet.

Prepares a machine for the local broker: the jars are fetched, and one training run makes later starts quick.

In the training run Java keeps the classes that a broker loads, already linked (JEP 514). Measured on 2 cores: start
2.3 s -> 1.2 s, formatting the storage 1.1 s -> 0.5 s, for 6 s and 66 MB once.
"""

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.demo.localkafka import jars, watchdog

# Below Linux's ephemeral range (32768 up): while a broker restarts, no client connection may be given its port.
LOWEST = 20_000
HIGHEST = 32_000
TRIES = 200


def free_port(taken: int = 0) -> int:
    """A port on 127.0.0.1 that nothing listens on now, other than `taken`; BrokerError after 200 occupied ones."""
    choose = random.SystemRandom()
    for _ in range(TRIES):
        port = choose.randrange(LOWEST, HIGHEST)
        if port != taken and is_free(port):
            return port
    raise BrokerError(
        "the local broker", f"needs a free port on 127.0.0.1 between {LOWEST} and {HIGHEST}", None, "name one: --port"
    )


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
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
    # A misspelt topic must be an error, as on a production cluster.
    "auto.create.topics.enable": "false",
}

QUICK = {
    # 50 partitions each by default: a second of start-up and a hundred open files for nothing.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # After a SIGKILL the controller refuses the restarted broker until its old session has run out (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # An owner killed in mid-transaction is cleaned up within a second of its transaction time-out.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Preallocated per segment: 10 MB by default, times every topic a test makes.
    "log.index.size.max.bytes": "1048576",
    # 128 MB of heap by default.
    "log.cleaner.dedupe.buffer.size": "4194304",
    # Pages carry the crawl's own times, often years old: by those, retention would delete them at once.
    "log.retention.ms": "-1",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


CLASSIC = {
    # Kafka 3.9 has both coordinators; 4.0 and later have the new one alone.
    "group.coordinator.new.enable": "false",
    "group.coordinator.rebalance.protocols": "classic",
}


def write_properties(
    path: Path, data: Path, port: int, controller_port: int, settings: Mapping[str, str], *, classic: bool = False
) -> None:
    """Write server.properties for a broker on 127.0.0.1. `settings` win over everything here.

    classic: with the classic group coordinator, which Kafka 4 no longer has
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
    """True once the broker lists itself in its metadata, i.e. the controller let it in.

    An open port is not enough: a broker listens before the controller has unfenced it, and answers with an empty
    broker list until then. One Metadata v1 request for no topics (Kafka protocol guide, "Metadata API").
    """
    request = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, CORRELATION_ID, -1) + struct.pack(">i", NO_TOPICS)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _read_exactly(connection, 4))[0]
            answer = _read_exactly(connection, size)
    except (OSError, struct.error):
        return False
    if len(answer) < 8:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", answer)
    return bool(correlation_id == CORRELATION_ID and brokers > 0)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise OSError("the connection closed in the middle of an answer")
        parts += part
    return bytes(parts)


HOST = "127.0.0.1"
CLUSTER_ID = "c3BvdHNpZXZlLWxvY2FsMQ"
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 15.0
POLL_S = 0.05
FORMAT_HEAP_MB = 128
LOG_TAIL_LINES = 15
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class LocalKafka:
    """A real Apache Kafka in KRaft combined mode on 127.0.0.1, as a context manager.

    `directory` keeps the data, the settings and broker.log. Without it there is a temporary one, which stop() removes.
    `port` 0 picks a free port and keeps it over restarts. `settings` are server.properties that win over ours.
    `java_options` go to Java before ours.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, "127.0.0.1:PORT": known after the first start, or before if a port was given."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id while it runs."""
        return self._process.pid if self._process else None

    @property
    def directory(self) -> Path:
        """The folder of the data, server.properties and broker.log. Raises BrokerError before the first start."""
        if self._directory is None:
            raise BrokerError("the local broker", "has no directory yet", None, "start it first")
        return self._directory

    def start(self) -> None:
        """Start the broker and block until it serves clients.

        Raises BrokerError with the end of the broker's log if it does not come up within 240 s.
        """
        if self._process is not None:
            raise BrokerError("the local broker", "is running already", self.bootstrap_servers, "stop it first")
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
        """End the broker in good order (SIGTERM, then SIGKILL after 15 s). A temporary directory is removed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._reap()
        if self._given_directory is None and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def kill(self) -> None:
        """End the broker at once (SIGKILL); start() then recovers the same data on the same port."""
        self._running().kill()
        self._reap()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the broker has ended by itself, as on a full disk; start() then recovers its data.

        Raises BrokerError if it still runs after so many seconds.
        """
        try:
            self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._failure(f"still runs after {seconds:.0f} s") from None
        self._reap()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP), and return when all its threads stand still. Connections stay open.

        Nothing answers any more.
        """
        broker = self._running()
        broker.send_signal(signal.SIGSTOP)
        # The signal alone is not enough: on a busy machine each thread goes on answering until it is scheduled again.
        os.waitid(os.P_PID, broker.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused broker go on."""
        self._running().send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop in good order and start again on the same data and port."""
        self._running().terminate()
        try:
            self._running().wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._running().kill()
        self._reap()
        self.start()

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of broker.log."""
        path = self.directory / "broker.log"
        text = path.read_text("utf-8", errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

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
            raise BrokerError("port", f"must be free on {HOST}", self.port, "choose another, or 0 for any free one")
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
                # Its own session: Ctrl-C in a terminal must reach the filter first, which still needs the broker.
                start_new_session=True,
            )
        own_directory = [str(self.directory)] if self._given_directory is None else []
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), str(self._process.pid), *own_directory],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _java(self, heap_mb: int) -> list[str]:
        return [
            str(jars.java()),
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            # Our brokers live for seconds or minutes. In its first minute Java's second compiler takes half a core.
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

    def _failure(self, what: str) -> BrokerError:
        return BrokerError("the local broker", what, None, f"the end of its log:\n{self.log_tail()}")

    def _reap(self) -> None:
        """Collect the ended broker, and tell its watchdog that nothing is left to kill."""
        self._running().wait()
        self._process = None
        if self._watchdog is not None:
            self._watchdog.communicate(b"stopped\n")
            self._watchdog = None


def prepare(say: Callable[[str], None] = jars.say_on_stderr) -> None:
    """Make everything ready that the local broker needs, ahead of its first start.

    Once this has returned, LocalKafka starts without a network. A second call only looks whether the files are there.
    `say` gets one line for each step that takes time (default: print to stderr).

    Raises BrokerError where Java or the jars cannot be had, naming what is missing.
    """
    jars.fetch(say)
    with jars.one_at_a_time():
        if not jars.startup_cache().exists():
            say("preparing a fast broker start (about 10 s, once)")
            _train(say)


def _train(say: Callable[[str], None]) -> None:
    """Start and stop one broker while Java records its classes. Where this fails, starts are only slower."""
    target = jars.startup_cache()
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        with LocalKafka(java_options=(f"-XX:AOTCacheOutput={partial}",)):
            pass
        partial.replace(target)
    except (BrokerError, OSError) as error:
        partial.unlink(missing_ok=True)
        say(f"no fast start ({error}); the broker will start a second later")
