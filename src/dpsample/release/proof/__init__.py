"""Proof: that the stated terms of a release are private. Not that a file was drawn on them.

proof        the proof of a plan or of a release, from its terms
page         the page of a proof: a verdict, what was not proved, and the numbers
independent  the certificate of a release, handed to a checker that is proved sound
"""

from dpsample.release.proof.proof import Proof, prove, prove_release

__all__ = ["Proof", "prove", "prove_release"]
