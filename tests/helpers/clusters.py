"""A Spark cluster of the tests' own: one master and two workers on loopback, nothing kept."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from places import HELPERS, ROOT

_PORTS = random.sample(range(20_000, 32_000), 100)
# each Java here lives for seconds or minutes: nothing is worth compiling twice, nor collecting garbage in parallel
QUICK = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def java() -> str | None:
    """The Java to run Spark with, if there is one."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else None)


class Cluster:
    """A master, its workers, and their folders."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder, self._home = folder, os.path.dirname(pyspark.__file__)
        self._port, self._page = _free_port(), _free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0

    @property
    def address(self) -> str:
        """What a session has as its master."""
        return f"spark://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the master and two workers, and wait for them."""
        ports = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._page)]
        self._run("master", "127.0.0.1", "org.apache.spark.deploy.master.Master", *ports)
        # a worker that finds no master tries again only after some ten seconds
        self._wait(lambda: self._json("status") == "ALIVE", "the master did not come up")
        self._add()
        self._add()
        self.wait()

    def wait(self) -> None:
        """Wait until all workers are there."""
        self._wait(lambda: self._json("aliveworkers") == len(self._workers), "the workers did not come up")

    def kill(self, where: str) -> None:
        """Kill the worker in whose folder something runs, with all that it runs, by signal 9; another one starts."""
        [name] = [name for name in self._workers if f"/{name}/" in where]
        process = self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._add()

    def stop(self) -> None:
        """Stop everything."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _json(self, name: str) -> Any:
        """What the master's page says, once it is there."""
        with suppress(OSError, ValueError), urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=60) as page:
            return json.load(page)[name]
        return None

    @property
    def _workers(self) -> list[str]:
        return [name for name in self._processes if name != "master"]

    def _add(self) -> None:
        """Start a worker."""
        self._started += 1
        name = f"worker-{self._started}"
        (self.folder / name).mkdir()
        # an address of its own: Spark runs no second attempt at a task on the same host
        host = f"127.0.0.{1 + self._started}"
        settings = ["-c", "1", "-m", "1G", "-d", str(self.folder / name), "--host", host, "--webui-port", "0"]
        self._run(name, host, "org.apache.spark.deploy.worker.Worker", *settings, self.address)

    def _run(self, name: str, host: str, *command: str) -> None:
        environment = {
            **os.environ,
            **QUICK,
            "SPARK_HOME": self._home,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        with open(self.folder / f"{name}.log", "wb") as log:
            self._processes[name] = subprocess.Popen(
                [os.path.join(self._home, "bin", "spark-class"), *command],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, done: Callable[[], bool], problem: str) -> None:
        end = time.monotonic() + 600
        while not done():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in self.folder.glob("*.log"))
                raise TimeoutError(f"{problem}; ended: {ended}\n{logs}")
            time.sleep(0.1)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run a cluster."""
    folder = Path(tempfile.mkdtemp(prefix="dpsample-spark-"))
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def session(made: Cluster, **settings: str) -> Any:
    """Start a session on a cluster; its log of events goes to the cluster's folder."""
    from pyspark.sql import SparkSession

    events = made.folder / "events"
    events.mkdir(exist_ok=True)
    os.environ.update(QUICK, PYSPARK_PYTHON=sys.executable)
    values = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "700m",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HELPERS)]),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{events}",
        "spark.local.dir": str(made.folder / "driver"),
        "spark.sql.warehouse.dir": str(made.folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.files.minPartitionNum": "4",
        "spark.ui.port": str(_free_port()),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        # a lost worker is noticed at once, and its output asked for in vain only once
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "200ms",
        # a task goes to whoever is free, and does not wait for a worker that has its rows
        "spark.locality.wait": "0s",
        # what is refused is refused twice, not four times
        "spark.task.maxFailures": "2",
        # a task that takes long is also run elsewhere; the slower one ends at once
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.speculation.quantile": "0.1",
        "spark.python.task.killTimeout": "100ms",
        # a worker of Python that starts again has imported everything: that takes a second
        "spark.python.daemon.module": "warm_daemon",
        **settings,
    }
    builder: Any = SparkSession.builder.master(made.address).appName("dpsample tests")
    for name, value in values.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _free_port() -> int:
    """A port that nobody has, nor gets by asking the system for any, whose own begin at 32768. Each is given once."""
    while True:
        port = _PORTS.pop()
        with suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port


def heard(session: Any) -> None:
    """Wait until all that a session has done is on its pages and in its log."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
