"""dpsample demo: release the identifiers of Python's own standard library, and show the result.

The data are public, so the demo may show the truth beside the release.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pyarrow.compute as pc

from dpsample.paper.data import standard_library
from dpsample.presentation.explain import explain_privacy, explain_sampling, explain_visibility
from dpsample.privacy import Privacy
from dpsample.private.run import release_to_file
from dpsample.release.release import read_release
from dpsample.scheme import KeepAll, Ppswor, Sampling, certify, reporting_probabilities


def demo(show: Callable[[str], object]) -> None:
    """Make two releases, show their top keys and a sum beside the truth, and certify their schemes."""
    show("Reading the sources of Python's standard library ...")
    elements = standard_library()
    counted = elements.group_by("word").aggregate([([], "count_all")])
    truth = dict(zip(counted["word"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
    show(f"{elements.num_rows:,} elements (identifiers), {len(truth):,} keys (distinct ones).")
    privacy = Privacy(epsilon=0.5, delta=1e-7)
    with tempfile.TemporaryDirectory() as folder:
        for sampling in (KeepAll(), Ppswor(tau="1e-3")):
            path = Path(folder) / f"words-{sampling.name.replace(' ', '-')}.private.parquet"
            keys = release_to_file(path, elements, "word", privacy=privacy, sampling=sampling)
            for line in _described(path, keys, truth, sampling, privacy):
                show(line)
    show("\nYour own data:")
    show("  dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.private.parquet")


def _described(path: Path, keys: int, truth: dict[str, int], sampling: Sampling, privacy: Privacy) -> Iterator[str]:
    """Describe a release, beside the truth."""
    expected = reporting_probabilities(np.fromiter(truth.values(), np.int64), sampling, privacy).sum()
    yield f"\n{path.name}: {keys:,} keys ({expected:,.0f} expected), {path.stat().st_size / 1000:,.0f} kB"
    yield f"  sampled {explain_sampling(sampling)}"
    yield f"  privacy {explain_privacy(privacy)}"
    yield f"  seen    {explain_visibility(sampling, privacy)}"
    yield "  top keys        token     estimate      truth"
    table = read_release(path).table
    for row in table.sort_by([("estimate", "descending")]).slice(0, 8).to_pylist():
        yield f"  {row['word']:<10} {row['token']:>10,.2f} {row['estimate']:>12,.1f} {truth[row['word']]:>10,}"
    selected = table.filter(pc.starts_with(table["word"], "_"))
    true_sum = sum(n for word, n in truth.items() if word.startswith("_"))
    yield (
        f"  a sum: identifiers that begin with '_' have {pc.sum(selected['estimate']).as_py():,.0f} elements, by the "
        f"estimates of {selected.num_rows:,} reported keys; in truth {true_sum:,}"
    )
    yield from (f"  {line}" for line in str(certify(sampling, privacy)).splitlines())


@click.command("demo")
def demo_command() -> None:
    """Release the identifiers of Python's standard library. Shows the result beside the truth."""
    demo(click.echo)
