"""The report's content and HTML, without a browser: every number is the library's, and no text is trusted."""

from __future__ import annotations

import datetime
import html
import math
import re
from fractions import Fraction

import pyarrow as pa
import pytest

import dpsample.presentation.report
import dpsample.presentation.report.content as report_content
import dpsample.presentation.report.listing as listing
from dpsample import KeepAll, Privacy, Release
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.errors import PrivacyViolation
from dpsample.estimators.notes import claim_of
from dpsample.presentation.charts.drawing import DARK, DASHES, LIGHT
from dpsample.presentation.markup import Markup, tag
from dpsample.presentation.report import PageSetting, Statement, content_of, display, make_report
from dpsample.presentation.report.content import round_frequencies
from dpsample.presentation.tables import printable
from dpsample.release.explain import Strength
from dpsample.release.proof import Proof
from dpsample.scheme import reporting_probabilities
from reports import HOSTILE, PRIVACY, RELEASES, data, made, seen, words
from reports import users as users
from stated_terms import stated_terms
from support import refused


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
        assert 'id="chart-top"' not in page
    assert display(release).startswith("<div>")


@pytest.mark.chance("certain: the page is compared with the release")
def test_users_sizes_totals_and_ledgers_are_told(users: Release) -> None:
    text = seen(make_report(users).html)
    assert "each user (all rows of one user identifier), who counts in up to 4 keys" in text
    assert users.terms.bought.size is not None
    assert users.total is not None
    for part in (users.terms.keys_privacy.epsilon, users.terms.bought.size.weights.epsilon, users.total.epsilon):
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
    found = content_of(release, PageSetting(top=7))
    assert found.top is not None
    assert found.top.numbers.equals(release.top(7).numbers)
    assert found.quantiles is not None
    assert found.quantiles.numbers.equals(release.quantiles(list(report_content.SHARES)).numbers)
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
    monkeypatch.setattr(listing, "LISTED", 50)
    page = make_report(release).html
    assert "The 50 most frequent of 400 reported keys" in seen(page)
    shown = data(page, "keys")["keys"][0]
    every = dict(release.each_key())
    left = {key: found.value for key, found in every.items() if key not in shown}
    assert len(left) == 350
    assert max(left.values()) <= min(every[key].value for key in shown)
    monkeypatch.setattr(listing, "_BYTES", 400)
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
        with refused(" must be a "):
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
    release = made({"word": ["a"]}, max_keys=100, per_key=PRIVACY)
    assert isinstance(content_of(release).proof, PrivacyViolation)
    assert "FAILED" in seen(make_report(release).html)


def test_the_proof_is_run_at_a_small_epsilon_too() -> None:
    table = pa.table({"word": pa.array([], pa.string())})
    release = Release(table, stated_terms(Privacy("0.001", "1e-9"), KeepAll(), ("word",), keys_only=True))
    proof = content_of(release).proof
    assert isinstance(proof, Proof)
    assert proof.complete


def test_the_proof_is_left_to_the_command_if_it_is_not_wanted() -> None:
    table = pa.table({"word": pa.array([], pa.string())})
    release = Release(table, stated_terms(PRIVACY, KeepAll(), ("word",), keys_only=True))
    assert content_of(release, PageSetting(prove=False)).proof is None
    assert "not run for this page" in seen(make_report(release, PageSetting(prove=False)).html)


# Keys are untrusted.


def test_hostile_keys_are_only_text() -> None:
    page = make_report(RELEASES["hostile"](), PageSetting(Statement(title="<script>alert(9)</script>"))).html
    ours = re.findall(r"<script[^>]*>", page)
    assert ours == ['<script type="application/json" id="keys">'] + ['<script type="module">'] * 2
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
        assert len(colors) == len(DASHES)
        assert min(contrast(color, ground) for color in colors) >= 3
