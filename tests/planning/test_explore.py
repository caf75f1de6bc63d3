"""The explorer without a browser: who is served, what is refused, and that its answers are the library's."""

import http.client
import json
import math
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsample
from dpsample import InvalidValue, KeepAll, Ppswor, Priority, Privacy, SampleSize, Source
from dpsample.cli import cli
from dpsample.cli.explore import ONE_THREAD
from dpsample.comparison.reporting_curve import curve
from dpsample.planning.command import command, python
from dpsample.planning.explore import Choices, Place, Server
from dpsample.planning.explore.page import page
from dpsample.planning.explore.state import LINES, PARTS
from dpsample.planning.forecast import forecast
from dpsample.planning.setting import Setting
from explorers import ZIPF, explorer, number, placed, serving
from support import refused

pytestmark = pytest.mark.chance("certain: a plan and a release's terms do not depend on what is drawn")
pytest.importorskip("altair")
pytest.importorskip("vl_convert")
Get = Callable[..., tuple[int, str, http.client.HTTPMessage]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(explorer()) as made:
        yield made


@pytest.fixture
def get(server: Server) -> Get:
    """Ask the server; a Host of None is that of the server."""

    def asking(path: str, method: str = "GET", hosts: list[str] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=300)
        connection.putrequest(method, path, skip_host=True)
        for host in [f"127.0.0.1:{server.server_port}"] if hosts is None else hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        reply = connection.getresponse()
        found = reply.status, reply.read().decode(), reply.headers
        connection.close()
        return found

    return asking


def asked(place: Place, **changes: object) -> str:
    return urlencode({**place.texts(), **changes})


# choices


def test_sliders_stand_at_the_numbers_they_show() -> None:
    choices = explorer().choices
    labels = choices.labels()
    for name, most in (("epsilon", "10"), ("delta", "0.001"), ("tau", "1"), ("size", "10000"), ("users", "200")):
        assert labels[name][-1] == most
        numbers = getattr(choices, name)[1:]
        assert list(numbers) == sorted(set(numbers))
    place = placed(choices, 2, 3, 2, 0, 4, 1)
    setting = choices.setting(place)
    assert setting.privacy == Privacy(labels["epsilon"][2], labels["delta"][3])
    assert (setting.size, setting.max_keys_per_user) == (SampleSize(int(labels["size"][4]), "ppswor"), 2)
    assert choices.setting(placed(choices, 0, 0, 3, 5, 0, 0)).sampling == Priority(labels["tau"][5])
    assert choices.setting(placed(choices, 0, 0, 1, 5, 0, 0)).sampling == Ppswor(labels["tau"][5])
    assert choices.setting(placed(choices, 0, 0, 0, 5, 0, 0)).sampling == KeepAll()


def test_what_is_asked_for_is_where_they_stand_at_first() -> None:
    made = Choices.of(ZIPF, epsilon="0.123", delta="3e-15", scheme="priority", tau="1/3", users=[7])
    assert made.setting(made.start) == Setting(Privacy("0.123", "3e-15"), Priority("1/3"), None, 7)
    made = Choices.of(ZIPF, epsilon=15, delta="0.01", scheme="ppswor", size=37)
    assert made.setting(made.start) == Setting(Privacy(15, "0.01"), size=SampleSize(37))
    wrongs: list[dict[str, Any]] = [{"epsilon": 0}, {"delta": 2}, {"scheme": "some"}, {"users": [0]}, {"users": [3, 0]}]
    for wrong in [*wrongs, {"scheme": "ppswor", "tau": "0"}, {"scheme": "ppswor", "size": 0}]:
        with refused(""):
            Choices.of(ZIPF, **{"epsilon": 1, "delta": "1e-6", **wrong})


def test_places_nearby_are_places_and_the_next_step_is_among_them() -> None:
    choices = explorer().choices
    start = choices.relevant(choices.start)
    below = choices.delta[choices.delta.index(start.delta) - 1]
    typed = start._replace(epsilon=Fraction("0.7"))
    for before, place in [(start, start), (start, start._replace(delta=below)), (start, typed)]:
        near = list(choices.nearby(place, before))
        assert len(set(near)) == len(near)
        assert all(choices.place(**each.texts()) == each for each in near)
        for name in ("epsilon", "delta", "users"):
            every = {place._replace(**{name: value}) for value in getattr(choices, name)}
            assert every <= {place, *near}
    onward = start._replace(delta=below)
    assert next(choices.nearby(onward, start)).delta == choices.delta[choices.delta.index(below) - 1]
    assert {place.epsilon for place in list(choices.nearby(typed, start))[:2]} == {Fraction("0.6"), Fraction("0.8")}


@pytest.mark.parametrize("typed", ["0.7", "0.05", "10", "7e-1", "1/3", " 0.7 ", "0.123456789"])
def test_a_number_that_is_typed_is_used_exactly(typed: str) -> None:
    choices = explorer().choices
    place = choices.place(**{**choices.start.texts(), "epsilon": typed})
    assert choices.setting(place).privacy.epsilon == Fraction(typed)
    assert choices.place(**place.texts()) == place


@pytest.mark.parametrize("how", range(5))
@pytest.mark.parametrize("users", [0, 1])
def test_every_number_is_the_librarys(how: int, users: int) -> None:
    made = explorer()
    place = placed(made.choices, 20, 15, how, 10, 8, users)
    setting = made.choices.setting(place)
    found = forecast(ZIPF, setting, 0.1, quick=True)
    seen, errors, others = (made.answer(part, place) for part in PARTS)
    values = {**seen["values"], **errors["values"]}
    pws = found.pws
    assert number(values["keys"]) == pytest.approx(pws.keys, abs=0.5)
    for name, value in (
        ("elements", pws.share_of_elements),
        ("seen", pws.detection_threshold),
        ("total", pws.nrmse),
        ("selection", pws.selection_nrmse),
    ):
        assert value is not None
        assert number(values[name]) == pytest.approx(value, rel=0.0051)
    assert number(values["seen"]) == pws.detection_threshold
    assert [row[0] for row in others["methods"]] == [method.method for method in found.methods]
    for row, method in zip(others["methods"], found.methods, strict=True):
        assert number(row[1]) == pytest.approx(method.keys, abs=0.5)
        told = (method.share_of_keys, method.share_of_elements, method.detection_threshold)
        for text, expected in zip(row[2:], (*told, method.nrmse, method.selection_nrmse), strict=True):
            assert number(text) == pytest.approx(expected, rel=0.0051)
    drawn = curve(found.sampling, setting.per_key, 100)
    at = dict(zip(drawn.frequencies.tolist(), drawn.pws.tolist(), strict=True))
    rows = [row for row in seen["rows"] if row["line"] == LINES["PWS"]]
    assert [row["x"] for row in rows] == sorted(at)[: len(rows)]
    assert [row["y"] for row in rows] == pytest.approx([at[row["x"]] for row in rows], abs=1e-5)
    assert rows[-1]["x"] >= seen["shape"][0] or len(rows) == len(at)
    assert seen["words"]["data"].startswith(f"1,000 keys with {ZIPF.elements:,} elements")


def test_there_are_errors_however_small_epsilon_is() -> None:
    made = explorer()
    place = placed(made.choices, 0, 0, 0, 0, 0, 2)  # 200 keys share an epsilon of 0.05
    values = made.answer("errors", place)["values"]
    # no key is seen: all is missed, a selection's own elements included
    squares = sum(n * i**2 for i, n in zip(ZIPF.values.tolist(), ZIPF.keys.tolist(), strict=True))
    assert values["total"] == "100 %"
    assert number(values["selection"]) == pytest.approx(math.sqrt(1 + 9 * squares / ZIPF.elements**2), rel=0.0051)
    assert any("by mle" in note for note in made.answer("others", place)["notes"])
    assert number(made.answer("seen", place)["values"]["seen"]) > 1000


def test_a_setting_that_cannot_be_is_told() -> None:
    made = explorer()

    def setting(place: Place) -> Setting:
        raise InvalidValue("the rule", "this", "do that")

    object.__setattr__(made.choices, "setting", setting)
    assert made.answer("seen", made.choices.start) == {"refused": "the rule; found this; do that"}


def test_places_nearby_are_computed_ahead() -> None:
    made = explorer()
    with made.ahead():
        for part in PARTS:
            made.answer(part, made.choices.start)
        deadline = time.monotonic() + 600
        while made._parts["others"].cache_info().currsize < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert made._parts["others"].cache_info().currsize >= 3
    assert "ahead" not in {thread.name for thread in threading.enumerate()}


# the server


def test_with_the_token_there_is_a_page(server: Server, get: Get) -> None:
    for host in ("127.0.0.1", "localhost"):
        status, text, headers = get(f"/{server.token}/", hosts=[f"{host}:{server.server_port}"])
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert "What would a release contain?" in text
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
        assert "connect-src 'self'" in headers["Content-Security-Policy"]
    start = server.explorer.choices.start
    status, text, headers = get(f"/{server.token}/seen?{asked(start)}")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(text) == json.loads(json.dumps(server.explorer.answer("seen", start)))


def test_without_the_token_there_is_nothing(server: Server, get: Get) -> None:
    token, before = server.token, server.last_request
    paths = ["/", "/favicon.ico", "/x/", f"/{token[:-1]}/", f"/{token}x/", f"/{token[:-1]}%/", "//", f"/x/{token}/"]
    paths += [f"/{token.swapcase()}/", f"/{token[:5]}/seen?{asked(server.explorer.choices.start)}", "/../etc/passwd"]
    for path in paths:
        status, text, headers = get(path)
        assert (status, text) == (404, "not found\n"), path
        assert "Server" not in headers
    assert server.last_request == before  # such questions do not keep it alive
    for path in (f"/{token}", f"/{token}/nothing", f"/{token}/seen/", f"/{token}/seen?{'x' * 400}"):
        assert get(path)[0] in (200, 404)
        assert path == f"/{token}" or get(path)[1] == "not found\n"
    assert server.last_request > before
    assert len(token) >= 43  # 256 bits


def test_another_host_is_not_this_machine(server: Server, get: Get) -> None:
    port = server.server_port
    good = f"127.0.0.1:{port}"
    for hosts in [
        [],
        ["127.0.0.1"],
        [f"evil.example:{port}"],
        [f"127.0.0.1:{port + 1}"],
        [good, good],
        [f"127.0.0.1.evil.example:{port}"],
        [f"0.0.0.0:{port}"],
    ]:
        assert get(f"/{server.token}/", hosts=hosts)[:2] == (404, "not found\n"), hosts


def test_nothing_but_get(server: Server, get: Get) -> None:
    for method in ("POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"):
        status, _, headers = get(f"/{server.token}/", method)
        assert status == 405, method
        assert not any(name.lower().startswith("access-control") for name in headers)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=300) as plain:
        plain.sendall(b"nonsense 31337\r\n\r\n")
        answer = plain.makefile("rb").read()
    assert answer.endswith(b"bad request\n")
    assert b"31337" not in answer


