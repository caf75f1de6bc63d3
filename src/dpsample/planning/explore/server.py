"""Server: the page and its answers, for this machine only.

It listens on 127.0.0.1. Its address has a random token, which is compared in constant time; without the token every
request is answered with 404. The Host of a request must be this machine, so that a name that an attacker owns cannot
be resolved to it (DNS rebinding). It answers GET only, writes no log, and ends when it is idle: a page that is merely
open sends no request.
"""

import json
import secrets
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dpsample.errors import InvalidValue
from dpsample.presentation.pages import Document

ADDRESS = "127.0.0.1"
_LONGEST = 390  # characters of a request's path
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_NOTHING = "default-src 'none'; frame-ancestors 'none'"


class Server(ThreadingHTTPServer):
    """Serves one page, with the answers of an explorer, until there is no request for `idle` seconds.

    An `Explorer` or a `UsersExplorer` says which parts its answers have, and which fields a setting has.
    """

    daemon_threads = True

    def __init__(self, explorer: Any, page: Document, port: int = 0, idle: float = 1800) -> None:
        self.explorer, self.idle, self.token = explorer, idle, secrets.token_urlsafe(32)
        self.page = page.html().encode()
        self.policy = f"{page.policy()}; frame-ancestors 'none'"
        self.last_request = time.monotonic()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError):
            raise InvalidValue(
                "a port is a free one of this machine, up to 65535",
                f"{port}, which cannot be used",
                "leave --port out to take any",
            ) from None
        self.timeout = min(1.0, idle)

    def server_bind(self) -> None:
        """Bind without asking anybody for this machine's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    @property
    def address(self) -> str:
        """The address of the page; whoever knows it can open the page, on this machine."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def serve(self) -> None:
        """Answer requests until the server is idle."""
        self.last_request = time.monotonic()
        while time.monotonic() < self.last_request + self.idle:
            self.handle_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that hangs up is no error, and a traceback may show data."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds, of a silent connection
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        server, url = self.server, urlsplit(self.path)
        token, _, name = url.path.removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode("utf-8", "replace"), server.token.encode())
        local = self.headers.get_all("Host") in [[f"{host}:{server.server_port}"] for host in (ADDRESS, "localhost")]
        if not known or not local or len(self.path) > _LONGEST:
            return self._refuse(HTTPStatus.NOT_FOUND)
        server.last_request = time.monotonic()
        try:
            if name == "":
                return self._send(HTTPStatus.OK, server.page, "text/html", server.policy)
            if name not in server.explorer.parts:
                return self._refuse(HTTPStatus.NOT_FOUND)
            try:
                place = server.explorer.place(_texts(url.query, server.explorer.fields))
            except InvalidValue as error:
                answer = {"refused": str(error)}
            except ValueError:
                return self._refuse(HTTPStatus.BAD_REQUEST, "the page has no such setting; load it again")
            else:
                answer = server.explorer.answer(name, place)
            content = json.dumps(answer, allow_nan=False).encode()
        except OSError:
            raise
        except Exception:  # messages of other libraries may show data
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "this could not be computed")
        return self._send(HTTPStatus.OK, content, "application/json")

    def _refuse(self, status: HTTPStatus, words: str = "") -> None:
        self._send(status, f"{words or status.phrase.lower()}\n".encode(), "text/plain")

    def _send(self, status: HTTPStatus, content: bytes, kind: str, policy: str = _NOTHING) -> None:
        self.send_response_only(status)
        for name, value in {**_HEADERS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        if status != HTTPStatus.OK:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse other methods than GET, and what is not HTTP, without details."""
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log: it would show the token."""


def _texts(query: str, fields: Sequence[str]) -> dict[str, str]:
    """Read a setting: each of its fields once."""
    pairs = parse_qsl(query, strict_parsing=True, keep_blank_values=True, max_num_fields=len(fields))
    texts = dict(pairs)
    if len(pairs) != len(fields) or {*texts} != {*fields}:
        raise ValueError
    return texts
