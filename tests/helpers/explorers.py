"""What tests of plans and of their page share."""

import pyarrow as pa

from dpsample.planning import Forecast, Frequencies, Grid, forecast

ZIPF = Frequencies.zipf(1, 1000)


def number(text: str) -> float:
    """Read a number that is shown."""
    plain = text.replace(",", "").removesuffix(" times")
    return float(plain.removesuffix(" %")) / 100 if plain.endswith(" %") else float(plain)


def forecasts(grid: Grid, private: bool = False, share: float = 0.1) -> list[Forecast]:
    """The forecasts of a grid, of made-up frequencies that may count as private."""
    frequencies = Frequencies(ZIPF.values, ZIPF.keys, private)
    return grid.forecasts(lambda _: frequencies, lambda known, setting: forecast(known, setting, share))


NUMBERS = {"many": 1000, "some": 100, "few": 14, "rare": 1}  # users of each key


def one_key_each() -> pa.Table:
    """Users have one key each, in two rows."""
    rows = [(f"{key} {n}", key) for key, users in NUMBERS.items() for n in range(users)] * 2
    return pa.table({"u": [u for u, _ in rows], "k": [k for _, k in rows]})
