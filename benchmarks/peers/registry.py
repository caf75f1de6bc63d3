"""The peers: which environment and adapter each has, and which tasks it can do."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OWN = "dpsample"  # runs in the environment of developers
ELEMENTS = ("start", "aggregated-6", "aggregated-7", "raw-6", "raw-7", "raw-8")
RAW = ("start", "raw-6", "raw-7", "raw-8")
USERS = ("few-keys", "many-keys")
# bounds on the keys of a user: Laplace noise grows with the bound, Gaussian noise with its square root or not at all
LAPLACE = {"few-keys": (1, 3), "many-keys": (1, 5)}
SET_UNION = {"few-keys": (10,), "many-keys": (20, 100)}


@dataclass(frozen=True)
class Peer:
    """One line of the tables.

    environment  the requirements file, and the virtual environment
    bounds       by task of users, the contribution bounds to try; None is none
    note         what sets its rows apart
    """

    title: str
    environment: str
    adapter: str
    tasks: tuple[str, ...]
    bounds: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    private: bool = True
    counts: bool = True
    note: str = ""

    def bounds_of(self, task: str) -> tuple[int | None, ...]:
        """The bounds to try in a task; one release without a bound by default."""
        return self.bounds.get(task, (None,))


def _set_union(title: str, method: str, bounds: Mapping[str, tuple[int | None, ...]] = SET_UNION) -> Peer:
    return Peer(title, OWN, "set_union", USERS, bounds, (method,), counts=False, note="dpsample's baseline")


PEERS = {
    "dpsample": Peer(
        "dpsample", OWN, "dpsample_duckdb", ELEMENTS + USERS, {"few-keys": (None, 4), "many-keys": (None, 20)}
    ),
    "dpsample-keys": Peer("dpsample, keys only", OWN, "dpsample_keys_only", USERS, counts=False),
    "dpsample-spark": Peer("dpsample on Spark", OWN, "dpsample_spark", ("start", "raw-6", "raw-7", "few-keys")),
    "opendp": Peer("OpenDP, dict", "opendp", "opendp_dict", ELEMENTS),
    "opendp-polars": Peer("OpenDP, Polars", "opendp", "opendp_polars", RAW + USERS, LAPLACE),
    "pydp": Peer("PyDP", "pydp", "pydp", ELEMENTS, note="counted by hand; half of epsilon selects keys"),
    "pipelinedp": Peer("PipelineDP, local", "pipelinedp", "pipelinedp", RAW + USERS, LAPLACE),
    "tumult-core": Peer("Tumult Core", "tumult", "tumult_core", RAW),
    "tumult-analytics": Peer(
        "Tumult Analytics", "tumult", "tumult_analytics", RAW + USERS, {"few-keys": (3,), "many-keys": (5,)}
    ),
    "smartnoise": Peer("SmartNoise SQL", "smartnoise", "smartnoise", RAW + USERS, LAPLACE),
    "smartnoise-set-union": Peer(
        "Policy Laplace (SmartNoise)", "smartnoise", "smartnoise_set_union", USERS, SET_UNION, counts=False
    ),
    "diffprivlib": Peer("diffprivlib", "diffprivlib", "diffprivlib", ELEMENTS, note="all keys are taken as public"),
    "weighted-gaussian": _set_union("weighted Gaussian", "weighted-gaussian"),
    "dp-sips": _set_union("DP-SIPS", "dp-sips"),
    "policy-gaussian": _set_union("Policy Gaussian", "policy-gaussian"),
    "greedy": _set_union("greedy policy", "greedy", {}),
    "duckdb": Peer("bare DuckDB", "duckdb", "bare_duckdb", ELEMENTS + USERS, private=False, note="not private"),
    "polars": Peer("bare Polars", "polars", "bare_polars", ELEMENTS + USERS, private=False, note="not private"),
}
