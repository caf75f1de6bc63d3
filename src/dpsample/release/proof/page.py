"""The page of a proof: a verdict, what was not proved, the terms for people, and the numbers for statisticians.

A reviewer reads from the top and signs at the bottom. So the verdict is the first line, and what it does not say comes
next, numbered. Rényi divergences and the like come last: nobody has to understand them to sign.
"""

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsample.accounting.parts import Part
from dpsample.accounting.user_proof import UsersCertificate
from dpsample.definitions import Definition
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.release.explain import (
    VOUCHED_BY,
    explain_protected,
    explain_sampling,
    explain_strength,
    sentence,
)
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.renyi_steps import RenyiSteps

if TYPE_CHECKING:
    from dpsample.release.proof import Proof

_WIDTH = 118


def proof_page(proof: "Proof", about: Sequence[str] = (), part: Part | None = None) -> str:
    """Return the page of a proof; `about` are lines that say which file or plan it is about."""
    missing = not_proved(proof, part)
    numbered = [_hanging(f"  {n}. ", words) for n, words in enumerate(missing, 1)]
    lines = [verdict(proof, part), _vouched(proof), *about, ""]
    lines += ["Not proved:", *numbered, ""]
    lines += [*_for_people(proof), ""]
    lines += ["For statisticians:", *_for_statisticians(proof), ""]
    lines.append("Reviewed:  ____________________  Date: ____________")
    return "\n".join(lines)


def verdict(proof: "Proof", part: Part | None = None) -> str:
    """Return the verdict, on one line.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.accounting.budget import Budget
    >>> from dpsample.release.proof import prove
    >>> verdict(prove(Budget(Privacy(1, "1e-6")), KeepAll()))
    'PROVED: (1, 1e-06) for each element, every frequency. Not proved: see 1 to 5 below.'
    """
    last = len(not_proved(proof, part))
    whom = f"{_amount(proof)} for each {proof.unit}"
    see = f"Not proved: see 1 to {last} below."
    if proof.complete:
        return f"PROVED: {whom}, every frequency. {see}"
    if proof.scheme is None:
        return f"PROVED IN PART: {whom}, but for the scheme, which is not fixed yet. {see}"
    return f"PROVED IN PART: {whom}, at the frequencies that were checked. {see}"


def not_proved(proof: "Proof", part: Part | None = None) -> list[str]:
    """Return a list of what the proof does not cover, and of who answers for it instead."""
    missing = [
        "that this file was drawn on these terms, and from which data: dpsample, which drew it, and the publisher "
        "vouch for it",
        "that the coins were secret: they come from the operating system of the machine, or of the cluster",
        "that these terms were chosen without looking at the data: ask who chose them",
        "that nothing else shows the data: other releases of the same data add to what is spent; logs, machines and "
        "people are outside of any proof",
        "that intervals contain the truth as often as they say: their coverage is measured",
    ]
    if proof.unit == "user":
        missing.append(
            "that the user column has one value for each person: somebody with two names is two users"
        )
    if proof.known is not None:
        missing.append(
            "that the list of known keys was made without looking at the data: it is published as it is"
        )
    if part is not None and part.vouched:
        missing.append(
            f"that the rows are of {part.name} alone as stated: the publisher vouched, nothing was checked"
        )
    if proof.scheme is None:
        missing.append(
            "the scheme of each key: tau is found when the release is made; verify the release then"
        )
    elif not proof.complete:
        missing.append(
            "frequencies that were not checked: a function states the sampling probability, and may return anything"
        )
    return missing


def _amount(proof: "Proof") -> str:
    """Return what was proved: (epsilon, delta), and the definition that it follows from."""
    privacy = proof.privacy
    pair = f"({text(privacy.epsilon)}, {text(privacy.delta)})"
    if privacy.definition is None:
        return pair
    return f"{privacy.definition} outside of delta {text(privacy.aside)}, so {pair},"


def _vouched(proof: "Proof") -> str:
    """State that the verdict is about the terms, and not about how the file was made."""
    proved = "proved private" if proof.complete else "proved private in part"
    return sentence(f"the stated terms are {proved}; {VOUCHED_BY}")


