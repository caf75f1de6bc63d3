"""Goals of a plan: the smallest epsilon, what is recommended, and plans from an earlier release."""

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import dpsample
from dpsample import KeepAll, Priority, Privacy, Sampling
from dpsample.planning.earlier import estimated_frequencies
from dpsample.planning.forecast import Expected, Forecast, forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.goals import Goal, recommended, smallest_epsilon
from dpsample.planning.setting import Setting
from planned import PUBLIC, ZIPF, run
from references import true_pi
from support import refused

# goals


def three_figures_below(epsilon: Fraction) -> Decimal:
    number = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
    step = Decimal(1).scaleb(number.adjusted() - 2)
    below = number - step
    return below if below.adjusted() == number.adjusted() else number - step / 10


@pytest.mark.parametrize("goal", ["keys>=50", "keys >= 99.5", "elements>=0.5"])
def test_the_smallest_epsilon_for_coverage(goal: str) -> None:
    """By the recurrence in 120 digits: it reaches the goal, and the next smaller epsilon does not."""
    what, bound = goal.replace(" ", "").split(">=")
    found = smallest_epsilon(PUBLIC, Setting(Privacy(1, "1e-5")), goal)
    epsilon = found.setting.privacy.epsilon

    def value(e: Fraction | Decimal) -> Decimal:
        pi = true_pi(KeepAll(), Privacy(e, "1e-5"), 300)
        pairs = list(zip(PUBLIC.values.tolist(), PUBLIC.keys.tolist(), strict=True))
        if what == "keys":
            return sum((n * pi[i] for i, n in pairs), Decimal(0))
        return sum((n * i * pi[i] for i, n in pairs), Decimal(0)) / PUBLIC.elements

    assert value(epsilon) >= Decimal(bound) > value(three_figures_below(epsilon))


@pytest.mark.parametrize(("goal", "name"), [("nrmse<=0.3", "nrmse"), ("selection<=0.4", "selection_nrmse")])
def test_the_smallest_epsilon_for_an_error(goal: str, name: str) -> None:
    setting = Setting(Privacy(1, "1e-6"))
    told: list[tuple[str, int, int | None]] = []
    found = smallest_epsilon(ZIPF, setting, goal, 0.2, lambda *event: told.append(event))
    assert told == [("trying epsilons", n, None) for n in range(1, len(told) + 1)]
    assert len(told) < 25
    bound = float(goal.split("<=")[1])
    assert getattr(found.pws, name) <= bound
    below = Setting(Privacy(three_figures_below(found.setting.privacy.epsilon), "1e-6"))
    assert getattr(forecast(ZIPF, below, 0.2, baselines=False).pws, name) > bound


@pytest.mark.parametrize(
    "goal",
    [
        "",
        "keys",
        "keys<=5",
        "nrmse>=0.1",
        "keys>=nan",
        "keys>=-1",
        "keys>=0",
        "elements>=1.1",
        "users>=5",
        "keys>=1e400",
    ],
)
def test_goals_that_are_none(goal: str) -> None:
    with refused(""):
        Goal.of(goal)


def test_goals_out_of_reach_are_refused_and_private_data_stay_so() -> None:
    setting = Setting(Privacy(1, "1e-6"), Priority("0.001"))
    with refused("no epsilon up to 20 reaches") as info:
        smallest_epsilon(PUBLIC, setting, "keys>=602")
    # 0.001 for each of 1,790 elements; those that are alone in their key may show with probability delta only
    assert "the best is 1.79" in str(info.value)
    secret = Frequencies.of({31337: 7})
    with refused("no epsilon up to 20 reaches", hidden=["31337", "7"]):
        smallest_epsilon(secret, Setting(Privacy(1, "1e-6")), "keys>=8")
    assert smallest_epsilon(secret, Setting(Privacy(1, "1e-6")), "keys>=1").private


def test_what_shows_itself_shows_nothing_private() -> None:
    for frequencies, told in ((Frequencies.of({31337: 7}), "NOT private"), (PUBLIC, "of 602 keys")):
        found: Forecast = forecast(frequencies, Setting(Privacy(1, "1e-6")), errors=False)
        assert told in repr(found)
        assert "31337" not in repr(found)
        assert found.to_json()["private_input"] is frequencies.private
        json.dumps(found.to_json())
    for share in (0, 1.5, math.nan, True):
        with refused("a share of the keys"):
            forecast(PUBLIC, Setting(Privacy(1, "1e-6")), share)


# a cut, a recommendation, an earlier release


def test_shares_are_relative_to_the_data_before_a_cut() -> None:
    """The sums of exact probabilities, over what all users had; what any method could report follows from it too."""
    cut = Frequencies.of({1: 100, 20: 30, 60: 10})
    uncut = Frequencies.of({2: 100, 25: 30, 90: 12})
    privacy = Privacy(1, "1e-6")
    made = forecast(replace(cut, uncut=uncut), Setting(privacy))
    pi = true_pi(KeepAll(), privacy, 100)
    reported = 100 * pi[1] + 30 * 20 * pi[20] + 10 * 60 * pi[60]
    assert made.pws.share_of_elements == pytest.approx(float(reported) / (200 + 750 + 1080), rel=1e-11)
    keys = float(100 * pi[1] + 30 * pi[20] + 10 * pi[60])
    assert made.pws.keys == pytest.approx(keys, rel=1e-11)
    assert made.pws.share_of_keys == pytest.approx(keys / 142, rel=1e-11)
    assert made.possible is not None
    assert made.possible.keys == pytest.approx(float(100 * pi[2] + 30 * pi[25] + 12 * pi[90]), rel=1e-11)
    shown = made.to_json()
    assert (shown["elements"], shown["uncut_elements"], shown["uncut_keys"]) == (1300, 2030, 142)
    without = forecast(cut, Setting(privacy))
    ratio = 142 / 140
    for one, other in zip(made.methods, without.methods, strict=True):  # of baselines too
        assert one.share_of_keys * ratio == pytest.approx(other.share_of_keys)


def test_what_a_cut_takes_away_is_an_error() -> None:
    """Keys that are surely reported have no other one: N of 50 keys are selected, each of which lost 1,000."""
    cut = replace(Frequencies.of({4000: 50}), uncut=Frequencies.of({5000: 50}))
    pws = forecast(cut, Setting(Privacy(1, "1e-6")), share=0.2, baselines=False).pws
    assert pws.nrmse == pytest.approx(0.2, rel=1e-3)
    square = sum(math.comb(50, n) * 0.2**n * 0.8 ** (50 - n) * (1000 * n) ** 2 for n in range(51))
    assert pws.selection_nrmse == pytest.approx(math.sqrt(square) / (0.2 * 250_000), rel=1e-3)


def test_what_is_recommended_spends_least_of_what_covers_enough() -> None:
    def made(epsilon: str, covered: float, delta: str = "1e-6", bound: int | None = None) -> Forecast:
        setting = Setting(Privacy(epsilon, delta), max_keys_per_user=bound)
        return Forecast(setting, KeepAll(), PUBLIC, (Expected("PWS", 1.0, 0.1, covered, 9),))

    grid = [made("0.1", 0.5), made("0.5", 0.71), made("1", 0.73), made("2", 0.8)]
    assert recommended(grid) is grid[2]  # 0.72 is 90 % of the best
    assert recommended([*grid, made("1", 0.75)]).covered == 0.75
    assert recommended([*grid, made("1", 0.725, "1e-7")]).covered == 0.725
    assert recommended(grid, Goal.of("keys>=5")) is grid[0]
    assert recommended([made("0.1", 0), made("1", 0)]).setting.privacy.epsilon == Fraction(1, 10)
    bounds = [made("1", 0.449, bound=5), made("1", 0.508, bound=10), made("1", 0.503, bound=20)]
    assert recommended(bounds) is bounds[1]


@pytest.mark.chance("odds 2e-8: three of 5,000 single elements show, at delta 1e-6; else seven standard deviations")
@pytest.mark.parametrize(
    ("sampling", "keys", "elements"), [(KeepAll(), 3, 600), (Priority("0.0101"), 120, 7200)], ids=str
)
def test_a_plan_from_an_earlier_release(sampling: Sampling, keys: int, elements: int, tmp_path: Path) -> None:
    """400 keys of frequency 60 and 20 of 1,000 are above the threshold; 5,000 of 1 are below it, and left out.

    Priority samples 60 with probability 0.6: without a division by it there would be 160 keys less.
    """
    data = {f"{i} {n}": i for i, number in ((1, 5000), (60, 400), (1000, 20)) for n in range(number)}
    privacy = Privacy(1, "1e-6")
    release = dpsample.release(data, privacy=privacy, sampling=sampling)
    found, pi = estimated_frequencies(release), true_pi(sampling, privacy, 99)
    assert (found.private, found.known_from) == (False, next(i for i in range(99) if pi[i] >= Decimal("0.5")))
    assert abs(found.total - 420) <= keys
    assert abs(found.elements - 44_000) <= elements
    assert int(found.values.min()) >= found.known_from
    release.write(tmp_path / "r.parquet")
    lines = run("--release", str(tmp_path / "r.parquet"), "-e", "0.5,1").splitlines()
    assert f"Note: keys below frequency {found.known_from} are unknown: all numbers leave them out." in lines
    assert lines[0].startswith("delta 1e-06, for each element")  # that of the release
    assert not any("NOT PRIVATE" in line for line in lines)


@pytest.mark.chance("certain: no key is reported, or none has a token")
def test_releases_that_say_nothing_of_frequencies_are_refused() -> None:
    with refused("no tokens to plan from"):
        estimated_frequencies(dpsample.release({"a": 5000}, privacy=(1, "1e-6"), keys_only=True))
    with refused("no keys at or above its detection threshold"):
        estimated_frequencies(dpsample.release({}, privacy=(1, "1e-6")))
