"""The content of a plan's page, as JSON values: its sliders, and what it shows at each position of them.

Axis       a slider, with the texts of its positions
axes       a plan -> its sliders
content    a plan -> all that the page's script reads
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.exact import text
from dpsample.planning.charts import Chart
from dpsample.planning.columns import Column, columns, rows
from dpsample.planning.command import command, python
from dpsample.planning.forecast import Forecast
from dpsample.planning.plan import Plan, described_data, sampling_of, stated_name
from dpsample.release.explain import explain_protected, explain_strength, sentence
from dpsample.release.option_words import budget_value

_ASCENDING: dict[
    str, Callable[[Forecast], Fraction]
] = {  # the sliders of numbers, and what they are ordered by
    "epsilon": lambda forecast: Fraction(budget_value(forecast.setting.privacy)),
    "delta": lambda forecast: forecast.setting.privacy.delta,
    "users": lambda forecast: Fraction(forecast.setting.max_keys_per_user or 0),
}


@dataclass(frozen=True)
class Axis:
    """A slider: its name, its title, and the texts of its positions in order."""

    name: str
    title: str
    labels: list[str]


def axes(plan: Plan) -> list[Axis]:
    """Return the sliders of a plan. Numbers ascend; samplings keep the order in which they were planned."""
    forecasts = plan.forecasts
    titles = {
        "epsilon": stated_name(forecasts[0].setting.privacy).capitalize(),
        "delta": "Delta",
        "sampling": "Sampling",
        "users": "Keys per user",
    }
    made = []
    for name, title in titles.items():
        ordered = sorted(forecasts, key=_ASCENDING[name]) if name in _ASCENDING else forecasts
        labels = [position(forecast)[name] for forecast in ordered]
        made.append(Axis(name, title, list(dict.fromkeys(labels))))
    return made


def position(forecast: Forecast) -> dict[str, str]:
    """Return where a forecast stands on each slider, as a text."""
    setting = forecast.setting
    size, bound = setting.size, setting.max_keys_per_user
    sampling = f"{size.scheme}, about {size.size:,} keys" if size else sampling_of(forecast)
    users = f"{bound:,}" if bound else "no bound"
    epsilon, delta = budget_value(setting.privacy), text(setting.privacy.delta)
    return {"epsilon": epsilon, "delta": delta, "sampling": sampling, "users": users}


def content(plan: Plan, drawn: Sequence[Chart]) -> dict[str, Any]:
    """Return all that the page's script reads: the sliders, where they start, and what is shown at each position."""
    shown = columns(plan.forecasts)
    records = {}
    for place, forecast in enumerate(plan.forecasts):
        record = _record(forecast, plan, shown)
        record["lines"] = {chart.name: chart.lines[place] for chart in drawn}
        records["|".join(position(forecast).values())] = record
    labels = {axis.name: axis.labels for axis in axes(plan)}
    specified = {chart.name: chart.to_json() for chart in drawn}
    return {
        "axes": labels,
        "start": position(plan.recommended),
        "charts": specified,
        "forecasts": records,
    }


def _record(forecast: Forecast, plan: Plan, shown: Sequence[Column]) -> dict[str, Any]:
    """What the page shows at the position of a forecast, but for its charts."""
    setting = forecast.setting
    facts = [column.cell(forecast, forecast.pws) for column in shown]
    return {
        "data": described_data(forecast),
        "facts": facts,
        "summary": _summary(forecast, shown, facts),
        "meaning": _meaning(forecast),
        "rows": rows(forecast, shown),
        "notes": [sentence(note) for note in forecast.notes],
        "command": command(setting, plan.source),
        "python": python(setting, plan.source),
    }


def _summary(forecast: Forecast, shown: Sequence[Column], facts: Sequence[str]) -> str:
    """The numbers of the release in one line, to be read aloud."""
    privacy = forecast.setting.privacy
    titled = [f"{column.title}: {fact}" for column, fact in zip(shown, facts, strict=True)]
    return f"{stated_name(privacy)} {budget_value(privacy)}. {'; '.join(titled)}."


def _meaning(forecast: Forecast) -> list[str]:
    """What the privacy of a setting means, in sentences."""
    setting = forecast.setting
    protected = explain_protected(setting.max_keys_per_user, setting.unit)
    strength = explain_strength(setting.privacy, setting.unit)
    return [f"The release protects {protected}.", *map(sentence, strength)]
