"""What a release costs, added up from its metadata: an oracle that shares no code with the package.

It is written from the definitions in docs/theory.md: the scale of a noise, and by how much one unit of privacy really
changes what the noise is added to, say what a part costs. All parts together must not cost more than the release
states. That keys are drawn by the scheme that is stated is not looked at: `certify` has tests of its own.

Everything is in floats, with tolerances far below any mistake that matters: an oracle need not prove.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Form = dict[str, Any]
Floats = NDArray[np.float64]

MORE = 1 + 1e-6  # by how much a delta may seem to exceed what is allowed
LITTLE = 1e-9  # the same of an epsilon
STEP = Fraction(1, 1 << 16)  # of weights that are not whole
MOST_DROPPED = 9  # times the contribution bound
EDGES = (1, 4, 16, 64, 256, 1024, 4096)  # of a look
HISTOGRAMS = ("keys per user", "lengths")
OF_USERS = ("first counts", "clipped", "counts")  # parts of the counts whose lengths are stated


class TooMuch(Exception):  # noqa: N818 - a verdict
    """The parts of a release cost more than it states, or have noise that is no noise."""


def require(holds: bool, what: str) -> None:
    """Give the verdict."""
    if not holds:
        raise TooMuch(what)


def check_private(form: Form) -> None:
    """Raise `TooMuch` if a release of these metadata is not as private as they state."""
    privacy = form["privacy"]
    epsilon, delta = exact(privacy["epsilon"]), exact(privacy["delta"])
    require(epsilon > 0 and 0 < delta < 1, "an epsilon above 0, a delta between 0 and 1")
    spent = [epsilon_of(*part) for part in laplace_parts(form)]
    named = set(privacy) & {"zcdp", "gdp"}
    if named:
        check_definition(form, named.pop(), spent)
        return
    left = float(epsilon - sum(spent, Fraction(0)))
    require(left > 0, "something left for the keys")
    if "discovery" in form:
        check_discovery(form, left, float(delta))
    else:
        check_keys(form, left, float(delta))


def exact(number: Any) -> Fraction:
    """A number as metadata state it."""
    return Fraction(str(number))


# ---- parts with discrete Laplace noise


def laplace_parts(form: Form) -> list[tuple[Fraction, Fraction, Fraction]]:
    """For each part: by how much one unit of privacy changes it, its scale, and its step."""
    keys = form.get("max_keys_per_user", 1)
    parts = []
    if "size" in form:
        weights = form["size"]["weights"]
        change = keys * change_of_weight(form["sampling"]) if form["unit"] == "user" else None
        change = change or change_of_weight(form["sampling"])
        parts.append((change, *noise_of(weights)))
        check_tau(form["size"]["wanted"], weights, form["sampling"])
    if "look" in form.get("discovery", {}):
        epsilon = exact(form["discovery"]["look"]["epsilon"])
        require(epsilon > 0, "a look with noise")
        parts.append((Fraction(1), 1 / epsilon, Fraction(1)))
    for way in form.get("discovery", {}).get("filled", ()):
        # a user gives up to `keys` units, each of which changes the sum over keys of min(units, full) by one at most
        epsilon = exact(way["epsilon"])
        require(epsilon > 0, "what is filled with noise")
        parts.append((Fraction(way["keys"]), way["keys"] / epsilon, Fraction(1)))
    if "total" in form:
        counted = most_looked_at(form["discovery"]["look"]) if "discovery" in form else keys
        parts.append((Fraction(counted), *noise_of(form["total"])))
    if "dropped" in form:
        parts.append((Fraction(MOST_DROPPED * keys), *noise_of(form["dropped"])))
    return parts


def noise_of(total: Form) -> tuple[Fraction, Fraction]:
    """The scale and the step of a total's noise."""
    scale, step = exact(total["scale"]), exact(total["unit"])
    require(scale > 0 and step > 0, "noise of a positive scale, in positive steps")
    require((exact(total["value"]) / step).denominator == 1, "a total that is a number of steps")
    return scale, step


def epsilon_of(change: Fraction, scale: Fraction, step: Fraction) -> Fraction:
    """What discrete Laplace noise costs: noise k steps away is exp(-k step / scale) times as likely."""
    steps = math.ceil(change / step)
    return steps * step / scale


