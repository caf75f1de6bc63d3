"""The section of a report on its privacy: unit, strength, parts, and the proof."""

from dpsample.definitions import Definition
from dpsample.errors import PrivacyViolation
from dpsample.exact import text
from dpsample.presentation.pages import Markup, table, tag
from dpsample.presentation.report.content import FILE, Content
from dpsample.privacy import Privacy
from dpsample.release.explain import (
    VOUCHED,
    explain_protected,
    explain_strength,
    sentence,
)
from dpsample.release.spending import Spending


def privacy_section(content: Content) -> Markup:
    """Return what is protected, how strongly, and what was spent on which part."""
    stated = content.terms
    factor, guess, delta = map(sentence, explain_strength(stated.privacy, stated.unit))
    terms = [
        ("Unit of privacy", f"{explain_protected(stated.max_keys, stated.unit)}."),
        ("Strength", f"{factor} {guess}"),
        ("Beyond the factor", delta),
        ("Composition", "every further release of the same data adds to what is spent."),
    ]
    words = [tag("p", tag("strong", f"{name}: "), clause) for name, clause in terms]
    ledger = f"The ledger of the dataset has this release as entry {stated.ledger}."
    return tag(
        "div",
        _key_facts(content),
        *words,
        _parts(content),
        *_proof(content),
        *([tag("p", ledger)] if stated.ledger else []),
        class_="label",
    )


def _key_facts(content: Content) -> Markup:
    """Return the numbers that a reader looks for first."""
    terms = content.terms
    facts = {
        "keys reported": f"{len(content.release):,}",
        "epsilon": text(terms.privacy.epsilon),
        "delta": text(terms.privacy.delta),
        "protects each": terms.unit,
    }
    if content.detection_threshold:
        facts[f"detection threshold ({terms.kind.frequency})"] = f"{content.detection_threshold:,}"
    if terms.privacy.definition is not None:
        facts["stated as"] = str(terms.privacy.definition)
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()]
    return tag("dl", *items, class_="facts")


def _parts(content: Content) -> Markup:
    """Return a table of what was spent on which part: in epsilon, or in rho or mu."""
    terms, definition = content.terms, content.terms.privacy.definition
    amount, caption = (
        ("epsilon", "Epsilon") if definition is None else (definition.symbol, str(definition))
    )
    keys = "keys"
    if not terms.keys_only:
        keys += " and their numbers of users" if content.counted else " and their frequencies"
    bought = [[spending.words, _cost(spending, definition), "0"] for spending in terms.spent]
    rows = [[keys, *_spent(terms.keys_privacy)], *bought, ["all", *_spent(terms.privacy)]]
    return table(
        f"{caption} and delta, by part", ["part", amount, "delta"], rows, [False, True, True]
    )


def _spent(privacy: Privacy) -> list[str]:
    if privacy.definition is not None:
        return [text(privacy.definition.value), text(privacy.aside)]
    return [text(privacy.epsilon), text(privacy.delta)]


def _cost(spending: Spending, definition: Definition | None) -> str:
    """The cost of a noisy number, in rho or in mu where the privacy is stated so: mu adds up by its square."""
    if definition is None:
        return text(spending.epsilon)
    return f"{float(definition.implied([spending.epsilon]).value):.6g}"


def _proof(content: Content) -> list[Markup]:
    proof, command = content.proof, tag("code", content.command("verify", FILE))
    if proof is None:
        return [tag("p", tag("strong", "Certificate: "), "not run for this page. Run ", command)]
    if isinstance(proof, PrivacyViolation):
        verdict = tag("span", "FAILED", class_="bad")
        return [tag("p", tag("strong", "Certificate: "), verdict, f": {proof}. Run ", command)]
    laws = (
        "token laws"
        if content.terms.discovery is None
        else "noise and of the reporting probabilities"
    )
    covered = (
        "terms proved" if proof.complete else "terms proved at the frequencies that were checked"
    )
    verdict = tag("span", covered, class_="good")
    exactly = f", in exact arithmetic, on the integers of the {laws}. {sentence(VOUCHED)}"
    return [
        tag("p", tag("strong", "Certificate: "), verdict, exactly),
        tag(
            "details",
            tag("summary", "The proof"),
            tag("pre", str(proof), tabindex="0"),
            tag("p", "Run ", command),
        ),
    ]