def test_every_answer_has_the_headers_of_a_shut_door(server: Server, get: Get) -> None:
    for path in (f"/{server.token}/", f"/{server.token}/seen?{asked(server.explorer.choices.start)}", "/"):
        headers = get(path)[2]
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert not any(name.lower().startswith("access-control") for name in headers)


def test_it_listens_on_this_machine_only(server: Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    outside = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with (
        outside
    ):  # all of 127.0.0.0/8 is this machine, and only one address of it is served; Spark's workers have others
        assert outside.connect_ex(("127.77.77.77", server.server_port)) != 0


def test_bad_questions_are_refused_in_one_line(server: Server, get: Get) -> None:
    start = server.explorer.choices.start
    sampled = start._replace(how="ppswor size")
    bad = [
        "",
        "epsilon=1",
        f"{asked(start)}&epsilon=1",
        f"{asked(start)}&more=1",
        asked(start).replace("epsilon", "Epsilon"),
        "%00",
    ]
    for query in bad:
        for part in PARTS:
            status, text, _ = get(f"/{server.token}/{part}?{query}")
            assert (status, text) == (400, "the page has no such setting; load it again\n"), query
    wrong = {
        asked(start, epsilon="-1"): "epsilon is a number from 0.05 to 10",
        asked(start, epsilon="10.1"): "epsilon is a number from 0.05 to 10",
        asked(start, epsilon="0,7"): "epsilon is a number from 0.05 to 10",
        asked(start, delta="x"): "delta is a number from 1e-12 to 0.001",
        asked(start, delta="1/0"): "delta is a number",
        asked(start, delta="1e-999999999"): "delta is a number",
        asked(start, delta="0." + "0" * 50 + "1"): "delta is a number",
        asked(start, delta=""): "delta is a number",
        asked(sampled, size="1.5"): "sample size is a whole number from 1 to 10000",
        asked(sampled, size="0"): "sample size is a whole number from 1 to 10000",
        asked(start, how="some"): "a sampling is one of the page's",
        asked(start, users="3"): "keys per user are those of the slider",
    }
    for query, rule in wrong.items():
        status, text, _ = get(f"/{server.token}/seen?{query}")
        assert status == 200, query
        assert json.loads(text)["refused"].startswith(rule), query


def test_what_goes_wrong_shows_nothing(
    server: Server, get: Get, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(part: str, place: Place) -> dict[str, Any]:
        raise RuntimeError("frequency 31337")

    monkeypatch.setattr(server.explorer, "answer", fail)
    status, text, _ = get(f"/{server.token}/seen?{asked(server.explorer.choices.start)}")
    assert (status, text) == (500, "this could not be computed\n")
    assert capfd.readouterr() == ("", "")


def test_it_stops_by_itself() -> None:
    made = explorer()
    with Server(made, page(made, "Made up"), idle=0.05) as server:
        server.serve()  # returns
        assert server.last_request


def test_a_port_that_is_taken_is_refused(server: Server) -> None:
    made = explorer()
    with refused("a free one"):
        Server(made, page(made, "Made up"), server.server_port)


# what is copied


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """100 users with 20 pages each."""
    table = pa.table({"who": [n % 100 for n in range(2000)], "page": [f"page {n // 100}" for n in range(2000)]})
    pq.write_table(table, tmp_path / "the clicks.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "setting",
    [
        Setting(Privacy("0.7", "1e-6")),
        Setting(Privacy(1, "1e-6"), Ppswor("0.5", "0.5", 50), total=True),
        Setting(Privacy(1, "1e-6"), size=SampleSize(10, "priority", cap=20, share="0.1"), total="0.2"),
        Setting(Privacy(1, "1e-6"), size=SampleSize(10), max_keys_per_user=3),
    ],
    ids=["all", "ppswor", "size", "users"],
)
def test_the_command_and_the_python_make_this_release(
    setting: Setting, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clicks)
    source = Source("the clicks.parquet", ["page"], user="who" if setting.max_keys_per_user else None, drop_null=True)
    name, *words = shlex.split(command(setting, source))
    for run in (
        lambda: CliRunner().invoke(cli, words, catch_exceptions=False),
        lambda: exec(python(setting, source), {}),
    ):
        run()
        made = dpsample.read_release(clicks / "OUTPUT.private.parquet")
        assert (made.privacy, made.per_key) == (setting.privacy, setting.per_key)
        assert made.sampling.name == (setting.size.scheme if setting.size else setting.sampling.name)
        if setting.size is None:
            assert made.sampling == setting.sampling
        assert (made.total is not None) == bool(setting.total)
        (clicks / "OUTPUT.private.parquet").unlink()
    assert name == "dpsample"


def test_no_password_is_shown() -> None:
    source = Source("postgresql://ada:sesame@db.example/shop", ["city", "item"], query="SELECT 1", format=None)
    for told in (command(Setting(Privacy(1, "1e-6")), source), python(Setting(Privacy(1, "1e-6")), source)):
        assert "sesame" not in told
        assert "postgresql://db.example/shop" in told
        assert "SELECT 1" in told


# the command


@pytest.mark.parametrize(
    "arguments",
    [
        ["--zipf", "1"],
        ["--zipf", "-1", "--keys", "10"],
        ["events.parquet"],
        ["events.parquet", "--key", "k"],
        ["--histogram", "no.csv"],
        ["--epsilon", "0"],
        ["--delta", "2"],
        ["--tau", "1"],
        ["--sample-size", "10"],
        ["--scheme", "ppswor", "--tau", "1", "--sample-size", "10"],
        ["--scheme", "ppswor", "--tau", "0"],
        ["--max-keys-per-user", "0"],
        ["--max-keys-per-user", "some"],
        ["--share", "0"],
        ["--idle", "0m"],
        ["--idle", "soon"],
        ["--port", "70000"],
        ["--user", "u"],
        ["--zcdp", "1"],
        ["--gdp", "1"],
    ],
    ids=" ".join,
)
def test_bad_options_are_refused_before_serving(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "serve", None)
    done = CliRunner().invoke(cli, ["explore", "--no-browser", *arguments])
    assert done.exit_code == 2 or isinstance(done.exception, InvalidValue)
    assert "http" not in done.output


@contextmanager
def started(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "dpsample", "explore", "--no-browser", *arguments]
    plain = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    with subprocess.Popen(
        words, cwd=cwd, env=plain, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_as_a_user_runs_it(clicks: Path) -> None:
    users = ["--user", "who", "--max-keys-per-user", "2,5"]
    with started("the clicks.parquet", "-k", "page", *users, cwd=clicks) as process:
        assert process.stdout is not None
        notice, address = process.stdout.readline(), process.stdout.readline().split()[-1]
        assert notice.startswith("NOT PRIVATE")
        environment = Path(f"/proc/{process.pid}/environ")
        assert not environment.exists() or b"OPENBLAS_NUM_THREADS=1" in environment.read_bytes()
        with urlopen(address) as reply:
            text = reply.read().decode()
        assert text.count("NOT PRIVATE: this is computed") == 2
        assert "<title>NOT PRIVATE" in text
        assert "page 7" not in text
        with urlopen(f"{address}seen?epsilon=1&delta=1e-6&how=all&tau=&size=&users=5") as reply:
            assert "keys with 500 elements" in json.load(reply)["words"]["data"]  # 100 users keep 5 keys each
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=600)
        assert (process.returncode, told.splitlines()[-1], errors) == (0, "Stopped.", "")


def test_it_ends_when_nobody_asks(tmp_path: Path) -> None:
    with started("--keys", "50", "--zipf", "1", "--idle", "1s", cwd=tmp_path) as process:
        told, errors = process.communicate(timeout=600)
        assert (process.returncode, errors) == (0, "")
        assert "private" not in told.lower()
        assert told.splitlines()[-1] == "Stopped after 1s without a request."


def test_the_browser_is_told_by_a_file_of_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def opening(uri: str) -> bool:
        path = Path(urlsplit(uri).path)
        seen.update(uri=uri, path=path, text=path.read_text(), mode=stat.S_IMODE(path.parent.stat().st_mode))
        return True

    monkeypatch.setattr(webbrowser, "open", opening)
    done = CliRunner().invoke(cli, ["explore", "--browser", "--idle", "1s", "--zipf", "1", "--keys", "50"])
    assert done.exit_code == 0
    address = done.output.split()[1]
    assert address in seen["text"]
    assert urlsplit(address).path.strip("/") not in seen["uri"]
    assert (seen["mode"], seen["path"].exists()) == (0o700, False)