def change_of_weight(sampling: Form) -> Fraction:
    """By how much one more element changes a key's weight, min(i, cap)**power, in steps that it is rounded down to."""
    power = exact(sampling["power"])
    if power in (0, 1):
        return Fraction(1)
    if power < 1:
        return Fraction(1)  # from 0 to 1; later ones are less, and rounding moves them by a step at most
    cap = sampling["cap"]
    with localcontext() as context:
        context.prec = 200
        exponent = Decimal(power.numerator) / Decimal(power.denominator)
        now, before = (
            math.floor(Decimal(i) ** exponent / (Decimal(STEP.numerator) / STEP.denominator)) for i in (cap, cap - 1)
        )
    return (now - before) * STEP


def check_tau(wanted: int, weights: Form, sampling: Form) -> None:
    """Tau is the size over the noisy total, which was paid for: six figures of it, rounded down."""
    total = max(exact(weights["value"]), exact(weights["unit"]))
    tau = Fraction(wanted) / total
    stated = exact(sampling["tau"])
    require(stated <= tau < stated * (1 + Fraction(1, 10**5)), "a tau of the total that was paid for")


def most_looked_at(look: Form) -> int:
    """The upper end of the last row of a look that stands out: four deviations of it and of all rows after it."""
    users, deviation = look["users"], math.sqrt(2) / float(exact(look["epsilon"]))
    require(len(users) == len(EDGES), "a look of seven rows")
    for row in range(len(users) - 1, 0, -1):
        after = users[row:]
        if sum(after) > 4 * deviation * math.sqrt(len(after)):
            return EDGES[row]
    return 1


# ---- keys, with an epsilon and delta


def check_keys(form: Form, left: float, delta: float) -> None:
    """Up to k keys of one user, or the key of one element, must have what is left."""
    each: Form = form["per_key"] if "per_key" in form else form["privacy"]
    keys = form.get("max_keys_per_user", 1)
    require(form["unit"] == "element" or "max_keys_per_user" in form, "a bound for users")
    method = each.get("method")
    if method is None:
        own = float(exact(each["epsilon"])), float(exact(each["delta"]))
        spent = composed_delta(*own, keys, left)
    elif method == "bounded noise":
        spent = delta_of_noise(table_of(each), each.get("offset", 0), keys, left)
    else:
        require(method == "Rényi steps" and form["keys_only"], "a method for many keys")
        spent = delta_of_steps(each, keys, 0.0, left, delta, 0.0)
    require(spent <= delta * MORE, f"a delta of {delta} for the keys, not {spent}")


def composed_delta(epsilon: float, delta: float, keys: int, whole: float) -> float:
    """The optimal composition theorem (Murtagh and Vadhan, 2016)."""
    if keys == 1:
        return delta if epsilon <= whole * (1 + LITTLE) else 1.0
    l = np.arange(keys + 1)  # noqa: E741 - the theorem's letter
    chooses = np.array([math.lgamma(keys + 1) - math.lgamma(n + 1) - math.lgamma(keys - n + 1) for n in l])
    size = chooses + (keys - l) * epsilon - keys * np.logaddexp(0.0, epsilon)
    share = -np.expm1(np.minimum(whole + (2 * l - keys) * epsilon, 0.0))
    slack = float((np.exp(size) * share).sum())
    return -math.expm1(keys * math.log1p(-delta)) + slack * (1 - delta) ** keys


def table_of(noise: Form) -> Floats:
    """The probabilities of a symmetric table."""
    half = [int(n, 16) for n in noise["half"]]
    whole = [*half, *reversed(half[:-1] if noise["cells"] % 2 else half)]
    require(len(whole) == noise["cells"] and min(whole) > 0 and sum(whole) == 1 << 128, "a table of probabilities")
    return np.array([n / (1 << 128) for n in whole])


