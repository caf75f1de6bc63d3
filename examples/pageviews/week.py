"""A week of page views, released in three ways, and what each of them got right.

    python examples/pageviews/week.py

README.md in this folder tells the story. The data are generated, so that the truth can be shown.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

import dpsample
from dpsample import InvalidValue, Privacy, Release
from dpsample.answers.several import Combined
from dpsample.presentation.charts import WIDE, Axis, Caption, Line, LineChart, Point
from dpsample.presentation.markup import tag
from world import BUSY, EVENT_COUNTRY, EVENT_PAGE, EVENT_PROJECT, MOST_VIEWS, Day, Floats, Ints, World

RHO, DELTA = "0.015", "1e-7"
THRESHOLD = 90  # counts below it are not published by the list
KEY = ["country", "project", "page"]
LISTED, PRIVATE, STATED = "list, zCDP", "private, zCDP", "private, (ε, δ)"
WAYS = (LISTED, PRIVATE, STATED)
ZCDP = Privacy.zcdp(RHO, DELTA)
DEVIATION = (MOST_VIEWS / (2 * float(RHO))) ** 0.5  # of Gaussian noise on the ten counts of a device
WEDNESDAY, THURSDAY = 2, 3

Bools = NDArray[np.bool_]
Show = Callable[[str], object]


@dataclass(frozen=True)
class Published:
    """What one way publishes of one day: groups, their counts, and 95 % intervals."""

    groups: Ints
    counts: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Truth:
    """One day: the groups that exist, in order, how many devices each has, and those that a list would have."""

    groups: Ints
    counts: Ints
    listed: Ints

    @classmethod
    def of(cls, world: World, day: Day) -> "Truth":
        """Count the views of a day. A list has all countries for each of its pages."""
        return cls(*np.unique(day.groups, return_counts=True), np.sort(world.everywhere(day.busy_pages)))

    def __getitem__(self, groups: Ints) -> Ints:
        places = np.minimum(np.searchsorted(self.groups, groups), len(self.groups) - 1)
        return np.where(self.groups[places] == groups, self.counts[places], 0)


@dataclass(frozen=True)
class Quality:
    """The measures of one way, over all days."""

    published: int
    dropped_listed: float  # of the groups on the list with 90 devices or more, the share that is not published
    dropped: float  # the same of all groups
    dropped_large: float  # the same from 150 devices on
    spurious: float  # of the published groups, the share that no device has
    error: float  # the median of |count - truth| / truth
    covered: float  # the share of 95 % intervals that hold


def publish_listed(truth: Truth, seed: int) -> Published:
    """Publish as a large public project does: the list of pages comes from their true counts, and costs nothing.

    Every country gets a count of every listed page, with Gaussian noise, also of pages that nobody there has read.
    This noise is for comparison alone: it comes from floating point and a seed.
    """
    noise = np.random.default_rng(seed).normal(0, DEVIATION, len(truth.listed))
    counts = np.rint(truth[truth.listed] + noise)
    shown = counts >= THRESHOLD
    counts = counts[shown]
    return Published(truth.listed[shown], counts, counts - 1.96 * DEVIATION, counts + 1.96 * DEVIATION)


def publish_private(views: Path, day: str, privacy: Privacy, ledger: Path) -> Release:
    """Publish with dpsample: nothing is known before, and groups are discovered with privacy."""
    output = views.with_name(f"{day}.{ledger.stem}.private.parquet")
    dpsample.release_to_file(
        output,
        views,
        KEY,
        user="device",
        max_keys_per_user=MOST_VIEWS,
        privacy=privacy,
        part=("day", day),
        ledger=ledger,
    )
    return dpsample.read_release(output)


def published_by(world: World, release: Release) -> Published:
    """Return the rows of a release."""
    columns = (release.table[name].to_numpy().astype(float) for name in ("estimate", "low", "high"))
    return Published(world.number(release.table), *columns)


def quality_of(published: Sequence[Published], truths: Sequence[Truth]) -> Quality:
    """Compare what was published with the truth, over all days."""
    pairs = list(zip(published, truths, strict=True))
    true = np.concatenate([truth[day.groups] for day, truth in pairs])
    counts = np.concatenate([day.counts for day in published])
    held = np.concatenate([(day.low <= truth[day.groups]) & (truth[day.groups] <= day.high) for day, truth in pairs])
    real = true > 0
    on_the_list = [np.isin(truth.groups, truth.listed) for truth in truths]
    large = [truth.counts >= THRESHOLD for truth in truths]
    return Quality(
        published=len(true),
        dropped_listed=1 - _shown(published, truths, [a & b for a, b in zip(large, on_the_list, strict=True)]),
        dropped=1 - _shown(published, truths, large),
        dropped_large=1 - _shown(published, truths, [truth.counts >= BUSY for truth in truths]),
        spurious=float(np.mean(~real)),
        error=float(np.median(np.abs(counts - true)[real] / true[real])),
        covered=float(np.mean(held)),
    )


def _shown(published: Sequence[Published], truths: Sequence[Truth], chosen: Sequence[Bools]) -> float:
    """The share of the chosen groups of each day that is published."""
    shown = [
        np.isin(truth.groups[rows], day.groups) for day, truth, rows in zip(published, truths, chosen, strict=True)
    ]
    rows = np.concatenate(shown)
    return float(np.mean(rows)) if len(rows) else 1.0


def quality_lines(measured: dict[str, Quality]) -> list[str]:
    """Lay out the measures, a line for each."""
    lines = [f"{'':<44}" + "".join(f"{way:>18}" for way in measured)]
    for name, words, form in (
        ("published", "groups published", "{:,}"),
        ("dropped_listed", f"drop rate, listed groups of {THRESHOLD} or more", "{:.1%}"),
        ("dropped", f"drop rate, all groups of {THRESHOLD} or more", "{:.1%}"),
        ("dropped_large", f"drop rate, all groups of {BUSY} or more", "{:.2%}"),
        ("spurious", "spurious rate", "{:.2%}"),
        ("error", "median relative error", "{:.1%}"),
        ("covered", "95 % intervals that hold", "{:.1%}"),
    ):
        cells = (form.format(getattr(quality, name)) for quality in measured.values())
        lines.append(f"{words:<44}" + "".join(f"{cell:>18}" for cell in cells))
    return lines


def week_lines(world: World, releases: Sequence[Release], truths: Sequence[Truth]) -> list[str]:
    """Say what the seven releases tell of the week, beside the truth."""
    week = dpsample.combine(*releases)
    assert isinstance(week, Combined)
    groups = world.number(week.table)
    true = np.sum([truth[groups] for truth in truths], axis=0)
    estimate, low, high = (week.table[name].to_numpy() for name in ("estimate", "low", "high"))
    gaps = week.table["releases"].to_numpy() < len(releases)
    held = (low <= true) & (true <= high)
    return [
        f"  {len(groups):,} groups are reported on one day or more; {gaps.sum():,} of them not on every day",
        f"  their weekly counts: median relative error {np.median(np.abs(estimate - true)[~gaps] / true[~gaps]):.1%} "
        f"of those without gaps; 95 % intervals that hold: {held.mean():.1%}",
    ]


def change_lines(world: World, releases: Sequence[Release], truths: Sequence[Truth]) -> list[str]:
    """Say what changed from Wednesday to Thursday, when something happened in one country."""
    changed = dpsample.changes(releases[WEDNESDAY], releases[THURSDAY])
    wanted = (EVENT_COUNTRY, EVENT_PROJECT, EVENT_PAGE)
    group = np.array([world.group(*wanted)])
    before, after = (int(truths[day][group][0]) for day in (WEDNESDAY, THURSDAY))
    listed = f"{changed.table.num_rows:,} groups"
    lines = [f"  {listed} changed from Wednesday to Thursday, at a rate of false discoveries of 5 %"]
    for place, row in enumerate(changed.table.to_pylist(), 1):
        if tuple(row[name] for name in KEY) == wanted:
            lines.append(
                f"  number {place} is {', '.join(map(str, wanted))}: {row['direction']}, by {row['low']:,.0f} to "
                f"{row['high']:,.0f} devices (in truth {before:,} before, {after:,} after)"
            )
    return lines


def picture(published: dict[str, list[Published]], truths: Sequence[Truth], event: int) -> str:
    """Draw which groups are published, how far off counts are, and one page over the week: an SVG."""
    shares: dict[str, list[Point]] = {}
    errors: dict[str, list[Point]] = {}
    event_counts = [float(truth[np.array([event])][0]) for truth in truths]
    days = {"truth": [Point(n, count) for n, count in enumerate(event_counts, 1)]}
    for way, by_day in published.items():
        for low in range(50, 150, 5):
            chosen = [(truth.counts >= low) & (truth.counts < low + 5) for truth in truths]
            shares.setdefault(way, []).append(Point(low + 2, _shown(by_day, truths, chosen)))
            if way == LISTED:
                own = [near & np.isin(truth.groups, truth.listed) for near, truth in zip(chosen, truths, strict=True)]
                name = "list, of the groups on it"
                shares.setdefault(name, []).append(Point(low + 2, _shown(by_day, truths, own)))
        errors[way] = _errors(by_day, truths)
        days[way] = []
        for n, day in enumerate(by_day, 1):
            days[way] += [Point(n, float(count)) for count in day.counts[day.groups == event]]
    charts = [
        _chart("Which groups are published", Axis("devices", (50, 150)), Axis("share published", (0, 1)), shares),
        _chart("How far off counts are", Axis("devices", log=True), Axis("median relative error", log=True), errors),
        _chart(f"A page in {EVENT_COUNTRY}", Axis("day of the week", (1, 7)), Axis("devices"), days),
    ]
    return _stacked(charts)


def _errors(by_day: Sequence[Published], truths: Sequence[Truth]) -> list[Point]:
    """Return the median relative error of counts of each size."""
    true = np.concatenate([truth[day.groups] for day, truth in zip(by_day, truths, strict=True)])
    off = np.abs(np.concatenate([day.counts for day in by_day]) - true)
    points = []
    for least, most in itertools.pairwise(np.geomspace(80, 4000, 9).tolist()):
        size = (true >= least) & (true < most)
        if size.sum() >= 20:
            points.append(Point((least * most) ** 0.5, float(np.median(off[size] / true[size]))))
    return points


def _chart(title: str, x: Axis, y: Axis, lines: dict[str, list[Point]]) -> LineChart:
    drawn = [Line(name, points) for name, points in lines.items() if points]
    return LineChart(Caption(title.split()[0], title, f"Line chart: {y.label} by {x.label}."), x, y, drawn)


def _stacked(charts: Sequence[LineChart]) -> str:
    """Return the charts below each other, as one SVG."""
    each = 340  # pixels, more than the height of one
    placed = [tag("g", chart.file(), transform=f"translate(0 {n * each})") for n, chart in enumerate(charts)]
    width, height = WIDE + 40, len(charts) * each
    ground = tag("rect", width=width, height=height, fill="#ffffff")
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    return tag("svg", ground, *placed, xmlns="http://www.w3.org/2000/svg", **size)


def run(world: World, folder: Path, show: Show) -> dict[str, Quality]:
    """Generate the week, release it day by day, compare, and keep everything in a folder."""
    if folder.exists():
        raise InvalidValue(f"the folder {str(folder)!r} for the results exists already", "remove it, or use --output")
    folder.mkdir(parents=True)
    stated = Privacy(ZCDP.epsilon, ZCDP.delta)
    ledgers = [folder / "zcdp.ledger", folder / "stated.ledger"]
    for ledger in ledgers:  # two, since a project would choose one of the two
        dpsample.new_ledger(ledger, "page views", stated, unit="user", parts="day")
    show(f"Each device is protected, on each day: {ZCDP}\n")
    truths: list[Truth] = []
    releases: list[Release] = []
    published: dict[str, list[Published]] = {way: [] for way in WAYS}
    for number, day in enumerate(world.week()):
        views = folder / f"{day.name}.parquet"
        pq.write_table(day.views, views)
        private, other = (
            publish_private(views, day.name, privacy, ledger)
            for privacy, ledger in zip((ZCDP, stated), ledgers, strict=True)
        )
        truth = Truth.of(world, day)
        rows = (publish_listed(truth, number), published_by(world, private), published_by(world, other))
        for way, row in zip(WAYS, rows, strict=True):
            published[way].append(row)
        truths.append(truth)
        releases.append(private)
        numbers = " / ".join(f"{len(row.groups):,}" for row in rows)
        show(f"{day.name}  {day.views.num_rows:,} views of {len(truth.groups):,} groups; published {numbers}")
    measured = {way: quality_of(published[way], truths) for way in WAYS}
    ledger_text = str(dpsample.read_ledger(ledgers[0])).splitlines()
    event = world.group(EVENT_COUNTRY, EVENT_PROJECT, EVENT_PAGE)
    image = picture(published, truths, event)
    (folder / "pageviews.svg").write_text(image, encoding="utf-8")
    for lines in (
        quality_lines(measured),
        ["The week, from the seven private zCDP releases", *week_lines(world, releases, truths)],
        ["What changed", *change_lines(world, releases, truths)],
        ["The ledger", *(f"  {line.strip()}" for line in (*ledger_text[:2], ledger_text[-1]))],
        [f"Kept in {folder}: the views, releases and ledgers, and the picture pageviews.svg"],
    ):
        show("\n" + "\n".join(lines))
    return measured


def main() -> None:
    """Run at full size, or as the arguments say."""
    parser = argparse.ArgumentParser(description="A week of page views, released in three ways.")
    parser.add_argument("--output", type=Path, default=Path("pageviews-output"), help="a new folder (%(default)s)")
    parser.add_argument("--devices", type=int, default=400_000, help="on a Monday (%(default)s)")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        run(World(arguments.devices), arguments.output, print)
    except InvalidValue as error:
        parser.exit(2, f"{error}\n")
    print(f"{time.monotonic() - started:.0f} seconds")


if __name__ == "__main__":
    main()
