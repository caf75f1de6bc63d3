"""The section of a report on its privacy: two sentences; and, folded, the parameters, their parts, and the proof."""

from dpsample.definitions import Definition
from dpsample.errors import PrivacyViolation
from dpsample.exact import text
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.pages import table
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import folded
from dpsample.privacy import Privacy
from dpsample.release.explain import (
    VOUCHED,
    explain_protected,
    explain_strength,
    sentence,
)
from dpsample.release.spending import Spending


def privacy_section(content: Content) -> Markup:
    """Return who is protected, and what someone could guess; everything else is folded, unless the proof failed."""
    terms = content.terms
    protected = f"This page protects {explain_protected(terms.max_keys, terms.unit)}."
    factor, guess, delta = map(sentence, explain_strength(terms.privacy, terms.unit))
    details = [
        ("Unit of privacy", f"{explain_protected(terms.max_keys, terms.unit)}."),
        ("Strength", factor),
        ("Beyond the factor", delta),
        ("Composition", "every further release of the same data adds to what is spent."),
    ]
    words = []
    for name, clause in details:
        words.append(tag("p", tag("strong", f"{name}: "), clause))
    if terms.ledger:
        words.append(
            tag("p", f"The ledger of the dataset has this release as entry {terms.ledger}.")
        )
    exactly = folded(
        "Parameters and proof", _key_facts(content), *words, *_parts(content), *_proof(content)
    )
    first = tag("p", f"{protected} {guess}")
    return join([first, *_failure(content), exactly])


def _key_facts(content: Content) -> Markup:
    """Return the parameters."""
    terms = content.terms
    facts = {"keys reported": f"{len(content.release):,}"}
    facts["epsilon"] = text(terms.privacy.epsilon)
    facts["delta"] = text(terms.privacy.delta)
    facts["protects each"] = terms.unit
    if content.detection_threshold:
        name = f"detection threshold ({terms.kind.frequency})"
        facts[name] = f"{content.detection_threshold:,}"
    if terms.privacy.definition is not None:
        facts["stated as"] = str(terms.privacy.definition)
    items = []
    for name, value in facts.items():
        items.append(tag("div", tag("dt", name), tag("dd", value)))
    return tag("dl", *items, class_="facts")


def _parts(content: Content) -> list[Markup]:
    """Return a table of what was spent on which part, if there are several: in epsilon, or in rho or mu."""
    terms = content.terms
    if not terms.spent:
        return []
    definition = terms.privacy.definition
    symbol = "epsilon" if definition is None else definition.symbol
    unit = "Epsilon" if definition is None else str(definition)
    keys = "keys"
    if not terms.keys_only:
        keys += " and their numbers of users" if content.counted else " and their frequencies"
    rows = [[keys, *_spent(terms.keys_privacy)]]
    for spending in terms.spent:
        rows.append([spending.words, _cost(spending, definition), "0"])
    rows.append(["all", *_spent(terms.privacy)])
    heads = ["part", symbol, "delta"]
    return [table(f"{unit} and delta, by part", heads, rows, [False, True, True])]


def _spent(privacy: Privacy) -> list[str]:
    if privacy.definition is not None:
        return [text(privacy.definition.value), text(privacy.aside)]
    return [text(privacy.epsilon), text(privacy.delta)]


def _cost(spending: Spending, definition: Definition | None) -> str:
    """Return the cost of a noisy number, in rho or in mu where the privacy is stated so: mu adds up by its square."""
    if definition is None:
        return text(spending.epsilon)
    implied = definition.implied([spending.epsilon])
    return f"{float(implied.value):.6g}"


def _failure(content: Content) -> list[Markup]:
    """Return a warning that is not folded, if the proof failed."""
    if not isinstance(content.proof, PrivacyViolation):
        return []
    verdict = tag("span", "The proof FAILED", class_="bad")
    run = tag("code", content.command("verify", FILE))
    return [tag("p", verdict, f": {content.proof}. Run ", run)]


def _proof(content: Content) -> list[Markup]:
    """Return the verdict on the stated terms, and the proof."""
    proof = content.proof
    if isinstance(proof, PrivacyViolation):
        return []
    name = tag("strong", "Certificate: ")
    run = join(["Run ", tag("code", content.command("verify", FILE))])
    if proof is None:
        return [tag("p", name, "not run for this page. ", run)]
    laws = "token laws"
    if content.terms.discovery is not None:
        laws = "noise and of the reporting probabilities"
    covered = "terms proved"
    if not proof.complete:
        covered = "terms proved at the frequencies that were checked"
    verdict = tag("span", covered, class_="good")
    exactly = f", in exact arithmetic, on the integers of the {laws}. {sentence(VOUCHED)}"
    shown = folded("The proof", tag("pre", str(proof), tabindex="0"), tag("p", run))
    return [tag("p", name, verdict, exactly), shown]
