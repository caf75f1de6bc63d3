"""The flagship example: its measures are those of counts by hand, and a small week runs to the end."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import week
from dpsample import InvalidValue, read_ledger, read_release
from world import MOST_VIEWS, World

SMALL = World(devices=8_000, pages=200, seed=5)


def test_devices_report_ten_pages_at_most_and_none_twice() -> None:
    day = next(SMALL.week())
    rows = day.views.to_pylist()
    views = [(row["device"], row["country"], row["project"], row["page"]) for row in rows]
    assert len(set(views)) == len(views)
    assert max(Counter(device for device, *_ in views).values()) == MOST_VIEWS
    assert len({row["country"] for row in rows}) > 20
    assert [SMALL.group(*view[1:]) for view in views] == day.groups.tolist() == SMALL.number(day.views).tolist()
    again = next(World(devices=8_000, pages=200, seed=5).week())
    assert again.views.equals(day.views)


def test_measures_by_hand() -> None:
    truth = week.Truth(np.array([1, 2, 3, 4]), np.array([100, 90, 200, 10]), np.array([1, 3, 4, 9]))
    published = week.Published(
        *(np.array(column) for column in ([3, 4, 9], [180, 12, 95], [150, 11, 60], [190, 20, 130]))
    )
    quality = week.quality_of([published], [truth])
    assert quality.published == 3
    assert quality.dropped_listed == pytest.approx(1 / 2)  # of 1 and 3, which have 90 or more
    assert quality.dropped == pytest.approx(2 / 3)  # of 1, 2 and 3
    assert quality.dropped_large == 0  # of 3
    assert quality.spurious == pytest.approx(1 / 3)  # 9 does not exist
    assert quality.error == pytest.approx((20 / 200 + 2 / 10) / 2)
    assert quality.covered == 0  # 200 is above 190, 10 below 11, and 0 below 60


def test_the_list_has_the_stated_noise() -> None:
    listed = np.arange(100_000)
    truth = week.Truth(listed, np.full(len(listed), 1000), listed)
    counts = week.publish_listed(truth, 1).counts
    assert np.std(counts - 1000) == pytest.approx((10 / 0.03) ** 0.5, rel=0.02)
    assert np.abs(np.mean(counts - 1000)) < 0.5


@pytest.mark.chance("certain: what is said is compared with the releases; pages of 300 devices exceed any noise")
def test_a_small_week(tmp_path: Path) -> None:
    folder, lines = tmp_path / "week", list[str]()
    measured = week.run(SMALL, folder, lines.append)
    days = sorted(path.name[:10] for path in folder.glob("*.zcdp.private.parquet"))
    assert days == [f"2026-11-{day:02d}" for day in range(9, 16)]
    releases = [read_release(folder / f"{day}.zcdp.private.parquet") for day in days]
    assert measured[week.PRIVATE].published == sum(map(len, releases)) > 0
    assert all(measured[way].spurious == 0 for way in (week.PRIVATE, week.STATED))
    assert all(release.privacy == week.ZCDP and release.unit == "user" for release in releases)
    assert read_ledger(folder / "zcdp.ledger").spent[:2] == (week.ZCDP.epsilon, week.ZCDP.delta)
    assert (folder / "pageviews.svg").read_text(encoding="utf-8").startswith("<svg")
    assert f"{measured[week.PRIVATE].published:,}" in "\n".join(lines)
    with pytest.raises(InvalidValue, match="for the results exists already"):
        week.run(SMALL, folder, lines.append)
