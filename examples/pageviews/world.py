"""A generated world of page views: devices in countries read pages of projects, by Zipf's law, day by day.

Nothing in it is real. A seed fixes all of it.

    device   one browser on one day: the unit of privacy is a device-day
    group    a country, a project and a page: what is counted, by the number of devices

A device reports the first ten pages that it reads on a day, and no page twice. The rest never leaves the device.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MOST_VIEWS = 10  # pages that a device reports on a day
BUSY = 150  # views of a page, in all countries together, that a list without privacy wants
FIRST_DAY = np.datetime64("2026-11-09")  # a Monday
DEVICES = (1.0, 1.0, 0.98, 0.97, 0.9, 0.85, 1.05)  # by the day of the week
EVENT = {3: 0.08, 4: 0.05, 5: 0.02, 6: 0.012}  # from Thursday on, this share of the views in one country is of one page
EVENT_PAGE, EVENT_PROJECT, EVENT_COUNTRY = 30, "pt.encyclopedia", "Portugal"
COUNTRIES = {  # the weight of its devices, and its first language
    "Argentina": (5, "es"),
    "Austria": (2, "de"),
    "Belgium": (2.5, "nl"),
    "Brazil": (10, "pt"),
    "Canada": (7, "en"),
    "Chile": (2, "es"),
    "Colombia": (4, "es"),
    "Denmark": (1, "da"),
    "Estonia": (0.3, "et"),
    "Finland": (1.2, "fi"),
    "France": (14, "fr"),
    "Germany": (18, "de"),
    "Iceland": (0.1, "is"),
    "India": (20, "hi"),
    "Ireland": (1.5, "en"),
    "Italy": (13, "it"),
    "Japan": (22, "ja"),
    "Kenya": (1, "sw"),
    "Luxembourg": (0.2, "fr"),
    "Malta": (0.1, "mt"),
    "Mexico": (8, "es"),
    "Netherlands": (4, "nl"),
    "New Zealand": (1.2, "en"),
    "Norway": (1.2, "no"),
    "Poland": (7, "pl"),
    "Portugal": (2, "pt"),
    "Senegal": (0.3, "fr"),
    "Spain": (10, "es"),
    "Sweden": (2.2, "sv"),
    "Switzerland": (2, "de"),
    "United Kingdom": (18, "en"),
    "United States": (60, "en"),
}
PROJECTS = {"encyclopedia": (0.92, 1.0), "dictionary": (0.05, 0.3), "travel": (0.03, 0.1)}  # share of views, of pages

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Day:
    """The views that devices report: a row for each device and page."""

    name: str
    views: pa.Table  # day, device, country, project, page
    groups: Ints  # of each view: the number of its group
    busy_pages: Ints  # with more than 150 views in all countries together, by a count that is not private


class World:
    """All days have the same countries, projects, pages and tastes. Each has devices of its own."""

    def __init__(self, devices: int = 400_000, pages: int = 20_000, seed: int = 2026) -> None:
        self.devices, self.pages, self.seed = devices, pages, seed
        languages = sorted({language for _, language in COUNTRIES.values()})
        self.countries = list(COUNTRIES)
        self.projects = [f"{language}.{kind}" for language in languages for kind in PROJECTS]
        self._language = np.array([languages.index(language) for _, language in COUNTRIES.values()])
        self._english = languages.index("en")
        self._languages = languages
        self._popularity = np.cumsum(1 / np.arange(1, pages + 1))  # Zipf's law

    def pages_of(self, groups: Ints) -> Ints:
        """Return the page of each group: project and page, without the country."""
        return groups % (len(self.projects) * self.pages)

    def everywhere(self, pages: Ints) -> Ints:
        """Return the groups of these pages, in all countries."""
        countries = np.arange(len(self.countries)) * len(self.projects) * self.pages
        return (countries[:, None] + pages).ravel()

    def group(self, country: str, project: str, page: int) -> int:
        """Return the number of a group."""
        return (self.countries.index(country) * len(self.projects) + self.projects.index(project)) * self.pages + page

    def number(self, table: pa.Table) -> Ints:
        """Return the number of the group of each row."""
        rows = zip(*(table[name].to_pylist() for name in ("country", "project", "page")), strict=True)
        return np.fromiter((self.group(*row) for row in rows), dtype=np.int64, count=len(table))

    def week(self) -> Iterator[Day]:
        """Generate the days, one after the other."""
        for weekday, size in enumerate(DEVICES):
            yield self._day(weekday, round(self.devices * size))

    def _day(self, weekday: int, devices: int) -> Day:
        generator = np.random.default_rng((self.seed, weekday))
        weights = np.array([weight for weight, _ in COUNTRIES.values()])
        country = generator.choice(len(weights), devices, p=weights / weights.sum())
        views = 1 + np.floor(generator.lognormal(0.7, 0.9, devices)).astype(np.int64)
        device = np.repeat(np.arange(devices), views)
        group = self._groups(generator, country[device], weekday)
        pages, all_views = np.unique(self.pages_of(group), return_counts=True)
        busy = pages[all_views > BUSY]
        kept = first_views(device, group)
        group, device = group[kept], device[kept]
        name = str(FIRST_DAY + weekday)
        place, page = np.divmod(group, self.pages)
        country, project = np.divmod(place, len(self.projects))
        table = pa.table(
            {
                "day": pa.DictionaryArray.from_arrays(np.zeros(len(group), dtype=np.int32), [name]),
                "device": device,
                "country": pa.DictionaryArray.from_arrays(country.astype(np.int32), self.countries),
                "project": pa.DictionaryArray.from_arrays(project.astype(np.int32), self.projects),
                "page": page,
            }
        )
        return Day(name, table, group, busy)

    def _groups(self, generator: np.random.Generator, country: Ints, weekday: int) -> Ints:
        """Draw the group of each view: a language, a kind of project, and a page by its popularity there."""
        size = len(country)
        chance = generator.random(size)
        language = np.where(chance < 0.75, self._language[country], self._english)
        language = np.where(chance > 0.97, generator.integers(len(self._languages), size=size), language)
        shares, breadth = (np.array(column) for column in zip(*PROJECTS.values(), strict=True))
        kind = generator.choice(len(shares), size, p=shares)
        pages = np.maximum((breadth[kind] * self.pages).astype(np.int64), 1)
        rank = np.searchsorted(self._popularity, generator.random(size) * self._popularity[pages - 1], side="right")
        # two views of five follow the taste of the country: the same law, over pages in another order
        local = (rank * 7919 + 104_729 * (country + 1)) % pages
        page = np.where(generator.random(size) < 0.4, local, rank)
        project = language * len(PROJECTS) + kind
        at_home = country == self.countries.index(EVENT_COUNTRY)
        follows = generator.random(size) < EVENT.get(weekday, 0) * np.where(at_home, 1, 0.005)
        event = self.projects.index(EVENT_PROJECT)
        project, page = np.where(follows, event, project), np.where(follows, EVENT_PAGE, page)
        return np.asarray((country * len(self.projects) + project) * self.pages + page, dtype=np.int64)


def first_views(device: Ints, group: Ints) -> Ints:
    """Return the places of the first ten views of each device, of different groups. Devices are in order."""
    order = np.lexsort((np.arange(len(group)), group, device))
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (device[order][1:] != device[order][:-1]) | (group[order][1:] != group[order][:-1])
    distinct = np.sort(order[fresh])
    nth = np.arange(len(distinct)) - np.searchsorted(device[distinct], device[distinct])
    return np.asarray(distinct[nth < MOST_VIEWS], dtype=np.int64)
