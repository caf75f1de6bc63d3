"""The demo: which identifiers of Python's standard library could be published, and how surely."""

import re
import sysconfig
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpsample.privacy import Privacy
from dpsample.scheme import KeepAll, Ppswor, certify, kendall_tau, reporting_probabilities, token_law

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def standard_library() -> Counter[str]:
    """Count the identifiers in the sources of the running Python's standard library."""
    words: Counter[str] = Counter()
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" not in path.parts:
            words.update(_IDENTIFIER.findall(path.read_text(encoding="utf-8", errors="replace")))
    return words


def demo(show: Callable[[str], object]) -> None:
    """Print expected reporting, an example law and a certificate."""
    words = standard_library()
    frequencies = np.array(list(words.values()))
    show(
        f"Elements: {frequencies.sum():,} identifiers in Python's standard library; keys: {len(words):,} distinct ones."
    )
    show("Not private data, so the demo may look at the frequencies. How much of it could be published?\n")
    show("  epsilon  delta   sampling            expected keys   of elements   surely (99 %) from frequency   rank tau")
    for privacy in (Privacy(0.1, 1e-6), Privacy(0.5, 1e-6), Privacy(1, 1e-8)):
        for sampling in (KeepAll(), Ppswor(tau="1e-3")):
            pi = reporting_probabilities(frequencies, sampling, privacy)
            probe = np.arange(1, 100_000)
            sure = probe[reporting_probabilities(probe, sampling, privacy) >= 0.99][0]
            covered = pi @ frequencies / frequencies.sum()
            tau = kendall_tau(frequencies, sampling, privacy)
            show(
                f"  {float(privacy.epsilon):<8g} {float(privacy.delta):<7g} {sampling!s:<19} {pi.sum():>13,.0f}"
                f"   {covered:>11.1%}   {sure:>29,}   {tau:>8.4f}"
            )
    privacy = Privacy(1, 1e-8)
    common, n = words.most_common(100)[-1]
    law = token_law(n, KeepAll(), privacy)
    low, high = (int(law.tokens[np.searchsorted(np.cumsum(law.probabilities), p)]) for p in (0.025, 0.975))
    show(f"\nThe 100th most common, {common!r}, occurs {n:,} times; at {privacy} its token would be")
    show(f"between {low:,} and {high:,} with 95 % probability. And the proof that this is private:\n")
    show(str(certify(KeepAll(), privacy)))