def _for_people(proof: "Proof") -> list[str]:
    """Return whom the terms protect, how strongly, what was spent on what, and how keys were chosen."""
    _, guess, _ = explain_strength(proof.privacy, proof.unit)
    lines = [
        f"Protected: {explain_protected(proof.max_keys, proof.unit)}",
        *_spent(proof),
        _hanging("Means:     ", guess),
    ]
    if proof.scheme is None or proof.scheme.sampling is None:
        lines.append(
            "Scheme:    tau is found when the release is made; `dpsample verify` then proves its scheme"
        )
    else:
        words = explain_sampling(proof.scheme.sampling, planned=True)
        lines.append(_hanging("Scheme:    ", words))
    if proof.known is not None:
        lines.append(f"Known:     {_known(proof)}")
    return lines


def _spent(proof: "Proof") -> list[str]:
    """Return what was spent, and on what."""
    definition = proof.privacy.definition
    if definition is None:
        lines = [f"Spent:     {_pair(proof.privacy)}", f"  keys: {_pair(proof.keys)}"]
    else:
        keys = f"{proof.keys.definition}, outside of delta {text(proof.keys.aside)}"
        lines = [f"Spent:     {proof.privacy}", f"  keys: {keys}"]
    for spending in proof.bought:
        line = f"  {spending.name}: epsilon {text(spending.epsilon)}, delta 0"
        if definition is not None:
            line += f", {definition.cost_in_words(spending.epsilon)}"
        lines.append(line)
    if proof.bought:
        lines.append(f"  these add up to {_sum_in_words(definition)}")
    return lines


def _pair(privacy: Privacy) -> str:
    return f"epsilon {text(privacy.epsilon)}, delta {text(privacy.delta)}"


def _sum_in_words(definition: Definition | None) -> str:
    return "what was spent, exactly" if definition is None else f"no more than {definition}"


def _known(proof: "Proof") -> str:
    """State why known keys are as private as others."""
    assert proof.known is not None
    if proof.known.added is None:
        return f"{proof.known}: counted with the others, by the same noise"
    return f"{proof.known}: {proof.known.added:,} elements are added to each frequency; the scheme is the same"


def _for_statisticians(proof: "Proof") -> list[str]:
    """Return the certificates of the scheme and of the composition, the noise of totals, and Rényi divergences."""
    lines: list[str] = []
    if proof.scheme is not None and _draws_keys(proof):
        scheme = str(proof.scheme).replace(str(proof.scheme.sampling), "this scheme")
        lines.append(_in_words(scheme))
    for spending in proof.bought:
        if spending.scale is not None:
            lines.append(f"{spending.name}: discrete Laplace noise of scale {text(spending.scale)}")
    if proof.composition is not None:
        whose = "Keys of one user together" if proof.unit == "user" else "The key of one element"
        lines += [f"{whose}:", _in_words(str(proof.composition))]
    if proof.implied:
        zcdp, gdp = proof.implied
        also = f"rho-zCDP with rho = {text(zcdp.value)}, mu-GDP with mu = {text(gdp.value)}"
        lines.append(f"Also:      {also}, outside of delta")
    return [*lines, f"Curve:     {proof.curve}", f"           {_tightness(proof)}"]


def _draws_keys(proof: "Proof") -> bool:
    """Return whether keys are drawn by the scheme, rather than all known."""
    if isinstance(proof.composition, UsersCertificate):
        return proof.composition.discovery.method != "none"
    return True


def _tightness(proof: "Proof") -> str:
    """Where the proof leaves little room."""
    if proof.privacy.definition is not None:
        return f"{proof.keys.definition} is what the noise of the keys was chosen for"
    if isinstance(proof.composition, UsersCertificate):
        return "by the epsilon and delta of all stages together"
    if (
        proof.composition is None
        and proof.scheme
        and isinstance(proof.scheme.sampling, SampleAndHold)
    ):
        return "by epsilon and delta alone"
    if proof.composition is None:
        return "a key that is reported or not is as telling as any mechanism of this privacy: the curve is tight"
    used = float(proof.composition.delta / proof.composition.whole.delta)
    if isinstance(proof.per_key, RenyiSteps):
        return f"tight at order {text(proof.per_key.order)} alone, at which the steps were chosen"
    return f"tight at epsilon {text(proof.keys.epsilon)}, where {used:.1%} of delta is spent"


def _in_words(certificate: str) -> str:
    """A certificate without Python's notation: a page is signed by people."""
    return re.sub(
        r"Privacy\(epsilon='([^']*)', delta='([^']*)'\)", r"epsilon \1, delta \2", certificate
    )


def _hanging(label: str, words: str) -> str:
    """Words after a label, wrapped to the width of a page, and indented by that of the label."""
    return textwrap.fill(
        words,
        _WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )
