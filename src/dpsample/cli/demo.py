"""The demo: release the identifiers of Python's own standard library, and look at what comes out.

The data are public, so the demo may show the truth beside the release.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.paper.data import standard_library
from dpsample.presentation.explain import explain_privacy, explain_sampling, explain_visibility
from dpsample.privacy import Privacy
from dpsample.private.run import release_to_file
from dpsample.release.release import read_release
from dpsample.scheme import KeepAll, Ppswor, Sampling, certify, reporting_probabilities


def demo(show: Callable[[str], object]) -> None:
    """Make two releases, show their top keys and a sum beside the truth, and certify them."""
    show("Reading the sources of Python's standard library ...")
    elements = standard_library()
    counted = elements.group_by("word").aggregate([([], "count_all")])
    truth = dict(zip(counted["word"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
    show(f"{elements.num_rows:,} elements (identifiers), {len(truth):,} keys (distinct ones).")
    privacy = Privacy(epsilon=0.5, delta=1e-7)
    with tempfile.TemporaryDirectory() as folder:
        for sampling in (KeepAll(), Ppswor(tau="1e-3")):
            _one(
                elements,
                truth,
                sampling,
                privacy,
                Path(folder) / f"words-{sampling.name.replace(' ', '-')}.private.parquet",
                show,
            )
    show("\nYour own data:")
    show("  dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet")


def _one(
    elements: pa.Table,
    truth: dict[str, int],
    sampling: Sampling,
    privacy: Privacy,
    path: Path,
    show: Callable[[str], object],
) -> None:
    keys = release_to_file(path, elements, "word", privacy=privacy, sampling=sampling)
    frequencies = np.fromiter(truth.values(), np.int64)
    expected = reporting_probabilities(frequencies, sampling, privacy).sum()
    show(f"\n{path.name}: {keys:,} keys ({expected:,.0f} expected), {path.stat().st_size / 1000:,.0f} kB")
    show(f"  sampled {explain_sampling(sampling)}")
    show(f"  privacy {explain_privacy(privacy)}")
    show(f"  seen    {explain_visibility(sampling, privacy)}")
    made = read_release(path)
    show("  top keys        token     estimate      truth")
    for row in made.table.sort_by([("estimate", "descending")]).slice(0, 8).to_pylist():
        show(f"  {row['word']:<10} {row['token']:>10,.2f} {row['estimate']:>12,.1f} {truth[row['word']]:>10,}")
    chosen = made.table.filter(pc.starts_with(made.table["word"], "_"))
    total = sum(n for word, n in truth.items() if word.startswith("_"))
    show(
        f"  a sum: identifiers that begin with '_' have {pc.sum(chosen['estimate']).as_py():,.0f} elements, by the "
        f"estimates of {chosen.num_rows:,} reported keys; in truth {total:,}"
    )
    for line in str(certify(sampling, privacy)).splitlines():
        show(f"  {line}")


@click.command("demo")
def demo_command() -> None:
    """Release the identifiers of Python's own standard library, and look at the result."""
    demo(click.echo)
