"""Planted bugs of what is drawn: noise, coins, secrets, and what one user changes. See `planted.py`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One mistake: where it is made, and the tests that must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


DRAWS = "private/test_noises.py::test_each_noise_is_drawn_from_coins_of_its_own_by_the_certified_law"
REACHES = "private/test_noises.py::test_each_noise_reaches_the_release"
NUMBERS = "private/test_noises.py::test_without_noise_totals_are_the_true_numbers"
PARTS = "private/test_parts_of_neighbours.py::test_one_user_changes_each_part_by_at_most_the_length_of_its_noise"
AMOUNT_PARTS = (
    "private/users/test_amount_vectors.py::test_a_user_changes_each_part_by_no_more_than_its_noise_is_made_for"
)
TOTALS = "private/test_parts_of_neighbours.py::test_one_user_changes_each_total_by_at_most_its_sensitivity"

NOISE = [
    Bug(
        "noise of all parts from one known stream",
        "private/users/parts.py",
        "len(total), self._coins.fresh())",
        "len(total), __import__('dpsample.private.randomness').private.randomness.StreamCoins(b'0' * 32))",
        (DRAWS,),
    ),
    Bug(
        "parts of one release share their noise",
        "private/users/parts.py",
        "len(total), self._coins.fresh())",
        "len(total), self.__dict__.setdefault('coins', self._coins.fresh()))",
        (DRAWS,),
    ),
    Bug(
        "no noise on what was clipped",
        "private/users/counts.py",
        "noisy = self.noise.published(part, total // fine_of_unit)",
        "noisy = total // fine_of_unit + 0 * self.noise.published(part, total // fine_of_unit)",
        (REACHES,),
    ),
    Bug(
        "one number of noise for all keys",
        "private/users/parts.py",
        "from_table(noise.noise, len(total), self._coins.fresh())",
        "from_table(noise.noise, 1, self._coins.fresh())",
        (DRAWS,),
    ),
    Bug(
        "noise of a quarter of the variance is drawn, the right one is recorded",
        "private/users/parts.py",
        "        self._tables[part.name] = noise\n",
        "        self._tables[part.name] = noise\n"
        "        noise = VectorNoise.of(4 * part.square, part.aside, part.length)\n",
        (DRAWS,),
    ),
    Bug(
        "a total of found keys has noise for one key of a user",
        "private/noise.py",
        "discrete_laplace(stated.scale / stated.unit, coins)",
        "discrete_laplace(1 / stated.epsilon / stated.unit, coins)",
        (DRAWS,),
    ),
    Bug(
        "a total of found keys states the sensitivity of one key",
        "private/users/walk.py",
        "budget.privacy.share(budget.total), Fraction(look.most))",
        "budget.privacy.share(budget.total), Fraction(1))",
        (TOTALS, NUMBERS),
    ),
    Bug(
        "a look has half of its noise",
        "private/users/look.py",
        "discrete_laplace(1 / epsilon, drawn)",
        "discrete_laplace(1 / (2 * epsilon), drawn)",
        (DRAWS,),
    ),
    Bug(
        "no noise on what is filled",
        "private/users/choose.py",
        "noise = discrete_laplace(way.scale, drawn)",
        "noise = 0 * discrete_laplace(way.scale, drawn)",
        (REACHES,),
    ),
    Bug(
        "what many keys fill has noise for one key",
        "private/users/choose.py",
        "noise = discrete_laplace(way.scale, drawn)",
        "noise = discrete_laplace(1 / way.epsilon, drawn)",
        (DRAWS,),
    ),
    Bug(
        "what many keys fill states noise for one key",
        "accounting/filled.py",
        "        return self.keys / self.epsilon",
        "        return 1 / self.epsilon",
        ("accounting/test_filled.py::test_each_number_has_noise_for_what_a_user_changes",),
    ),
    Bug(
        "totals have noise for one of a user's keys",
        "private/totals.py",
        "each * self._budget.changes, unit)",
        "each, unit)",
        (TOTALS, "private/test_users.py::test_a_users_total_has_noise_for_all_keys"),
    ),
    Bug(
        "a total of dropped keys has the noise of one that counts each",
        "private/totals.py",
        "dropped, share, Fraction(TIMES))",
        "dropped, share)",
        (TOTALS,),
    ),
    Bug(
        "dropped keys are clipped ten times later",
        "private/totals.py",
        "most_dropped(bound))",
        "10 * most_dropped(bound))",
        (NUMBERS,),
    ),
    Bug(
        "tau follows from the true number of elements",
        "private/totals.py",
        "ChosenSampling(size.sampling(bought), ",
        "ChosenSampling(size.sampling(__import__('dataclasses').replace(bought, value=weights * size.unit)), ",
        ("private/test_noises.py::test_tau_follows_from_the_noisy_total",),
    ),
    Bug(
        "discrete Laplace noise without its whole part",
        "private/noise.py",
        "            whole += 1",
        "            break",
        ("private/test_noises.py::test_discrete_laplace_noise_by_chi_square",),
    ),
    Bug(
        "a number of a table is decided by its first 64 bits",
        "private/noise.py",
        "        places[row] = bisect_right(noise.cuts, v) - 1",
        "        pass",
        ("accounting/test_gaussian_vectors.py::test_values_are_drawn_by_comparing_integers",),
    ),
]

COINS = [
    Bug(
        "a sample and its tokens share coins",
        "private/derived_coins.py",
        "self._person = purpose.encode()",
        "self._person = b'x'",
        ("private/test_keyed.py",),
    ),
    Bug(
        "batches with the same elements share coins",
        "private/derived_coins.py",
        'f"{place[0]} {place[1]} {content.hexdigest()}"',
        'f"{content.hexdigest()}"',
        ("private/test_keyed.py::test_elements_go_by_place_and_content",),
    ),
    Bug(
        "noise on a cluster follows from the secret that workers have",
        "private/derived_coins.py",
        "        return SecretCoins()",
        "        return StreamCoins(self._key)",
        ("private/test_noises.py::test_on_a_cluster_each_release_and_each_noise_has_coins_of_its_own",),
    ),
    Bug(
        "a forked process goes on with its parent's coins",
        "private/randomness.py",
        "if os.getpid() != self._process:",
        "if os.getpid() < 0:",
        ("private/test_randomness.py::test_a_forked_process_draws_its_own",),
    ),
    Bug(
        "a copy of coins repeats them",
        "private/randomness.py",
        "        return SecretCoins, ()",
        "        return StreamCoins, (bytes(32),)  # type: ignore",
        ("private/test_randomness.py::test_a_pickled_copy_draws_its_own",),
    ),
    Bug(
        "further bits of a number are zeros",
        "private/randomness.py",
        '        return int.from_bytes(self.first(-(-bits // 64)).tobytes(), "little") >> (-bits % 64)',
        "        return 0",
        ("private/test_randomness.py::test_more_bits_have_the_asked_length_and_differ",),
    ),
    Bug(
        "the coins of a stream begin anew with each chunk",
        "private/stream/stream.py",
        "words_of(self._secret, start, chunk.num_rows)",
        "words_of(self._secret, 0, chunk.num_rows)",
        ("private/stream/test_stream.py",),
    ),
    Bug(
        "all batches of a query share coins",
        "private/stream/stream.py",
        'batch.to_bytes(8, "little")',
        'int(0).to_bytes(8, "little")',
        ("private/test_noises.py::test_batches_of_a_query_have_coins_of_their_own",),
    ),
    Bug(
        "a sampled key is reported by the coins that sampled it, on a cluster",
        "private/engine/spark/jobs.py",
        'secret.for_keys(kept.select(names), "sanitize")',
        'secret.for_keys(kept.select(names), "sample")',
        ("private/engine/test_spark.py::TestLaw::test_reports_and_tokens_follow_the_law_end_to_end",),
    ),
    Bug(
        "releases on a cluster share a secret",
        "private/engine/spark/engine.py",
        "        return Secret()",
        "        return Secret(bytes(32))",
        ("private/test_noises.py::test_on_a_cluster_each_release_and_each_noise_has_coins_of_its_own",),
    ),
]

SECRETS = [
    Bug(
        "a secret is shown",
        "private/derived_coins.py",
        '        return "Secret()"',
        '        return f"Secret({self._key.hex()})"',
        ("private/test_keyed.py::test_the_secret_is_not_shown",),
    ),
    Bug(
        "a row can say what an engine refuses",
        "private/engine/errors.py",
        'f"dpsample-refused-{secrets.token_hex(16)}"',
        '"dpsample-refused"',
        ("private/engine/test_imitated_errors.py",),
    ),
    Bug(
        "a listener is told how many rows there are",
        "private/progress.py",
        "            self.rows[stage] += batch.num_rows\n",
        "            self.rows[stage] += batch.num_rows\n            self.begin(f'{self.rows[stage]:,} {stage}')\n",
        ("private/test_progress.py::test_a_listener_is_told_the_same_of_all_data",),
    ),
    Bug(
        "samples can be read by everybody",
        "private/sample.py",
        "MODE: Final = 0o600",
        "MODE: Final = 0o644",
        ("private/test_samples.py",),
    ),
    Bug(
        "a key that a public hash chose is reported as one of a secret sample",
        "private/sanitizer.py",
        "        scheme = terms.sampling.sanitized_as",
        "        scheme = terms.sampling",
        ("scheme/test_coordinated.py",),
    ),
    Bug(
        "which of two equal numbers a user keeps depends on other users",
        "private/bounding.py",
        "        order[start:end] = tied[by_key]",
        "        order[start:end] = tied",
        ("private/test_bounding.py::test_ties_are_broken_by_the_key_whatever_the_order_of_rows",),
    ),
]

USERS = [
    Bug(
        "a user gives a unit to each key",
        "private/assignment.py",
        "if user != settled and left[place]:",
        "if left[place]:",
        ("private/test_assignment.py::test_the_pass_against_two_oracles",),
    ),
    Bug(
        "a user keeps one key more",
        "private/bounding.py",
        "order[rank < limit]",
        "order[rank <= limit]",
        ("private/test_bounding.py",),
    ),
    Bug(
        "a user fills one key more",
        "private/engine/duckdb/pairs.py",
        "kept_rows(begins, most, coins",
        "kept_rows(begins, most + 1, coins",
        ("accounting/test_filled.py::test_users_keep_no_more_keys_than_they_may",),
    ),
    Bug(
        "rows of a user count more than once",
        "private/engine/duckdb/tables.py",
        'f"DISTINCT {self.user} AS u, ',
        'f"{self.user} AS u, ',
        ("private/test_bounding.py::test_rows_that_repeat_are_one_pair",),
    ),
    Bug(
        "dropped keys of a user are not clipped",
        "private/engine/duckdb/users.py",
        "sum(least(n, {most}))",
        "sum(n)",
        (NUMBERS,),
    ),
    Bug(
        "users are clipped at twice the length",
        "private/users/vectors.py",
        "long = np.flatnonzero(sums > most)",
        "most = 4 * most\n    long = np.flatnonzero(sums > most)",
        (PARTS,),
    ),
    Bug(
        "factors are rounded up",
        "private/users/vectors.py",
        "    factors -= factors * factors * squares > limit",
        "    factors += 1",
        ("private/users/test_user_counts.py::test_factors_are_the_largest_whole_ones",),
    ),
    Bug(
        "popular keys come on top of a user's length",
        "private/users/weighing.py",
        "most = length**2 - int(squares[head].sum())",
        "most = length**2",
        (PARTS,),
    ),
    Bug(
        "first counts are clipped later than their noise allows",
        "private/users/counts.py",
        "weighted_counts(weights, length**2)",
        "weighted_counts(weights, 2 * length**2)",
        (PARTS,),
    ),
    Bug(
        "amounts are clipped eight times later",
        "private/users/kernel.py",
        "clipped = np.clip(value, *amount.ends)",
        "clipped = np.clip(value, *amount.looked_at)",
        (PARTS,),
    ),
    Bug(
        "the high end of a clip is not applied",
        "private/users/kernel.py",
        "clipped = np.clip(value, *amount.ends)",
        "clipped = np.clip(value, amount.ends[0], None)",
        (AMOUNT_PARTS,),
    ),
    Bug(
        "the low end of a clip is that of a clip around 0",
        "private/users/kernel.py",
        "clipped = np.clip(value, *amount.ends)",
        "clipped = np.clip(value, -amount.ends[1], amount.ends[1])",
        ("private/users/test_amount_vectors.py::test_sums_against_plain_loops",),
    ),
    Bug(
        "what is beyond a clip counts fully at each key",
        "private/users/kernel.py",
        "return np.minimum(1 / self.weighing.few.most, 1 / keys)",
        "return np.minimum(1 / self.weighing.few.most, 1.0 + 0 * keys)",
        (AMOUNT_PARTS,),
    ),
    Bug(
        "rounded amounts may be longer than the noise allows",
        "private/users/kernel.py",
        "    long = np.flatnonzero(users.summed(added**2) > length**2)",
        "    long = np.flatnonzero(users.summed(added**2) > 2 * length**2)",
        (AMOUNT_PARTS,),
    ),
]

DRAWING = [*NOISE, *COINS, *SECRETS, *USERS]
