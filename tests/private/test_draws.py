"""Each place that draws is in a list, with tests that it is right."""

import re
from collections import Counter

import pytest

from draws import places
from places import TESTS

pytestmark = pytest.mark.usefixtures("fixed_coins")


# ---- each place in the source

OWN = "private/test_noises.py::test_each_noise_is_drawn_from_coins_of_its_own_by_the_certified_law"
REACHES = "private/test_noises.py::test_each_noise_reaches_the_release"
STREAMS = "private/test_noises.py::test_each_stream_of_coins_decides_something"
TABLE = "private/test_noises.py::test_a_table_is_drawn_by_its_integers"
LAPLACE = "private/test_noises.py::test_discrete_laplace_noise_by_chi_square"
INTEGERS = "private/test_sanitizer.py::test_every_decision_is_that_of_the_integers"
SOFT_CAP = "scheme/test_soft_cap.py::test_both_strategies_draw_the_same_law"
ON_SPARK = "private/engine/test_spark.py::TestLaw::test_reports_and_tokens_follow_the_law_end_to_end"
SECRET = "private/test_noises.py::test_on_a_cluster_each_release_and_each_noise_has_coins_of_its_own"
PLAN = "nothing of a plan is released"
NO_COINS = "a method of samples"
NAME = "the name of a file or of a sample, which nobody else has"
AFTER = "an answer, simulated from what a release shows"