def delta_of_noise(table: Floats, offset: int, keys: int, epsilon: float) -> float:
    """The largest delta of j new keys and k - j that exist anyway, each a pair of laws that are shifted by one."""
    new = float(table[: offset + 1].sum())
    numbers = {0, keys} if not offset else {0, min(2, keys), keys // 2, keys - 1, keys}
    worst = 0.0
    for j in numbers:
        some = -math.expm1(j * math.log1p(-new))
        existing = delta_of_shifts(table, keys - j, epsilon) if keys - j else 0.0
        worst = max(worst, some + (1 - some) * existing)
    return worst


def delta_of_shifts(table: Floats, keys: int, epsilon: float) -> float:
    """The delta of copies of a table and its shift by one: losses convolve (section 9), here by Fourier transform."""
    mass, loss = table[1:], np.log(table[1:] / table[:-1])
    mean = float(mass @ loss) * keys
    deviation = math.sqrt(keys * float(mass @ loss**2))
    reach = abs(mean) + 15 * deviation + 2 * float(np.abs(loss).max()) + 2 * epsilon
    cells = 1 << 16
    width = 2 * reach / cells
    place = np.floor(loss / width).astype(np.int64)
    # what lies between two grid points is divided among both, such that both laws keep it
    upper = (1 - np.exp(place * width - loss)) / -math.expm1(-width)
    grid = np.bincount(place % cells, mass * (1 - upper), cells) + np.bincount((place + 1) % cells, mass * upper, cells)
    together = np.fft.irfft(np.fft.rfft(grid) ** keys, cells)
    losses = np.fft.fftfreq(cells, 1 / cells) * width
    finite = float((np.maximum(together, 0) * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum())
    return -math.expm1(keys * math.log1p(-float(table[0]))) + finite


def delta_of_steps(each: Form, keys: int, square: float, epsilon: float, delta: float, aside: float) -> float:
    """The delta if divergences of one order convert to this epsilon, with Gaussian noise beside; 1 if they do not."""
    order, divergence, first = (float(exact(each[name])) for name in ("order", "divergence", "delta"))
    require(order > 1 and divergence > 0 and 0 < first < 1, "steps of an order above 1")
    rest = delta - keys * first - aside
    if rest <= 0:
        return 1.0
    spent = keys * divergence + order * square / 2
    needed = spent + math.log1p(-1 / order) - (math.log(rest) + math.log(order)) / (order - 1)
    return delta if needed <= epsilon * (1 + LITTLE) + LITTLE else 1.0


# ---- users without a contribution bound


def check_discovery(form: Form, left: float, delta: float) -> None:
    """Discovery and counts together must have what is left."""
    found = form["discovery"]
    each: Form = form["per_key"] if "per_key" in form else form["privacy"]
    method = each.get("method")
    square, aside = counted_square(form["counts"]) if "counts" in form else (0.0, 0.0)
    if found["method"] == "none":
        require(bool(form["known"]["only"]) and "counts" in form, "known keys that are counted")
        require(gaussian_delta(left, square) <= (delta - aside) * MORE, "counts of known keys")
    elif found["method"] == "many-keys":
        require(method == "Rényi steps", "steps for many keys")
        require(delta_of_steps(each, found["keys"], square, left, delta, aside) <= delta, "many keys and their counts")
    else:
        require(found["method"] == "one-key" and found["keys"] == 1, "one key of each user")
        own = float(exact(each["epsilon"])), float(exact(each["delta"]))
        require(own[0] <= left * (1 + LITTLE) and own[1] + aside <= delta * MORE, "one key of each user")
        beside = float(exact(each["square"])) if method == "composed steps" else 0.0
        require(method in (None, "composed steps") and square <= beside * (1 + LITTLE), "steps beside this noise")


def counted_square(counts: Form) -> tuple[float, float]:
    """The mu**2 of all parts of the counts, and what the ends of their tables cost."""
    noise = counts["noise"]
    square, aside = 0.0, 0.0
    for name, table in noise.items():
        own, length, variance, side = name, table["length"], float(exact(table["variance"])), table["side"]
        changed = changed_length(own, noise)
        require(length >= changed and 0 < length < side and variance > 0, f"noise for the length of {name}")
        square += changed**2 / variance
        aside += ends_of(length, math.sqrt(variance), side)
    return square, aside


def changed_length(part: str, noise: Form) -> int:
    """The length of a user's vector, as far as the rest of the record says it: a histogram changes by 1."""
    if part in HISTOGRAMS:
        return 1
    if part.endswith((" clipped", " beyond")):
        return int(noise["clipped"]["length"])
    if part in OF_USERS:
        return int(noise[part]["length"])
    return int(noise["counts"]["length"])


def ends_of(length: int, deviation: float, side: int) -> float:
    """What a table that ends costs: length**2 d, with 1 - d = 1 / (1 + t / o) (section 9)."""
    tails = 2 * above((side - length + 0.5) / deviation)
    half = length // 2
    overlap = 2 * above(length / 2 / deviation)
    if length % 2 == 0:
        middle = above((half - 0.5) / deviation) - above((half + 0.5) / deviation)
        overlap = 2 * above((half + 0.5) / deviation) + middle
    return length**2 * (tails / overlap) / (1 + tails / overlap)


def above(x: float) -> float:
    """The probability of more than x under the normal law."""
    return math.erfc(x / math.sqrt(2)) / 2


def gaussian_delta(epsilon: float, square: float) -> float:
    """The delta of Gaussian noise of this mu**2 (Balle and Wang, 2018)."""
    mu = math.sqrt(square)
    unlikely = above(mu / 2 + epsilon / mu)
    return above(epsilon / mu - mu / 2) - (math.exp(epsilon + math.log(unlikely)) if unlikely else 0.0)


# ---- zCDP and GDP


def check_definition(form: Form, name: str, spent: Sequence[Fraction]) -> None:
    """All parts must have the rho, or mu, outside of delta / 2; the stated epsilon must follow at delta / 2."""
    privacy, keys = form["privacy"], form.get("max_keys_per_user", 1)
    value, half = float(exact(privacy[name])), float(exact(privacy["delta"])) / 2
    cost: Callable[[float], float] = rho_of if name == "zcdp" else square_of
    whole = value if name == "zcdp" else value**2
    left = whole - sum(cost(float(epsilon)) for epsilon in spent)
    require(left > 0, "something left for the keys")
    epsilon = float(exact(privacy["epsilon"]))
    follows = zcdp_delta(value, epsilon) if name == "zcdp" else gaussian_delta(epsilon, value**2)
    require(follows <= half * MORE, "an epsilon that follows")
    each: Form = form.get("per_key") or privacy
    if "method" not in each:
        require(keys * cost(float(exact(each["epsilon"]))) <= left * MORE, "keys within the definition")
        require(keys * float(exact(each["delta"])) <= half * MORE, "what is set aside for each key")
        return
    require(each["method"] == "bounded noise" and not each.get("offset"), "a table of Gaussian noise")
    variance = keys / (2 * left) if name == "zcdp" else keys / left
    require(keys * ends_of_rounded(table_of(each), variance) <= half * MORE, "ends of tables")


def ends_of_rounded(table: Floats, variance: float) -> float:
    """What a rounded Gaussian law that ends costs, if the table is one: 1 - (m - g_c) / (m (1 - g_c + g_e))."""
    side, deviation = len(table) // 2, math.sqrt(variance)
    require(len(table) % 2 == 1, "a middle")
    law = np.array([above((z - 0.5) / deviation) - above((z + 0.5) / deviation) for z in range(side + 1)])
    law[0] = 1 - 2 * above(0.5 / deviation)
    mass = 1 - 2 * above((side + 0.5) / deviation)
    ratio = table[side:] * mass / law
    require(bool((np.abs(ratio - 1) < 1e-6).all()), "a rounded Gaussian law")
    middle, end, near = float(law[0]), float(law[-1]), 2 * above(0.5 / deviation)
    beyond = 2 * above((side + 0.5) / deviation)
    kept = (near - beyond) / ((1 - beyond) * (1 - middle + end))
    return 1 - kept


def rho_of(epsilon: float) -> float:
    """The rho of a mechanism of this epsilon, without a delta."""
    return epsilon * math.tanh(epsilon / 2)


def square_of(epsilon: float) -> float:
    """The mu**2 of a mechanism of this epsilon: Phi(-mu / 2) = 1 / (1 + exp(epsilon))."""
    low, high = 0.0, 80.0
    for _ in range(200):
        mu = (low + high) / 2
        low, high = (mu, high) if above(mu / 2) > 1 / (1 + math.exp(min(epsilon, 700.0))) else (low, mu)
    return low**2


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The least delta that follows from rho at this epsilon (Canonne, Kamath and Steinke, 2020)."""
    orders = 1 + np.geomspace(1e-6, 1e9, 200_001)
    logs = (orders - 1) * (rho * orders - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return math.exp(float(logs.min()))
