"""Runs one local Kafka broker as a process: it starts, stops, and can be killed or frozen as tests need it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from spotsieve.stream.demo.localkafka import jars, watchdog
from spotsieve.stream.demo.localkafka.ports import free_port, is_free
from spotsieve.stream.demo.localkafka.properties import write_properties
from spotsieve.stream.demo.localkafka.readiness import serves_clients
from spotsieve.stream.errors import BrokerError

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
