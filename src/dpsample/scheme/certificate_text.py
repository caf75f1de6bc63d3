"""A certificate as text: the integers that tokens are drawn from, for another program to check.

docs/proofs.md describes the lines. The rows are those that `certify` checked. Sampling probabilities have the bounds
that the rows were divided by, over 2**bits.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from dpsample.errors import InvalidValue
from dpsample.scheme.certificate import Certificate
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.integer import integer_laws
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import KeepAll

FORMAT = "dpsample-certificate 1"


def repeats(certificate: Certificate) -> bool:
    """Return whether the checked rows cover every frequency: all from 0 on, up to one that repeats, shifted."""
    if len(certificate.checked) != 1 or certificate.shifts_from is None:
        return False
    [span] = certificate.checked
    return span.start == 1 and span.stop == certificate.shifts_from + 1


def certificate_lines(certificate: Certificate) -> Iterator[str]:
    """Yield the lines of a certificate. All integers are hexadecimal.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme import certify
    >>> for line in certificate_lines(certify(KeepAll(), Privacy(8, "0.01"), grid=1)):
    ...     print(" ".join(word if len(word) < 12 else f"{word[:8]}.." for word in line.split()))
    dpsample.. 1
    epsilon 8 1
    delta 1 64
    ratio ba4f53ea.. 10000000..
    terms 48
    grid 1
    cut_one 10000000..
    q_one 1
    repeats 1
    span 0 7
    row 0 0
    row 1 1 28f5c28f..
    row 1 1 28f5c28f.. ffea746f..
    row 1 1 28f5c28f.. ffea746f.. 10000000..
    row 1 1 28f5c28f.. ffea746f.. 10000000..
    row 1 1 28f5c28f.. ffea746f.. 10000000..
    row 1 1 28f5c28f.. ffea746f.. 10000000..
    end
    """
    sampling = certificate.sampling
    privacy = certificate.privacy
    grid = certificate.grid
    if sampling is None or grid is None or isinstance(sampling, SampleAndHold):
        given = "a table" if sampling is None else "a stream"
        raise InvalidValue(
            "a certificate can be written for a scheme that draws each key's token at once, but not for "
            f"{given}",
            "use `dpsample verify` without it",
        )
    scheme = sampling.sanitized_as
    reporting = Reporting.of(scheme, privacy)
    assert isinstance(reporting, Reporting)
    q_bits = 0 if isinstance(scheme, KeepAll) else reporting.bits
    ratio = reporting.E >> (reporting.ratio_bits - reporting.bits)
    yield FORMAT
    yield _line("epsilon", *privacy.epsilon.as_integer_ratio())
    yield _line("delta", *privacy.delta.as_integer_ratio())
    yield _line("ratio", ratio, reporting.one)
    yield _line("terms", _terms(privacy.epsilon, Fraction(ratio, reporting.one)))
    yield _line("grid", grid)
    yield _line("cut_one", reporting.one)
    yield _line("q_one", 1 << q_bits)
    yield _line("repeats", repeats(certificate))
    for span in certificate.checked:
        yield _line("span", span.start - 1, len(span) + 1)
        if span.start == 1:
            yield _line("row", 0, 0)
        first = max(span.start - 1, 1)
        laws = integer_laws(first, scheme, privacy, grid)
        for law in islice(laws, span.stop - first):
            low, high = _bounds(law.frequency, reporting, q_bits)
            yield _line("row", low, high, *law.cuts)
    yield "end"


def _bounds(frequency: int, reporting: Reporting, bits: int) -> tuple[int, int]:
    """Return bounds of q over 2**bits; once pi is constant, they hold for all larger frequencies too."""
    sampling = reporting.sampling
    low, high = sampling.bounds(frequency, bits)
    if frequency >= reporting.constant_from:
        _, high = sampling.bounds(sampling.largest, bits)
    return low, high


def _terms(epsilon: Fraction, ratio: Fraction) -> int:
    """Return the power up to which the series of exp(epsilon) reaches the ratio."""
    n = 0
    term = Fraction(1)
    total = term
    while total < ratio:
        n += 1
        term *= epsilon / n
        total += term
    return n


def _line(word: str, *numbers: int) -> str:
    digits = [f"{n:x}" for n in numbers]
    return " ".join([word, *digits])
