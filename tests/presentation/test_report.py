"""The report's content and HTML, without a browser: every number is the library's, and no text is trusted."""

from __future__ import annotations

import datetime
import html
import math
import os
import re
import shlex
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import dpsample.presentation.pages.front_end as front_end
import dpsample.presentation.report
import dpsample.presentation.report.content as report_content
from dpsample import InvalidValue, KeepAll, Privacy, Release, SampleSize, new_ledger, read_release
from dpsample.accounting.proof import Proof
from dpsample.cli import cli
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.errors import PrivacyViolation
from dpsample.estimators.notes import claim_of
from dpsample.presentation.charts import STYLES
from dpsample.presentation.explain import Strength
from dpsample.presentation.page_charts import DARK, LIGHT
from dpsample.presentation.pages import Document, Markup, tag
from dpsample.presentation.report import Statement, content_of, display, make_report
from dpsample.presentation.report.content import round_frequencies
from dpsample.presentation.tables import printable
from dpsample.release.terms import Terms
from dpsample.scheme import reporting_probabilities
from reports import HOSTILE, PRIVACY, RELEASES, blocks, data, made, seen, words
from support import refused


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release that protects users, of a chosen size, with a total, in a ledger."""
    ledger = tmp_path_factory.mktemp("budget") / "pages.ledger"
    new_ledger(ledger, "pages", Privacy(10, "1e-4"), unit="user")
    rows = pa.table({"page": [f"p{n % 5}" for n in range(6000)], "user": [n // 4 for n in range(6000)]})
    return dpsample.release(
        rows,
        "page",
        user="user",
        max_keys_per_user=4,
        privacy=Privacy(3, "1e-5"),
        size=SampleSize(1000),
        total=True,
        ledger=ledger,
    )


@pytest.mark.parametrize("name", RELEASES)
def test_every_kind_of_release_has_a_page(name: str) -> None:
    release = RELEASES[name]()
    page = make_report(release).html
    text = seen(page)
    assert f"{len(release):,}" in text
    assert "Unit of privacy" in text
    for value in ("nan", "None", "inf", "object at", "&lt;span"):
        assert not re.search(rf"\b{value}\b", re.sub(r"<pre.*?</pre>", "", page.split("<script")[0])), value
    if release.keys_only:
        assert "keys without frequencies" in text or not len(release)
        assert 'id="top"' not in page
    assert display(release).startswith("<div>")


@pytest.mark.chance("certain: the page is compared with the release")
def test_users_sizes_totals_and_ledgers_are_told(users: Release) -> None:
    text = seen(make_report(users).html)
    assert "each user (all rows of one user identifier), who counts in up to 4 keys" in text
    assert users.terms.size is not None
    assert users.total is not None
    for part in (users.terms.keys_privacy.epsilon, users.terms.size.weights.epsilon, users.total.epsilon):
        assert f" {dpsample.exact.text(part)} " in text
    other = users.other()
    assert f"95 %: {math.floor(other.low):,} to {math.ceil(other.high):,}" in text
    assert f"{users.total.value:,}" in text
    assert str(users.terms.ledger) in text
    assert "proved" in text


# Numbers.


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "3", "20"])
@pytest.mark.parametrize("delta", ["1e-12", "0.01"])
def test_what_a_guess_can_reach(epsilon: str, delta: str) -> None:
    """Against the pair of laws that is hardest to hide with (epsilon, delta): the best guess is right by 1/2 + TV/2."""
    E, d = math.exp(float(epsilon)), float(delta)
    here = [d, (1 - d) * E / (1 + E), (1 - d) / (1 + E), 0]
    gone = here[::-1]
    best = sum(max(a, b) for a, b in zip(here, gone, strict=True)) / 2
    found = Strength.of(Privacy(epsilon, delta))
    assert found.guess == pytest.approx(best, rel=1e-12)
    assert found.factor == pytest.approx(E)
    assert found.one_in == 1 / Fraction(delta)


def test_bounds_are_rounded_so_that_they_hold() -> None:
    text = seen(make_report(words(5)).html)  # exp(1) = 2.71828..., and 1 - (1 - delta) / (1 + exp(1)) = 0.731058...
    assert "at most 2.719 times" in text
    assert "at most 73.2 %" in text
    assert "plus delta, which is 1 in 1,000,000" in text


def test_the_content_is_what_the_library_answers() -> None:
    release = words()
    found = content_of(release, top=7)
    assert found.top is not None
    assert found.top.to_arrow().equals(release.top(7).to_arrow())
    assert found.quantiles is not None
    assert found.quantiles.to_arrow().equals(release.quantiles(list(report_content.SHARES)).to_arrow())
    assert [i for i, _ in found.counts] == round_frequencies(14, max(release.each_key().numbers["value"].to_pylist()))
    for i, counted in found.counts:
        assert counted == release.count_keys(at_least=i)
    curve = found.curve
    ours, published, tight = curve.pws, curve.sbh, curve.tight
    assert published is not None
    assert tight is not None
    assert ours.tolist() == reporting_probabilities(curve.frequencies, KeepAll(), PRIVACY).tolist()
    assert published.tolist() == StabilityHistogram(PRIVACY).reported(curve.frequencies).tolist()
    assert tight.tolist() == StabilityHistogram(PRIVACY, tight=True).reported(curve.frequencies).tolist()
    assert (ours >= tight - 1e-12).all()
    assert ours[0] < 0.01
    assert min(ours[-1], published[-1]) > 0.99


def test_each_key_is_estimated_as_in_a_top_list() -> None:
    release = words()
    every = dict(release.each_key())
    listed = list(release.top(len(release)))
    assert len(every) == len(listed) == len(release)
    for key, found in listed:
        for name in ("value", "standard_error", "low", "high"):
            assert getattr(every[key], name) == pytest.approx(getattr(found, name), rel=1e-12)
    assert [key for key, _ in release.each_key("word < 'w0003'")] == ["w0000", "w0001", "w0002"]


def test_the_search_has_the_numbers_of_each_key() -> None:
    release = words()
    found = data(make_report(release).html, "keys")
    places = [n for n, run in enumerate(found["runs"]) for _ in range(run)]
    every = dict(release.each_key())
    assert sorted(found["keys"][0]) == release.table["word"].to_pylist()
    for key, place in zip(found["keys"][0], places, strict=True):
        low, value, high = (int(found[name][place].replace(",", "")) for name in ("low", "value", "high"))
        e = every[key]
        assert low <= e.low < low + 1
        assert high - 1 < e.high <= high
        assert abs(value - e.value) <= 0.5
    values = [int(found["value"][place].replace(",", "")) for place in places]
    assert values == sorted(values, reverse=True)


def test_a_large_release_shows_the_most_frequent_keys_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    release = words(400)
    monkeypatch.setattr(report_content, "LISTED", 50)
    page = make_report(release).html
    assert "The 50 most frequent of 400 reported keys" in seen(page)
    shown = data(page, "keys")["keys"][0]
    every = dict(release.each_key())
    left = {key: found.value for key, found in every.items() if key not in shown}
    assert len(left) == 350
    assert max(left.values()) <= min(every[key].value for key in shown)
    monkeypatch.setattr(report_content, "_BYTES", 400)
    assert 0 < len(content_of(release).listing) < 50


def test_the_publisher_states_title_description_date_and_contact() -> None:
    about = "Of <2025>,\nwithout staff.\n\n \nSecond."
    release = RELEASES["keys only"]()
    page = release.report(
        title="Q & A", about=about, contact="a.b+c@d.org", date=datetime.date(2026, 11, 16), prove=False
    ).html
    assert "<title>Q &amp; A</title>" in page
    assert "<p>Of &lt;2025&gt;, without staff.</p><p>Second.</p>" in page
    assert "<time>2026-11-16</time>" in page
    assert '<a href="mailto:a.b+c@d.org" rel="noreferrer">a.b+c@d.org</a>' in page
    assert not re.search("Published|Contact", seen(release.report(prove=False).html))
    for wrong in ({"date": "16.11.2026"}, {"date": "2026-13-01"}, {"about": ""}, {"title": " "}, {"contact": 5}):
        with refused("is a"):
            release.report(**wrong)


def test_a_page_has_no_words_of_the_interface() -> None:
    """Where it is not about commands: the names of options and arguments mean nothing to its readers."""
    release = words(40)
    page = re.sub(r"<(details|pre|code)\b.*?</\1>", "", release.report().html, flags=re.DOTALL)
    assert re.findall(r"--\w[\w-]*|\b[a-z]+_[a-z_]+\b|`", seen(page)) == []
    # of each note there is what it claims, and no advice to who asks
    (advised,) = release.top(5).notes
    assert "compete for the list" in claim_of(advised)
    assert advised == f"{claim_of(advised)}; to allow for it, ask for the level {float(advised.split()[-1]):.6g}"
    assert "compete for the list" in seen(release.report(prove=False, top=5).html)
    assert "ask for" not in seen(release.report(prove=False, top=5).html)


def test_steps_are_few_and_in_range() -> None:
    for last in (14, 15, 100, 10**4, 10**6, 10**9, 2**62):
        found = round_frequencies(14, last)
        assert found[0] == 14
        assert found == sorted(set(found))
        assert found[-1] <= last
        assert len(found) <= 20


# Proof.


def test_a_release_that_is_less_private_than_it_says_is_shown_as_such() -> None:
    release = made({"word": ["a"]}, unit="user", max_keys=100, per_key=PRIVACY)
    assert isinstance(content_of(release).proof, PrivacyViolation)
    assert "FAILED" in seen(make_report(release).html)


def test_the_proof_is_run_at_a_small_epsilon_too() -> None:
    table = pa.table({"word": pa.array([], pa.string())})
    release = Release(table, Terms(Privacy("0.001", "1e-9"), KeepAll(), ("word",), keys_only=True))
    proof = content_of(release).proof
    assert isinstance(proof, Proof)
    assert proof.complete


def test_the_proof_is_left_to_the_command_if_it_is_not_wanted() -> None:
    table = pa.table({"word": pa.array([], pa.string())})
    release = Release(table, Terms(PRIVACY, KeepAll(), ("word",), keys_only=True))
    assert content_of(release, prove=False).proof is None
    assert "not run for this page" in seen(make_report(release, prove=False).html)


# Keys are untrusted.


def test_hostile_keys_are_only_text() -> None:
    page = make_report(RELEASES["hostile"](), Statement(title="<script>alert(9)</script>")).html
    ours = re.findall(r"<script[^>]*>", page)
    assert (
        ours
        == ['<script type="application/json" id="keys">']
        + [f'<script type="application/json" id="chart-{name}">' for name in ("reported", "frequencies")]
        + ['<script type="module">'] * 3
    )
    body = page.split("</style>")[1].split('<script type="application/json"')[0]
    for text in ("<img", "<!--", "<svg onload", "<b>key", "onerror=alert(3)>"):
        assert text not in body
    for text in ("\u202e", "\u2066", "\0", "\u2028", "\u2029"):
        assert text not in page
    assert "&lt;script&gt;window.ran" in body
    assert r"\u202egnp.exe\u2066" in body
    found = data(page, "keys")["keys"][0]
    assert sorted(found) == sorted(map(printable, HOSTILE))
    assert len(page.encode()) < 2_000_000  # a key of 10,000 characters is cut
    for raw in re.findall(r'<script type="application/json" id="[a-z-]+">(.*?)</script>', page, re.DOTALL):
        assert "<" not in raw


def test_what_is_unseen_is_made_visible() -> None:
    assert printable("a b") == "a b"
    assert printable("") == "''"
    assert printable(" a ") == r"\x20a\x20"
    assert printable("\u202e\u200b\x1b[2J\xa0") == r"\u202e\u200b\x1b[2J\xa0"
    assert printable("back\\u202e") == r"back\\u202e"  # not to be taken for the mark itself
    assert printable("é 漢字 😀 العربية") == "é 漢字 😀 العربية"
    assert printable("x" * 300) == "x" * 200 + "… (300 characters)"
    assert all(text.isprintable() for text in map(printable, HOSTILE))


def test_text_in_elements_is_escaped() -> None:
    assert tag("p", "<b>", tag("i", "&"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;<i>&amp;</i></p>'
    assert isinstance(tag("p"), Markup)


# The document.


def test_the_policy_names_the_very_scripts_and_styles() -> None:
    import base64
    import hashlib

    page = make_report(words(20)).html
    head = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert head is not None
    policy = dict(part.split(" ", 1) for part in html.unescape(head[1]).split("; "))
    assert policy["default-src"] == policy["connect-src"] == policy["base-uri"] == policy["form-action"] == "'none'"

    def hashes(pattern: str) -> list[str]:
        found = re.findall(pattern, page, re.DOTALL)
        return [f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" for code in found]

    assert policy["script-src"].split() == hashes(r'<script type="module">(.*?)</script>')
    assert policy["style-src"].split() == hashes(r"<style>(.*?)</style>")
    assert not re.search(r"unsafe|https?:|nonce", head[1])
    body = page.split("</style>")[1].split('<script type="application/json"')[0]
    assert not re.search(r"<[^>]* (style|on[a-z]+)=", body)
    assert not re.search(r"(src|href)=\"(?!#)", body)


def test_a_served_page_may_talk_to_its_server_only() -> None:
    page = Document("x", tag("main"), scripts=["1"], served=True).html()
    assert "connect-src &#x27;self&#x27;" in page


def contrast(a: str, b: str) -> float:
    """As the guidelines for web content define it."""

    def luminance(color: str) -> float:
        parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted([luminance(a), luminance(b)])
    return (light + 0.05) / (dark + 0.05)


def test_lines_can_be_seen_on_their_ground() -> None:
    style = make_report(words(5)).html.split("</style>")[0]
    grounds = re.findall(r"--ground: (#\w{6})", style)
    assert len(grounds) == 2
    for ground, colors in zip(grounds, (LIGHT, DARK), strict=True):
        assert len(colors) == len(STYLES)
        assert min(contrast(color, ground) for color in colors) >= 3


# What the page tells to run.


@pytest.mark.chance(
    "odds 1e-9: five keys of 1,200 users are reported, and noise beyond 20 scales leaves too few to ask about"
)
def test_what_the_page_tells_to_run_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: Release) -> None:
    monkeypatch.chdir(tmp_path)
    for n, release in enumerate((words(), users)):
        name = f"it's {n}.private.parquet"
        Path("report.html").unlink(missing_ok=True)
        release.write(name)
        done = CliRunner().invoke(cli, ["report", name, "-o", f"page{n}.html"])
        assert done.exit_code == 0, done.output
        page = (tmp_path / f"page{n}.html").read_text()
        code, commands = blocks(page, "again python"), blocks(page, "again command") + blocks(page, "again")
        assert len(code) >= 5
        assert len(commands) >= 7
        for text in code:
            exec(text, {})
        for text in commands:
            for line in text.splitlines():
                words_ = shlex.split(line)
                assert words_[0] == "dpsample"
                done = CliRunner().invoke(cli, words_[1:])
                assert done.exit_code == 0, (line, done.output)


# Files, notebooks, the command.


def test_a_report_is_written_whole_and_never_over_another(tmp_path: Path) -> None:
    report = words(30).report(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == report.html
    with refused("not overwritten"):
        report.write(tmp_path / "a.html")
    report.write(tmp_path / "a.html", force=True)
    with refused("folder must exist"):
        report.write(tmp_path / "none" / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


@pytest.mark.parametrize("name", ["a.parquet", "a.html.parquet", "a", "html"])
def test_a_report_is_called_html(name: str, tmp_path: Path) -> None:
    with refused("ends with .html"):
        words(30).report(tmp_path / name, force=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("link", ["", "symbolic", "hard"])
def test_a_report_never_replaces_its_release(link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words(30).write("r.parquet")
    written = Path("r.parquet").read_bytes()
    for name in ("r.parquet", "r.html"):
        if name == "r.html" and link:
            (os.symlink if link == "symbolic" else os.link)("r.parquet", name)
        done = CliRunner().invoke(cli, ["report", "r.parquet", "-o", name, "--force"])
        assert isinstance(done.exception, InvalidValue) or (name == "r.html" and not link)
    assert Path("r.parquet").read_bytes() == written


def test_a_notebook_shows_a_report_in_a_frame_that_cannot_reach_it() -> None:
    report = words(30).report()
    frame = report._repr_html_()
    found = re.fullmatch(r'<iframe title="[^"]*" sandbox="allow-scripts" [^<>]*srcdoc="([^"]*)"></iframe>', frame)
    assert found is not None
    assert html.unescape(found[1]) == report.html
    assert len(repr(report)) < 100


def test_a_notebook_shows_a_release_without_the_chart_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("altair", "vl_convert"):
        monkeypatch.setitem(sys.modules, module, None)
    release = words()
    view = release._repr_html_()
    assert "<script" not in view
    top = sorted(zip(release.table["token"].to_pylist(), release.table["word"].to_pylist(), strict=True))[-10:]
    rows = re.findall(r'<tr><td style="text-align:left">(w\d+)</td>', view)
    assert sorted(rows) == sorted(word for _, word in top)
    assert "epsilon 1, delta 1e-06" in view
    assert "<polyline" in view
    assert re.findall(r"<text [^>]*>([^<]*)</text>", view)[:3] == ["0 %", "50 %", "100 %"]
    assert ">14</text>" in view  # the detection threshold, on the axis of the frequencies
    assert "token" not in view
    answer = release.top(3)._repr_html_()
    assert "'w" not in html.unescape(answer)
    assert answer.count('<td style="text-align:left">w0') == 3
    with refused("drawn with Altair") as found:
        release.report()
    assert "pip install 'dpsample[report]'" in str(found.value)


def test_a_chart_has_the_top_keys_with_their_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    release = words()
    drawn = release.plot(5, title="Mine", level=0.9).to_dict()
    bars, intervals = drawn["layer"]
    (rows,) = drawn["datasets"].values()
    assert rows == [
        {"key": f"{n}. {key}", "value": e.value, "low": e.low, "high": e.high}
        for n, (key, e) in enumerate(release.top(5, level=0.9), 1)
    ]
    assert (intervals["encoding"]["x"]["field"], intervals["encoding"]["x2"]["field"]) == ("low", "high")
    assert "90 % intervals" in bars["encoding"]["x"]["title"]
    assert len(RELEASES["hostile"]().plot(50).to_json()) < 20_000  # a key of 10,000 characters is cut
    release.write("w.parquet")
    for name, head in (("a.svg", b"<svg"), ("a.png", b"\x89PNG")):
        done = CliRunner().invoke(cli, ["plot", "w.parquet", "-k", "3", "-o", name, "--where", "word < 'w0300'"])
        assert done.exit_code == 0, done.output
        assert Path(name).read_bytes().startswith(head)
    for arguments, rule in ((["-o", "a.pdf"], "ends with .svg"), (["-o", "a.svg"], "not overwritten")):
        done = CliRunner().invoke(cli, ["plot", "w.parquet", *arguments])
        assert rule in str(done.exception)
    with refused("keys"):
        RELEASES["keys only"]().plot()
    monkeypatch.setitem(sys.modules, "altair", None)
    with refused("drawn with Altair"):
        release.plot()
    assert "chart-reported" in release.report(prove=False).html  # the browser draws it


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["missing.parquet", "-o", "page.html"], "must exist to be read"),
        (["words.parquet", "-o", "taken.html"], "not overwritten"),
        (["words.parquet", "-o", "none/page.html"], "folder must exist"),
        (["words.parquet", "-o", "page.html", "--top", "0"], "from 1 on"),
        (["words.parquet", "-o", "page.html", "--date", "today"], "YYYY-MM-DD"),
    ],
)
def test_the_command_refuses_what_cannot_be(
    arguments: list[str], rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words(5).write("words.parquet")
    Path("taken.html").write_text("mine")
    done = CliRunner().invoke(cli, ["report", *arguments])
    assert isinstance(done.exception, InvalidValue)
    assert rule in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken.html", "words.parquet"]
    assert Path("taken.html").read_text() == "mine"


def test_the_command_writes_the_page_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words(30).write("words.csv")
    done = CliRunner().invoke(cli, ["report", "words.csv", "-o", "page.html", "--title", "My <words>", "--top", "3"])
    assert done.exit_code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>My &lt;words&gt;</title>" in page
    assert page == make_report(read_release("words.csv"), Statement("My <words>"), name="words.csv", top=3).html
    assert str(tmp_path) not in page


# The chart library's code.


def test_kept_code_is_used_only_if_nobody_else_can_have_written_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Library:
        def __init__(self) -> None:
            self.calls = 0

        def javascript_bundle(self) -> str:
            self.calls += 1
            return "code('</script><!--')"

    library = Library()
    monkeypatch.setattr(front_end, "converter", lambda: library)
    monkeypatch.setenv("DPSAMPLE_CACHE", str(tmp_path / "cache"))

    def asked() -> int:
        front_end.chart_library.cache_clear()
        before = library.calls
        assert front_end.chart_library() == r"code('<\/script><\!--')"
        return library.calls - before

    try:
        assert (asked(), asked()) == (1, 0)
        (kept,) = (tmp_path / "cache").iterdir()
        content = kept.read_bytes()
        kept.write_bytes(content + b"alert(1)")  # damaged
        assert (asked(), asked()) == (1, 0)
        kept.chmod(0o666)
        assert (asked(), asked()) == (1, 0)
        kept.parent.chmod(0o777)
        assert (asked(), asked()) == (1, 1)
        kept.parent.chmod(0o700)
        kept.unlink()
        kept.symlink_to(tmp_path / "elsewhere")
        assert asked() == 1
    finally:
        front_end.chart_library.cache_clear()