# what calls for coins or noise -> how often, and the tests of what is drawn there, or why there is none
PLACES: dict[str, tuple[int, tuple[str, ...] | str]] = {
    # noise that is published
    "private.totals.Totals._bought: fresh": (1, (OWN, REACHES, LAPLACE)),
    "private.users.walk.buy_total: fresh": (1, (OWN, REACHES)),
    "private.noise.noisy_total: discrete_laplace": (1, (OWN, REACHES, LAPLACE)),
    "private.users.look.look_at: fresh": (1, (OWN, REACHES)),
    "private.users.look.look_at: discrete_laplace": (1, (OWN, REACHES, LAPLACE)),
    "private.users.choose.buy_filled: fresh": (1, (OWN, REACHES)),
    "private.users.choose.buy_filled: discrete_laplace": (1, (OWN, REACHES, LAPLACE)),
    "private.users.parts.Noisy.published: fresh": (1, (OWN, REACHES)),
    "private.users.parts.Noisy.published: from_table": (1, (OWN, REACHES, TABLE)),
    # which keys users keep, and which are sampled and reported, with which token
    "private.engine.duckdb.users._keep_of_part: fresh": (
        1,
        (STREAMS, "private/test_bounding.py::test_the_choice_is_uniform"),
    ),
    "private.engine.duckdb.engine.DuckDB.filled: fresh": (
        1,
        (STREAMS, "accounting/test_filled.py::test_each_key_of_a_user_is_kept_with_the_same_probability"),
    ),
    "private.assignment.salts: for_keys": (1, ("private/test_assignment_engines.py::test_the_salts_decide",)),
    "private.draw._sampled_keys: for_keys": (1, (STREAMS, INTEGERS)),
    "private.draw._keys_of_picked_elements: for_elements": (
        1,
        (STREAMS, "private/test_sanitizer.py::test_picked_elements_follow_the_law"),
    ),
    "private.draw._keys_of_picked_elements: Secret": (1, (SOFT_CAP,)),
    "private.sanitizer.picked_elements: for_keys": (1, (SOFT_CAP,)),
    "private.draw.sanitize_batches.reported: for_keys": (
        1,
        (STREAMS, INTEGERS, "scheme/test_held.py::test_noise_is_drawn_from_the_integers"),
    ),
    # elements of a stream
    "private.stream.stream.Stream.__init__: secret_key": (
        1,
        ("private/test_noises.py::test_each_stream_has_a_secret",),
    ),
    "private.stream.stream.Stream._count_pending.count: words_of": (
        1,
        ("private/stream/test_stream.py::test_each_element_has_a_word_of_its_own",),
    ),
    "private.stream.held.words_of: StreamCoins": (
        1,
        ("private/stream/test_stream.py::test_each_element_has_a_word_of_its_own",),
    ),
    "private.stream.stream.Stream._coins_of_batch: Secret": (
        1,
        ("private/stream/test_stream.py::test_a_batch_of_a_query_counts_once",),
    ),
    # on a cluster
    "private.engine.spark.jobs.Job._draw.sample_and_sanitize.drawn: for_keys": (2, (ON_SPARK,)),
    "private.engine.spark.jobs.Job._picked.pick_elements: for_elements": (1, (ON_SPARK,)),
    "private.engine.spark.streams._counted.hold_keys: for_keys": (
        1,
        ("private/stream/test_stream.py::test_batches_of_counted_keys_have_the_law_of_single_elements",),
    ),
    "private.engine.spark.users.bounded.number_keys: for_keys": (
        1,
        ("private/engine/test_spark_users.py::TestBounding::test_the_choice_is_uniform",),
    ),
    "private.engine.spark.users.bounded.number_keys: wide": (
        1,
        ("private/test_keyed.py::test_purposes_and_secrets_are_independent",),
    ),
    "private.engine.spark.jobs.Job._pivots.choose_candidates: KeyedCoins": (
        1,
        "where a part ends is public, as the keys are",
    ),
    # where coins come from
    "private.randomness.secret_key: urandom": (1, ("private/test_randomness.py::test_two_secrets_share_no_word",)),
    "private.randomness.SecretCoins.__init__: secret_key": (
        1,
        ("private/test_randomness.py::test_two_secrets_share_no_word",),
    ),
    "private.derived_coins.Secret.__init__: secret_key": (1, (SECRET,)),
    "private.derived_coins.Secret.for_keys: KeyedCoins": (
        1,
        ("private/test_keyed.py::test_purposes_and_secrets_are_independent",),
    ),
    "private.derived_coins.Secret.for_elements: StreamCoins": (
        1,
        ("private/test_keyed.py::test_elements_go_by_place_and_content",),
    ),
    "private.derived_coins.Secret.fresh: SecretCoins": (1, (SECRET,)),
    "private.engine.duckdb.engine.DuckDB.new_coins: SecretCoins": (
        1,
        ("private/test_noises.py::test_on_one_machine_each_run_has_coins_of_its_own",),
    ),
    "private.engine.spark.engine.Spark.new_coins: Secret": (1, (SECRET,)),
    # one source for each release, or each sample
    "private.run.release: new_coins": (1, (OWN,)),
    "private.run.write_release_to: new_coins": (
        1,
        ("private/test_noises.py::test_on_one_machine_each_run_has_coins_of_its_own",),
    ),
    "private.run.sample: new_coins": (
        1,
        ("private/test_noises.py::test_on_one_machine_each_run_has_coins_of_its_own",),
    ),
    "private.run._sanitized_sample: SecretCoins": (
        1,
        ("private/test_noises.py::test_on_one_machine_each_run_has_coins_of_its_own",),
    ),
    "private.engine.spark.jobs._drawn_and_paid: new_coins": (
        1,
        ("private/engine/test_spark.py::TestSecret::test_each_release_has_its_own",),
    ),
    "spark.sample: new_coins": (1, ("private/engine/test_spark.py::TestSecret::test_each_release_has_its_own",)),
    "spark.sanitize: new_coins": (1, ("private/engine/test_spark.py::TestSecret::test_each_release_has_its_own",)),
    # releases for tests of applications: marked as NOT private
    "testing.releases.KnownCoins.fresh: StreamCoins": (1, "coins that everybody knows"),
    "testing.releases._stream: words_of": (1, "coins that everybody knows"),
    # nothing is released of these
    "private.count.count_by_bound: new_coins": (1, PLAN),
    "private.count.CountedUsers.__init__: new_coins": (1, PLAN),
    "cli.release._sample_of_another_system: from_table": (1, NO_COINS),
    "private.sample.Sample.__init__: uuid4": (1, NAME),
    "private.engine.spark.jobs._drafted: uuid4": (1, NAME),
    "answers.normal_order.in_the_top: default_rng": (1, AFTER),
    "answers.token_order._Competitors.draws: default_rng": (1, AFTER),
    "answers.several_order._Competitors.of: default_rng": (1, AFTER),
    "private.engine.errors: token_hex": (1, "a mark of refusals, which no row can imitate"),
    "files.atomic_file.Temporary._make: token_hex": (1, NAME),
    "files.atomic_folder.atomic_folder: token_hex": (1, NAME),
}


def test_each_place_that_draws_is_in_the_list() -> None:
    """A new draw, or one that moved, needs an entry here, and tests that it is right."""
    assert places() == Counter({place: times for place, (times, _) in PLACES.items()})


@pytest.mark.parametrize("place", PLACES)
def test_what_is_drawn_there_has_tests(place: str) -> None:
    tests = PLACES[place][1]
    for name in () if isinstance(tests, str) else tests:
        file, *inner = name.split("::")
        source = (TESTS / file).read_text(encoding="utf-8")
        assert all(re.search(rf"(def|class) {part}\b", source) for part in inner), name
