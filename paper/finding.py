"""What was found of a claim: numbers in words, a verdict, and the correction with which it holds."""

from dataclasses import dataclass

HOLDS, CORRECTED, FAILS = "holds", "false as stated", "false"
INTEGRAL = "holds for an integral L, as the paper assumes"
LOOSE = "private, not tight"


@dataclass(frozen=True)
class Finding:
    """What was measured, in words with numbers, and what follows for the claim.

    >>> Finding("a ratio of 3", CORRECTED, "the limit is 3").conclusion
    'false as stated; holds if the limit is 3'
    >>> Finding("8 at L = 3.2", INTEGRAL, "2⌈L⌉ in general").conclusion
    'holds for an integral L, as the paper assumes; 2⌈L⌉ in general'
    """

    text: str
    verdict: str
    holds_if: str = ""  # the correction with which the claim holds, or what holds beyond its assumption

    @property
    def conclusion(self) -> str:
        """The verdict in words."""
        if self.verdict == CORRECTED:
            return f"{self.verdict}; holds if {self.holds_if}"
        if self.verdict in (INTEGRAL, LOOSE):
            return f"{self.verdict}; {self.holds_if}"
        return self.verdict
