"""A bucket of a real S3 server on this machine (moto's), and what its requests were."""

import logging
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow.fs
import pytest

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAcanaryKEY", "AWS_SECRET_ACCESS_KEY": "SECRETcanary"}
BUCKET = "lake"


@dataclass
class Bucket:
    """An S3 server, and a bucket in it."""

    url: str
    store: Any
    log: list[str]

    def put(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            with self.store.open_output_stream(f"{BUCKET}/{path}", compression=None) as file:
                file.write(content)

    def read(self) -> set[str]:
        """Return which files were read since this was asked for before."""
        found = re.findall(rf"GET /{BUCKET}/([^ ?]+)", "\n".join(self.log))
        self.log.clear()
        return set(found)


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def served_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Start a server with a bucket, to which the usual environment variables lead."""
    server_module = pytest.importorskip("moto.server", reason="stores are tested where moto is installed")
    lines = list[str]()
    logger = logging.getLogger("werkzeug")
    handler = _Lines(lines)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=True)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = pyarrow.fs.S3FileSystem(endpoint_override=url, region="us-east-1", allow_bucket_creation=True)
    store.create_dir(BUCKET)
    lines.clear()
    try:
        yield Bucket(url, store, lines)
    finally:
        server.stop()
        logger.removeHandler(handler)


def _ask(bucket: Bucket, what: str, body: str) -> None:
    """Let the server do something that only moto's does."""
    url = f"{bucket.url}/moto-api/{what}"
    headers = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers, method="POST")).close()


@contextmanager
def checked_credentials(bucket: Bucket) -> Iterator[None]:
    """Let the server check credentials for the time of a block: those of these tests are then wrong."""
    _ask(bucket, "reset-auth", "0")
    try:
        yield
    finally:
        _ask(bucket, "reset-auth", "inf")
