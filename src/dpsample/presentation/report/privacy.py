"""The section of a report on its privacy: unit, strength, parts, and the proof."""

from collections.abc import Sequence

from dpsample.accounting.totals import Total
from dpsample.definitions import Definition
from dpsample.errors import PrivacyViolation
from dpsample.exact import text
from dpsample.presentation.pages import Markup, table, tag
from dpsample.presentation.report.content import FILE, Content
from dpsample.privacy import Privacy
from dpsample.release.explain import (
    VOUCHED,
    bought_words,
    explain_protected,
    explain_strength,
    frequency_words,
    sentence,
)


def privacy_section(content: Content) -> Markup:
    """Return what is protected, how strongly, and what was spent on which part."""
    terms = content.terms
    factor, guess, delta = map(sentence, explain_strength(terms.privacy, terms.unit))
    facts = {
        "keys reported": f"{len(content.release):,}",
        "epsilon": text(terms.privacy.epsilon),
        "delta": text(terms.privacy.delta),
        "protects each": terms.unit,
    }
    if content.detection_threshold:
        facts[f"detection threshold ({frequency_words(terms)})"] = f"{content.detection_threshold:,}"
    words = [
        tag("p", tag("strong", "Unit of privacy: "), explain_protected(terms.max_keys, terms.unit), "."),
        tag("p", tag("strong", "Strength: "), f"{factor} {guess}"),
        tag("p", tag("strong", "Beyond the factor: "), delta),
        tag("p", tag("strong", "Composition: "), "every further release of the same data adds to what is spent."),
    ]
    definition = terms.privacy.definition
    amount, caption = ("epsilon", "Epsilon") if definition is None else (definition.symbol, str(definition))
    numbers = "numbers of users" if content.counted else "frequencies"
    parts: list[Sequence[object]] = [
        ["keys" if terms.keys_only else f"keys and their {numbers}", *_spent(terms.keys_privacy)]
    ]
    bought = {} if terms.discovery is None else bought_words(terms.discovery)
    parts += [[what, text(part.epsilon), "0"] for what, part in bought.items()]
    if terms.size is not None:
        parts.append(["the sample size", _noise_spent(terms.size.weights, definition), "0"])
    if terms.total is not None:
        parts.append(["the total", _noise_spent(terms.total, definition), "0"])
    if terms.dropped is not None:
        parts.append(["the total of dropped keys", _noise_spent(terms.dropped, definition), "0"])
    parts.append(["all", *_spent(terms.privacy)])
    if definition is not None:
        facts["stated as"] = str(definition)
    return tag(
        "div",
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()), class_="facts"),
        *words,
        table(f"{caption} and delta, by part", ["part", amount, "delta"], parts, [False, True, True]),
        *_proof(content),
        *([tag("p", f"The ledger of the dataset has this release as entry {terms.ledger}.")] if terms.ledger else []),
        class_="label",
    )


def _spent(privacy: Privacy) -> list[str]:
    if privacy.definition is not None:
        return [text(privacy.definition.value), text(privacy.aside)]
    return [text(privacy.epsilon), text(privacy.delta)]


def _noise_spent(noise: Total, definition: Definition | None) -> str:
    """What the noise of a total cost: mu, as others do, by its square."""
    return text(noise.epsilon) if definition is None else f"{float(definition.implied([noise.epsilon]).value):.6g}"


def _proof(content: Content) -> list[Markup]:
    proof, command = content.proof, tag("code", content.command("verify", FILE))
    if proof is None:
        return [tag("p", tag("strong", "Certificate: "), "not run for this page. Run ", command)]
    if isinstance(proof, PrivacyViolation):
        verdict = tag("span", "FAILED", class_="bad")
        return [tag("p", tag("strong", "Certificate: "), verdict, f": {proof}. Run ", command)]
    laws = "token laws" if content.terms.discovery is None else "noise and of the reporting probabilities"
    covered = "terms proved" if proof.complete else "terms proved at the frequencies that were checked"
    verdict = tag("span", covered, class_="good")
    exactly = f", in exact arithmetic, on the integers of the {laws}. {sentence(VOUCHED)}"
    return [
        tag("p", tag("strong", "Certificate: "), verdict, exactly),
        tag("details", tag("summary", "The proof"), tag("pre", str(proof), tabindex="0"), tag("p", "Run ", command)),
    ]
