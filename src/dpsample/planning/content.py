"""The content of a plan's page, as JSON values: its sliders, and what it shows at each position of them.

Axis       a slider, with the texts of its positions
axes       a plan -> its sliders
content    a plan -> all that the page's script reads
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.planning.charts import joined, position_of
from dpsample.planning.columns import Column, columns, rows
from dpsample.planning.command import command, python
from dpsample.planning.forecast import Forecast
from dpsample.planning.plan import Plan, described_data, stated_name
from dpsample.release.explain import explain_protected, explain_strength, sentence
from dpsample.release.option_words import budget_value


@dataclass(frozen=True)
class Axis:
    """A slider: its name, its title, and the texts of its positions in order."""

    name: str
    title: str
    labels: list[str]


def axes(plan: Plan) -> list[Axis]:
    """Return the sliders of a plan. Numbers ascend; samplings keep the order in which they were planned."""
    forecasts = plan.forecasts
    epsilon = stated_name(forecasts[0].setting.privacy).capitalize()
    by_epsilon = sorted(forecasts, key=_epsilon)
    by_delta = sorted(forecasts, key=_delta)
    by_keys = sorted(forecasts, key=_keys_per_user)
    return [
        _axis("epsilon", epsilon, by_epsilon),
        _axis("delta", "Delta", by_delta),
        _axis("sampling", "Sampling", forecasts),
        _axis("users", "Keys per user", by_keys),
    ]


def _axis(name: str, title: str, ordered: Sequence[Forecast]) -> Axis:
    """Return a slider, whose positions have the order of these forecasts."""
    labels = [position_of(forecast)[name] for forecast in ordered]
    return Axis(name, title, list(dict.fromkeys(labels)))


def _epsilon(forecast: Forecast) -> Fraction:
    return Fraction(budget_value(forecast.setting.privacy))


def _delta(forecast: Forecast) -> Fraction:
    return forecast.setting.privacy.delta


def _keys_per_user(forecast: Forecast) -> int:
    return forecast.setting.max_keys_per_user or 0


def content(plan: Plan) -> dict[str, Any]:
    """Return all that the page's script reads: the sliders, where they start, and what is shown at each position."""
    shown = columns(plan.forecasts)
    records = {}
    for forecast in plan.forecasts:
        records[joined(position_of(forecast))] = _record(forecast, plan, shown)
    labels = {axis.name: axis.labels for axis in axes(plan)}
    return {"axes": labels, "start": position_of(plan.recommended), "forecasts": records}


def _record(forecast: Forecast, plan: Plan, shown: Sequence[Column]) -> dict[str, Any]:
    """Return what the page shows at the position of a forecast, besides its charts."""
    setting = forecast.setting
    facts = [column.cell(forecast, forecast.pws) for column in shown]
    record: dict[str, Any] = {"data": described_data(forecast), "facts": facts}
    record["summary"] = _summary(forecast, shown, facts)
    record["meaning"] = _meaning(forecast)
    record["rows"] = rows(forecast, shown)
    record["notes"] = [sentence(note) for note in forecast.notes]
    record["command"] = command(setting, plan.source)
    record["python"] = python(setting, plan.source)
    return record


def _summary(forecast: Forecast, shown: Sequence[Column], facts: Sequence[str]) -> str:
    """Return the numbers of the release in one line, to be read aloud."""
    privacy = forecast.setting.privacy
    epsilon = f"{stated_name(privacy)} {budget_value(privacy)}"
    titled = []
    for column, fact in zip(shown, facts, strict=True):
        titled.append(f"{column.title}: {fact}")
    return f"{epsilon}. {'; '.join(titled)}."


def _meaning(forecast: Forecast) -> list[str]:
    """Return what the privacy of a setting means, in sentences."""
    setting = forecast.setting
    protected = explain_protected(setting.max_keys_per_user, setting.unit)
    strength = explain_strength(setting.privacy, setting.unit)
    return [f"The release protects {protected}.", *map(sentence, strength)]
