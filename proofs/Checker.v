(** * A checker of certificates, proved sound

    docs/proofs.md describes the file.  In words:

    A certificate holds the integers that tokens are drawn from: for some runs of
    consecutive frequencies, the cut points of each row and bounds of the
    probability q of being sampled.  If [check] says yes, then for every two
    neighbouring rows of the certificate, every q within the bounds, every E that
    is at least exp(epsilon), all other keys whatever their rows, and every set T
    of outputs,

        Pr[T] <= E Pr'[T] + delta,   both ways round        [checked_pairs_are_private].

    If the certificate begins at frequency 0 and says that its last row repeats
    for ever, then the whole scheme is (epsilon, delta)-differentially private
    [complete_certificates_are_private]. *)

From Coq Require Import ZArith QArith Lqa Lia List Bool.
From DPSample Require Import Rows.
Import ListNotations.

(** ** The certificate, and the checker: integers only *)

Open Scope Z_scope.

(** One row.  [low / q_one <= q <= high / q_one].  Given that the key was sampled,
    cut number k over [cut_one] is the probability of one of the k highest tokens,
    which are frequency * grid, frequency * grid - 1 and so on. *)
Record row_data := { low : Z; high : Z; cuts : list Z }.

(** The rows of the frequencies [first], [first + 1], ... *)
Record span := { first : Z; rows : list row_data }.

Record certificate := {
  epsilon_top : Z; epsilon_bottom : Z;   (* epsilon = top / bottom *)
  delta_top : Z; delta_bottom : Z;
  ratio : Z; ratio_one : Z;              (* ratio / ratio_one is at most exp(epsilon) ... *)
  terms : nat;                           (* ... since at most the sum of its series up to this power *)
  grid : nat;                            (* tokens are in units of 1 / grid *)
  cut_one : Z; q_one : Z;
  spans : list span;
  repeats : bool                         (* whether the last row repeats for ever *)
}.

(** (term, sum, denominator): the sum of (top / bottom)^k / k! for k = 0 to n, and its last term. *)
Fixpoint series (top bottom : Z) (n : nat) : Z * Z * Z :=
  match n with
  | O => (1, 1, 1)
  | S m =>
      let '(term, sum, denominator) := series top bottom m in
      let factor := bottom * Z.of_nat n in
      (term * top, sum * factor + term * top, denominator * factor)
  end.

Definition check_numbers (c : certificate) : bool :=
  let '(_, sum, denominator) := series (epsilon_top c) (epsilon_bottom c) (terms c) in
  (0 <=? epsilon_top c) && (0 <? epsilon_bottom c) && (0 <=? delta_top c) && (0 <? delta_bottom c)
  && (0 <? ratio_one c) && (0 <=? ratio c) && (ratio c * denominator <=? sum * ratio_one c)
  && (0 <? cut_one c) && (0 <? q_one c).

(** The probability of each token in units of [1 / cut_one], highest first. *)
Fixpoint masses (before : Z) (cuts : list Z) : list Z :=
  match cuts with
  | [] => []
  | cut :: rest => (cut - before) :: masses cut rest
  end.

Definition reported (d : row_data) : Z := last (cuts d) 0.

Definition check_row (c : certificate) (frequency : Z) (d : row_data) : bool :=
  (0 <=? low d) && (low d <=? high d) && (high d <=? q_one c)
  && forallb (Z.leb 0) (masses 0 (cuts d)) && (reported d <=? cut_one c)
  && (Z.of_nat (length (cuts d)) <=? frequency * Z.of_nat (grid c)).

(** The sum over tokens of max(0, a * mass - b * other). *)
Fixpoint token_excess (a b : Z) (ms os : list Z) : Z :=
  match ms, os with
  | [], _ => 0
  | m :: ms', [] => Z.max 0 (a * m) + token_excess a b ms' []
  | m :: ms', o :: os' => Z.max 0 (a * m - b * o) + token_excess a b ms' os'
  end.

(** What "not reported" adds, with the bounds of q that make it largest. *)
Definition absent_excess (c : certificate) (d other : row_data) : Z :=
  let one := cut_one c * q_one c in
  Z.max 0 (ratio_one c * (one - low d * reported d) - ratio c * (one - high other * reported other)).

Definition check_sum (c : certificate) (sum : Z) : bool :=
  sum * delta_bottom c <=? delta_top c * (ratio_one c * q_one c * cut_one c).

(** Neighbouring rows: [before] of one frequency and [now] of the next, which has [grid] tokens more. *)
Definition check_pair (c : certificate) (before now : row_data) : bool :=
  let new := masses 0 (cuts now) in
  let old := repeat 0 (grid c) ++ masses 0 (cuts before) in
  check_sum c (absent_excess c now before + token_excess (ratio_one c * high now) (ratio c * low before) new old)
  && check_sum c (absent_excess c before now + token_excess (ratio_one c * high before) (ratio c * low now) old new).

Fixpoint check_rows (c : certificate) (frequency : Z) (before : row_data) (rest : list row_data) : bool :=
  match rest with
  | [] => true
  | now :: more =>
      check_row c (frequency + 1) now && check_pair c before now && check_rows c (frequency + 1) now more
  end.

Definition check_span (c : certificate) (s : span) : bool :=
  match rows s with
  | [] => true
  | d :: rest => (0 <=? first s) && check_row c (first s) d && check_rows c (first s) d rest
  end.

Definition nothing : row_data := {| low := 0; high := 0; cuts := [] |}.

Definition check_repeats (c : certificate) : bool :=
  match spans c with
  | [s] =>
      match rows s with
      | [] => false
      | _ => (first s =? 0) && check_pair c (last (rows s) nothing) (last (rows s) nothing)
      end
  | _ => false
  end.

Definition check (c : certificate) : bool :=
  check_numbers c && forallb (check_span c) (spans c) && (if repeats c then check_repeats c else true).

(** ** What a certificate stands for: rational numbers *)

Open Scope Q_scope.

Definition frac (a b : Z) : Q := inject_Z a / inject_Z b.

(** The sum of x^k / k! for k = 0 to n. *)
Fixpoint exp_term (x : Q) (n : nat) : Q :=
  match n with
  | O => 1
  | S m => exp_term x m * x / inject_Z (Z.of_nat n)
  end.
Fixpoint exp_sum (x : Q) (n : nat) : Q :=
  match n with
  | O => 1
  | S m => exp_sum x m + exp_term x n
  end.

(** E >= exp(x), for x >= 0: no partial sum of the series exceeds it. *)
Definition at_least_exp (x E : Q) : Prop := forall n, exp_sum x n <= E.

Definition epsilon (c : certificate) : Q := frac (epsilon_top c) (epsilon_bottom c).
Definition delta (c : certificate) : Q := frac (delta_top c) (delta_bottom c).

Definition within (c : certificate) (d : row_data) (q : Q) : Prop :=
  frac (low d) (q_one c) <= q <= frac (high d) (q_one c).

(** The probabilities of tokens, highest first, for a key that is sampled with probability q. *)
Definition tokens (c : certificate) (d : row_data) (q : Q) : list Q :=
  map (fun m => q * frac m (cut_one c)) (masses 0 (cuts d)).

(** The row of a frequency: "not reported", then tokens 1 to frequency * grid. *)
Definition row_of (c : certificate) (frequency : nat) (d : row_data) (q : Q) : row :=
  (1 - q * frac (reported d) (cut_one c))
    :: rev (tokens c d q ++ repeat 0 (frequency * grid c - length (cuts d))).

(** The scheme of a certificate that begins at frequency 0, and whose last row repeats. *)
Definition data (c : certificate) (frequency : nat) : row_data :=
  match spans c with
  | s :: _ => nth frequency (rows s) (last (rows s) nothing)
  | [] => nothing
  end.
Definition scheme_of (c : certificate) (q : nat -> Q) : scheme := fun i => row_of c i (data c i) (q i).

(** ** Proofs *)

Lemma inject_pos : forall b, (0 < b)%Z -> 0 < inject_Z b.
Proof. intros b H. change 0 with (inject_Z 0). rewrite <- Zlt_Qlt. assumption. Qed.

Lemma inject_sub : forall a b, inject_Z (a - b) == inject_Z a - inject_Z b.
Proof. intros. unfold Z.sub. rewrite inject_Z_plus, inject_Z_opp. reflexivity. Qed.

Lemma frac_le : forall a a' b, (0 < b)%Z -> (a <= a')%Z -> frac a b <= frac a' b.
Proof.
  intros a a' b Hb H. unfold frac, Qdiv. apply Qmult_le_compat_r.
  - rewrite <- Zle_Qle. assumption.
  - apply Qinv_le_0_compat, Qlt_le_weak, inject_pos, Hb.
Qed.

Lemma frac_0 : forall b, frac 0 b == 0.
Proof. intros b. apply Qmult_0_l. Qed.

Lemma frac_nonneg : forall a b, (0 < b)%Z -> (0 <= a)%Z -> 0 <= frac a b.
Proof. intros a b Hb H. rewrite <- (frac_0 b). apply frac_le; assumption. Qed.

Lemma frac_add : forall a a' b, frac (a + a') b == frac a b + frac a' b.
Proof. intros. unfold frac, Qdiv. rewrite inject_Z_plus. ring. Qed.

Lemma frac_sub : forall a a' b, frac (a - a') b == frac a b - frac a' b.
Proof. intros. unfold frac, Qdiv. rewrite inject_sub. ring. Qed.

Lemma inject_ne : forall b, (0 < b)%Z -> ~ inject_Z b == 0.
Proof. intros b H C. assert (K := inject_pos b H). lra. Qed.

Lemma frac_mul : forall a b c d, (0 < b)%Z -> (0 < d)%Z -> frac a b * frac c d == frac (a * c) (b * d).
Proof.
  intros. unfold frac. rewrite !inject_Z_mult. field. split; apply inject_ne; assumption.
Qed.

Lemma frac_whole : forall a b, (0 < a)%Z -> (0 < b)%Z -> frac (a * b) (a * b) == 1.
Proof. intros. unfold frac. rewrite inject_Z_mult. field. split; apply inject_ne; assumption. Qed.

Lemma frac_scale : forall k a b, (0 < k)%Z -> (0 < b)%Z -> frac (k * a) (k * b) == frac a b.
Proof. intros. unfold frac. rewrite !inject_Z_mult. field. split; apply inject_ne; assumption. Qed.

(** *** The series *)

Lemma series_sound : forall top bottom n, (0 < bottom)%Z ->
  let '(term, sum, denominator) := series top bottom n in
  (0 < denominator)%Z /\ exp_term (frac top bottom) n == frac term denominator /\
  exp_sum (frac top bottom) n == frac sum denominator.
Proof.
  intros top bottom n Hb. induction n as [|n IH].
  - simpl. repeat split; lia.
  - simpl series. destruct (series top bottom n) as [[term sum] den]. destruct IH as (Hd & Ht & Hs).
    assert (Hn : (0 < Z.of_nat (S n))%Z) by lia.
    assert (Hf : (0 < bottom * Z.of_nat (S n))%Z) by lia.
    assert (T : exp_term (frac top bottom) (S n) == frac (term * top) (den * (bottom * Z.of_nat (S n)))).
    { cbn [exp_term]. rewrite Ht. unfold frac. rewrite !inject_Z_mult. field.
      repeat split; apply inject_ne; assumption. }
    split; [lia|]. split; [exact T|].
    cbn [exp_sum]. rewrite T, Hs, frac_add. apply Qplus_inj_r.
    unfold frac. rewrite !inject_Z_mult. field. repeat split; apply inject_ne; assumption.
Qed.

Lemma ratio_sound : forall c E, check_numbers c = true -> at_least_exp (epsilon c) E ->
  0 <= frac (ratio c) (ratio_one c) <= E.
Proof.
  intros c E H HE. unfold check_numbers in H.
  assert (S := series_sound (epsilon_top c) (epsilon_bottom c) (terms c)).
  destruct (series (epsilon_top c) (epsilon_bottom c) (terms c)) as [[term sum] den].
  rewrite !andb_true_iff, !Z.leb_le, !Z.ltb_lt in H.
  destruct H as ((((((((H1 & H2) & H3) & H4) & H5) & H6) & H7) & H8) & H9).
  destruct (S H2) as (Hd & _ & Hs). split; [apply frac_nonneg; assumption|].
  apply Qle_trans with (frac sum den).
  - rewrite <- (frac_scale den (ratio c)), <- (frac_scale (ratio_one c) sum) by assumption.
    rewrite (Z.mul_comm (ratio_one c) den). apply frac_le; lia.
  - rewrite <- Hs. apply HE.
Qed.

(** *** The order of tokens does not matter *)

Lemma positive_part_comp : forall x y, x == y -> positive_part x == positive_part y.
Proof.
  intros x y H. assert (A := positive_part_max x). assert (B := positive_part_max y).
  assert (positive_part x <= positive_part y) by (apply positive_part_le; lra).
  assert (positive_part y <= positive_part x) by (apply positive_part_le; lra). lra.
Qed.

Lemma excess_zeros_right : forall E n r s, excess E r (s ++ repeat 0 n) == excess E r s.
Proof.
  intros E n r. induction r as [|p r IH]; intros s; simpl; [reflexivity|].
  destruct s as [|t s]; simpl.
  - destruct n as [|n]; simpl; [reflexivity|].
    rewrite (positive_part_comp (p - E * 0) p) by lra.
    assert (K : forall n, excess E r (repeat 0 n) == excess E r []).
    { clear IH. induction r as [|p' r IH']; intros k; simpl; [reflexivity|].
      destruct k; simpl; [reflexivity|]. rewrite IH', (positive_part_comp (p' - E * 0) p') by lra. reflexivity. }
    rewrite K. reflexivity.
  - rewrite IH. reflexivity.
Qed.

Lemma excess_zeros_left : forall E n r s, 0 <= E -> nonnegative s ->
  excess E (r ++ repeat 0 n) s == excess E r s.
Proof.
  intros E n r s HE. revert s. induction r as [|p r IH]; intros s N; simpl.
  - revert s N. induction n as [|n IH]; intros s N; simpl; [reflexivity|].
    destruct s as [|t s].
    + rewrite IH by assumption. unfold positive_part. simpl. lra.
    + inversion_clear N. rewrite IH by assumption.
      assert (0 <= positive_part (0 - E * t) <= 0); [|lra].
      split; [apply positive_part_max|apply positive_part_le; [lra|nra]].
  - destruct s as [|t s]; [rewrite IH by assumption; reflexivity|].
    inversion_clear N. rewrite IH by assumption. reflexivity.
Qed.

Lemma excess_rev : forall E r s, length r = length s -> excess E (rev r) (rev s) == excess E r s.
Proof.
  intros E r. induction r as [|p r IH]; intros s H; destruct s as [|t s]; try discriminate; simpl; [reflexivity|].
  simpl in H. rewrite excess_app by (rewrite !rev_length; congruence). rewrite IH by congruence. simpl. ring.
Qed.

Lemma rev_repeat : forall (n : nat), rev (repeat 0 n) = repeat 0 n.
Proof.
  induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH. clear IH.
  induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH. reflexivity.
Qed.

Lemma nonneg_zeros : forall n, nonnegative (repeat 0 n).
Proof. induction n; simpl; constructor; [lra|assumption]. Qed.

(** Rows with tokens from the lowest up, against lists with tokens from the highest down. *)
Lemma excess_up : forall E g k m o, 0 <= E -> nonnegative o ->
  (length o <= k * g)%nat -> (length m <= S k * g)%nat ->
  excess E (rev (m ++ repeat 0 (S k * g - length m))) (rev (o ++ repeat 0 (k * g - length o)))
  == excess E m (repeat 0 g ++ o).
Proof.
  intros E g k m o HE N Ho Hm. simpl in Hm.
  rewrite <- (excess_zeros_right E g).
  rewrite <- (rev_repeat g), <- rev_app_distr, excess_rev.
  - rewrite rev_repeat, app_assoc, excess_zeros_right, excess_zeros_left; [reflexivity|assumption|].
    apply Forall_app. split; [apply nonneg_zeros|assumption].
  - rewrite !app_length, ?rev_length, !repeat_length. simpl. lia.
Qed.

Lemma excess_down : forall E g k m o, 0 <= E -> nonnegative m ->
  (length o <= k * g)%nat -> (length m <= S k * g)%nat ->
  excess E (rev (o ++ repeat 0 (k * g - length o))) (rev (m ++ repeat 0 (S k * g - length m)))
  == excess E (repeat 0 g ++ o) m.
Proof.
  intros E g k m o HE N Ho Hm. simpl in Hm.
  rewrite <- (excess_zeros_left E g (rev (o ++ repeat 0 (k * g - length o)))
                (rev (m ++ repeat 0 (g + k * g - length m)))); [|assumption|].
  2: { apply Forall_rev, Forall_app. split; [assumption|apply nonneg_zeros]. }
  rewrite <- (rev_repeat g), <- rev_app_distr, excess_rev.
  - rewrite rev_repeat, app_assoc, excess_zeros_right, excess_zeros_left; [reflexivity|assumption|assumption].
  - rewrite !app_length, ?rev_length, !repeat_length. simpl. lia.
Qed.

(** *** Integers and the rational numbers that they stand for *)

Lemma token_excess_sound : forall E a b U r s ms os, (0 < U)%Z ->
  Forall2 (fun p m => p <= frac (a * m) U) r ms ->
  Forall2 (fun t o => frac (b * o) U <= E * t) s os ->
  excess E r s <= frac (token_excess a b ms os) U.
Proof.
  intros E a b U r s ms os HU Hr. revert s os.
  assert (Z0 := frac_0 U).
  induction Hr as [|p m r ms Hp Hr IH]; intros s os Hs; simpl; [lra|].
  inversion Hs as [|t o s' os' Ht Hs']; subst.
  - rewrite frac_add. specialize (IH [] [] (Forall2_nil _)).
    assert (positive_part p <= frac (Z.max 0 (a * m)) U); [|lra].
    apply positive_part_le.
    + apply frac_nonneg; lia.
    + apply Qle_trans with (frac (a * m) U); [assumption|]. apply frac_le; lia.
  - rewrite frac_add. specialize (IH _ _ Hs').
    assert (positive_part (p - E * t) <= frac (Z.max 0 (a * m - b * o)) U); [|lra].
    apply positive_part_le.
    + apply frac_nonneg; lia.
    + apply Qle_trans with (frac (a * m - b * o) U); [rewrite frac_sub; lra|]. apply frac_le; lia.
Qed.

(** What [check_numbers] and [check_row] say. *)
Record numbers (c : certificate) (E : Q) : Prop := {
  E_least : 0 <= frac (ratio c) (ratio_one c) <= E;
  ratio_ge : (0 <= ratio c)%Z;
  ratio_one_pos : (0 < ratio_one c)%Z;
  cut_one_pos : (0 < cut_one c)%Z;
  q_one_pos : (0 < q_one c)%Z;
  delta_bottom_pos : (0 < delta_bottom c)%Z
}.

Lemma numbers_of : forall c E, check_numbers c = true -> at_least_exp (epsilon c) E -> numbers c E.
Proof.
  intros c E H HE. assert (R := ratio_sound c E H HE). unfold check_numbers in H.
  destruct (series (epsilon_top c) (epsilon_bottom c) (terms c)) as [[term sum] den].
  rewrite !andb_true_iff, !Z.leb_le, !Z.ltb_lt in H.
  destruct H as ((((((((H1 & H2) & H3) & H4) & H5) & H6) & H7) & H8) & H9).
  constructor; assumption.
Qed.

Record good_row (c : certificate) (frequency : nat) (d : row_data) : Prop := {
  low_nonneg : (0 <= low d)%Z;
  low_high : (low d <= high d)%Z;
  high_one : (high d <= q_one c)%Z;
  masses_nonneg : Forall (fun m => (0 <= m)%Z) (masses 0 (cuts d));
  reported_one : (reported d <= cut_one c)%Z;
  long_enough : (length (cuts d) <= frequency * grid c)%nat
}.

Lemma good_row_of : forall c f d, (0 <= f)%Z -> check_row c f d = true -> good_row c (Z.to_nat f) d.
Proof.
  intros c f d Hf H. unfold check_row in H. rewrite !andb_true_iff, !Z.leb_le, forallb_forall in H.
  destruct H as (((((H1 & H2) & H3) & H4) & H5) & H6). constructor; try assumption.
  - apply Forall_forall. intros m I. apply Z.leb_le, H4, I.
  - lia.
Qed.

Lemma good_row_later : forall c f g d, (f <= g)%nat -> good_row c f d -> good_row c g d.
Proof. intros c f g d H [H1 H2 H3 H4 H5 H6]. constructor; try assumption. nia. Qed.

Lemma masses_length : forall l z, length (masses z l) = length l.
Proof. induction l; intros; simpl; congruence. Qed.

(** Cuts are sums of masses. *)
Lemma masses_sum : forall l z, fold_right Z.add 0%Z (masses z l) = (last l z - z)%Z.
Proof.
  induction l as [|cut l IH]; intros z; simpl; [lia|]. rewrite IH. destruct l as [|x l]; [simpl; lia|].
  assert (last (x :: l) cut = last (x :: l) z) as ->; [|lia].
  clear. revert x. induction l as [|y l IH]; intros x; [reflexivity|]. apply (IH y).
Qed.

Lemma reported_sum : forall d, reported d = fold_right Z.add 0%Z (masses 0 (cuts d)).
Proof. intros d. rewrite masses_sum. unfold reported. lia. Qed.

Lemma reported_nonneg : forall c f d, good_row c f d -> (0 <= reported d)%Z.
Proof.
  intros c f d G. rewrite reported_sum. assert (M := masses_nonneg _ _ _ G).
  induction M; simpl; lia.
Qed.

Lemma mean_app : forall r s, mean (r ++ s) (fun _ => 1) == mean r (fun _ => 1) + mean s (fun _ => 1).
Proof. induction r as [|p r IH]; intros s; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma mean_rev : forall r, mean (rev r) (fun _ => 1) == mean r (fun _ => 1).
Proof. induction r as [|p r IH]; simpl; [reflexivity|]. rewrite mean_app, IH. simpl. ring. Qed.

Lemma mean_zeros : forall n, mean (repeat 0 n) (fun _ => 1) == 0.
Proof. induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH. ring. Qed.

Lemma tokens_sum : forall c d q, mean (tokens c d q) (fun _ => 1) == q * frac (reported d) (cut_one c).
Proof.
  intros c d q. rewrite reported_sum. unfold tokens. induction (masses 0 (cuts d)) as [|m ms IH]; simpl.
  - rewrite frac_0. ring.
  - rewrite IH, frac_add. ring.
Qed.

Lemma q_range : forall c E f d q, numbers c E -> good_row c f d -> within c d q -> 0 <= q <= 1.
Proof.
  intros c E f d q N G W. destruct W as [W1 W2]. split.
  - apply Qle_trans with (frac (low d) (q_one c)); [|assumption].
    apply frac_nonneg; [apply N|apply G].
  - apply Qle_trans with (frac (high d) (q_one c)); [assumption|].
    rewrite <- (frac_scale 1 (high d)) by (try apply N; lia). rewrite <- (frac_whole 1 (q_one c)) by (try apply N; lia).
    apply frac_le; [assert (K := q_one_pos _ _ N)|assert (K := high_one _ _ _ G)]; lia.
Qed.

Lemma tokens_nonneg : forall c E f d q, numbers c E -> good_row c f d -> within c d q -> nonnegative (tokens c d q).
Proof.
  intros c E f d q N G W. unfold tokens, nonnegative. apply Forall_map.
  apply (Forall_impl _ (P := fun m => (0 <= m)%Z)); [|apply G].
  intros m Hm. destruct (q_range _ _ _ _ _ N G W). assert (0 <= frac m (cut_one c)) by (apply frac_nonneg; [apply N|assumption]).
  nra.
Qed.

Lemma row_is_law : forall c E f d q, numbers c E -> good_row c f d -> within c d q -> law (row_of c f d q).
Proof.
  intros c E f d q N G W. split.
  - constructor.
    + destruct (q_range _ _ _ _ _ N G W).
      assert (0 <= frac (reported d) (cut_one c) <= 1).
      { split; [apply frac_nonneg; [apply N|eapply reported_nonneg, G]|].
        rewrite <- (frac_scale 1 (reported d)) by (try apply N; lia).
        rewrite <- (frac_whole 1 (cut_one c)) by (try apply N; lia).
        apply frac_le; [assert (K := cut_one_pos _ _ N)|assert (K := reported_one _ _ _ G)]; lia. }
      nra.
    + apply Forall_rev, Forall_app. split; [eapply tokens_nonneg; eassumption|apply nonneg_zeros].
  - unfold row_of. cbn [mean]. rewrite mean_rev, mean_app, mean_zeros, tokens_sum. ring.
Qed.

(** Upper bounds of probabilities, and lower bounds of E times them, in integers. *)
Lemma upper : forall c E f d q m, numbers c E -> good_row c f d -> within c d q -> (0 <= m)%Z ->
  q * frac m (cut_one c) <= frac (ratio_one c * high d * m) (ratio_one c * q_one c * cut_one c).
Proof.
  intros c E f d q m N G [_ W] Hm. destruct N as [_ _ R C Q _].
  rewrite <- !Z.mul_assoc, frac_scale by nia. rewrite <- frac_mul by assumption.
  assert (0 <= frac m (cut_one c)) by (apply frac_nonneg; assumption). nra.
Qed.

Lemma lower : forall c E f d q m, numbers c E -> good_row c f d -> within c d q -> (0 <= m)%Z ->
  frac (ratio c * low d * m) (ratio_one c * q_one c * cut_one c) <= E * (q * frac m (cut_one c)).
Proof.
  intros c E f d q m N G [W _] Hm. destruct N as [[E1 E2] _ R C Q _].
  rewrite <- !Z.mul_assoc, <- !frac_mul by nia.
  assert (0 <= frac m (cut_one c)) by (apply frac_nonneg; assumption).
  assert (0 <= frac (low d) (q_one c)) by (apply frac_nonneg; [assumption|apply G]).
  assert (frac (low d) (q_one c) * frac m (cut_one c) <= q * frac m (cut_one c)) by nra.
  assert (0 <= frac (low d) (q_one c) * frac m (cut_one c)) by nra. nra.
Qed.

Lemma absent_sound : forall c E f g d o q p, numbers c E -> good_row c f d -> good_row c g o ->
  within c d q -> within c o p ->
  positive_part ((1 - q * frac (reported d) (cut_one c)) - E * (1 - p * frac (reported o) (cut_one c)))
  <= frac (absent_excess c d o) (ratio_one c * q_one c * cut_one c).
Proof.
  intros c E f g d o q p N Gd Go [Wd _] Wo. destruct N as [[E1 E2] HR R C Q D].
  assert (Hr := reported_nonneg _ _ _ Gd). assert (Ho := reported_nonneg _ _ _ Go).
  unfold absent_excess. set (U := (ratio_one c * q_one c * cut_one c)%Z).
  assert (HU : (0 < U)%Z) by (unfold U; nia).
  apply positive_part_le; [apply frac_nonneg; lia|].
  eapply Qle_trans; [|apply frac_le; [assumption|apply Z.le_max_r]].
  rewrite frac_sub.
  assert (A : 1 - q * frac (reported d) (cut_one c)
              <= frac (ratio_one c * (cut_one c * q_one c - low d * reported d)) U).
  { unfold U. rewrite <- Z.mul_assoc, frac_scale by nia.
    rewrite frac_sub, (Z.mul_comm (cut_one c)), frac_whole, <- frac_mul by assumption.
    assert (0 <= frac (reported d) (cut_one c)) by (apply frac_nonneg; assumption). nra. }
  assert (B : frac (ratio c * (cut_one c * q_one c - high o * reported o)) U
              <= E * (1 - p * frac (reported o) (cut_one c))).
  { unfold U. rewrite <- Z.mul_assoc, <- frac_mul by nia.
    rewrite frac_sub, (Z.mul_comm (cut_one c)), frac_whole, <- frac_mul by assumption.
    assert (0 <= frac (reported o) (cut_one c) <= 1).
    { split; [apply frac_nonneg; assumption|].
      rewrite <- (frac_scale 1 (reported o)), <- (frac_whole 1 (cut_one c)) by lia.
      apply frac_le; [|assert (K := reported_one _ _ _ Go)]; lia. }
    assert (frac (high o) (q_one c) <= 1).
    { rewrite <- (frac_scale 1 (high o)), <- (frac_whole 1 (q_one c)) by lia.
      apply frac_le; [|assert (K := high_one _ _ _ Go)]; lia. }
    destruct Wo as [_ Wo].
    assert (p * frac (reported o) (cut_one c) <= frac (high o) (q_one c) * frac (reported o) (cut_one c)) by nra.
    assert (frac (high o) (q_one c) * frac (reported o) (cut_one c) <= 1) by nra. nra. }
  lra.
Qed.

Lemma sum_sound : forall c E sum, numbers c E -> check_sum c sum = true ->
  frac sum (ratio_one c * q_one c * cut_one c) <= delta c.
Proof.
  intros c E sum N H. unfold check_sum in H. apply Z.leb_le in H. destruct N as [_ _ R C Q D].
  set (U := (ratio_one c * q_one c * cut_one c)%Z) in *. assert (0 < U)%Z by (unfold U; nia). unfold delta.
  rewrite <- (frac_scale (delta_bottom c) sum), <- (frac_scale U (delta_top c)) by assumption.
  rewrite (Z.mul_comm U (delta_bottom c)). apply frac_le; nia.
Qed.

Lemma upper_all : forall c E f d q ms, numbers c E -> good_row c f d -> within c d q -> Forall (fun m => (0 <= m)%Z) ms ->
  Forall2 (fun p m => p <= frac (ratio_one c * high d * m) (ratio_one c * q_one c * cut_one c))
    (map (fun m => q * frac m (cut_one c)) ms) ms.
Proof. intros c E f d q ms N G W F. induction F; simpl; constructor; [eapply upper; eassumption|assumption]. Qed.

Lemma lower_all : forall c E f d q ms, numbers c E -> good_row c f d -> within c d q -> Forall (fun m => (0 <= m)%Z) ms ->
  Forall2 (fun t m => frac (ratio c * low d * m) (ratio_one c * q_one c * cut_one c) <= E * t)
    (map (fun m => q * frac m (cut_one c)) ms) ms.
Proof. intros c E f d q ms N G W F. induction F; simpl; constructor; [eapply lower; eassumption|assumption]. Qed.

Lemma zeros_all : forall (R : Q -> Z -> Prop) n r ms, R 0 0%Z -> Forall2 R r ms ->
  Forall2 R (repeat 0 n ++ r) (repeat 0%Z n ++ ms).
Proof. intros R n r ms H F. induction n; simpl; [assumption|]. constructor; assumption. Qed.

Lemma pair_sound : forall c E i before now p q, numbers c E ->
  good_row c i before -> good_row c (S i) now -> within c before p -> within c now q ->
  check_pair c before now = true ->
  excess E (row_of c (S i) now q) (row_of c i before p) <= delta c /\
  excess E (row_of c i before p) (row_of c (S i) now q) <= delta c.
Proof.
  intros c E i before now p q N Gb Gn Wb Wn H. unfold check_pair in H. apply andb_true_iff in H. destruct H as [Up Down].
  apply (sum_sound c E) in Up; [|assumption]. apply (sum_sound c E) in Down; [|assumption].
  rewrite frac_add in Up, Down.
  assert (HE : 0 <= E) by (destruct N as [[? ?] _ _ _ _ _]; lra).
  assert (LN := long_enough _ _ _ Gn). assert (LB := long_enough _ _ _ Gb).
  assert (HU : (0 < ratio_one c * q_one c * cut_one c)%Z) by (destruct N; nia).
  assert (Z0 : forall a, frac (a * 0) (ratio_one c * q_one c * cut_one c) == 0).
  { intros a. rewrite Z.mul_0_r. apply frac_0. }
  assert (TL : forall d r, length (tokens c d r) = length (cuts d)).
  { intros. unfold tokens. rewrite map_length, masses_length. reflexivity. }
  unfold row_of. cbn [excess]. split.
  - eapply Qle_trans; [|exact Up]. apply Qplus_le_compat.
    + eapply absent_sound; eassumption.
    + rewrite <- (TL now q), <- (TL before p).
      rewrite excess_up; [|assumption|eapply tokens_nonneg; eassumption|rewrite TL; assumption|rewrite TL; assumption].
      apply token_excess_sound; [assumption| |].
      * eapply upper_all; [eassumption|exact Gn|assumption|apply Gn].
      * apply zeros_all; [rewrite Z0; lra|]. eapply lower_all; [eassumption|exact Gb|assumption|apply Gb].
  - eapply Qle_trans; [|exact Down]. apply Qplus_le_compat.
    + eapply absent_sound; eassumption.
    + rewrite <- (TL now q), <- (TL before p).
      rewrite excess_down; [|assumption|eapply tokens_nonneg; eassumption|rewrite TL; assumption|rewrite TL; assumption].
      apply token_excess_sound; [assumption| |].
      * apply zeros_all; [rewrite Z0; lra|]. eapply upper_all; [eassumption|exact Gb|assumption|apply Gb].
      * eapply lower_all; [eassumption|exact Gn|assumption|apply Gn].
Qed.

(** What [check_rows] says of each row, and of each pair. *)
Lemma rows_sound : forall c rest f d, (0 <= f)%Z -> check_row c f d = true -> check_rows c f d rest = true ->
  (forall k r, nth_error (d :: rest) k = Some r -> good_row c (Z.to_nat f + k) r) /\
  (forall k r s, nth_error (d :: rest) k = Some r -> nth_error (d :: rest) (S k) = Some s -> check_pair c r s = true).
Proof.
  intros c rest. induction rest as [|e rest IH]; intros f d Hf R H.
  - split.
    + intros [|[|k]] r Hr; simpl in Hr; try discriminate. injection Hr as <-.
      rewrite Nat.add_0_r. apply good_row_of; assumption.
    + intros k r s Hr Hs. simpl in Hs. destruct k; discriminate.
  - cbn [check_rows] in H. rewrite !andb_true_iff in H. destruct H as ((H1 & H2) & H3).
    destruct (IH (f + 1)%Z e ltac:(lia) H1 H3) as [A B]. split.
    + intros [|k] r Hr.
      * injection Hr as <-. rewrite Nat.add_0_r. apply good_row_of; assumption.
      * specialize (A k r Hr). replace (Z.to_nat f + S k)%nat with (Z.to_nat (f + 1) + k)%nat by lia. assumption.
    + intros [|k] r s Hr Hs.
      * injection Hr as <-. injection Hs as <-. assumption.
      * exact (B k r s Hr Hs).
Qed.

Lemma span_sound : forall c s, check_span c s = true ->
  (forall k r, nth_error (rows s) k = Some r -> good_row c (Z.to_nat (first s) + k) r) /\
  (forall k r t, nth_error (rows s) k = Some r -> nth_error (rows s) (S k) = Some t -> check_pair c r t = true).
Proof.
  intros c s H. unfold check_span in H. destruct (rows s) as [|d rest].
  - split; intros [|k]; discriminate.
  - rewrite !andb_true_iff, Z.leb_le in H. destruct H as ((H1 & H2) & H3). apply rows_sound; assumption.
Qed.

(** ** Theorems *)

(** Neighbouring rows of a certificate that passes: one key changes from one to the other, and all other keys draw
    from any rows. *)
Theorem checked_pairs_are_private :
  forall c s k before now E p q others_before others_after T,
  check c = true -> In s (spans c) ->
  nth_error (rows s) k = Some before -> nth_error (rows s) (S k) = Some now ->
  at_least_exp (epsilon c) E -> within c before p -> within c now q ->
  Forall law others_before -> Forall law others_after ->
  let i := (Z.to_nat (first s) + k)%nat in
  let less := others_before ++ row_of c i before p :: others_after in
  let more := others_before ++ row_of c (S i) now q :: others_after in
  law (row_of c i before p) /\ law (row_of c (S i) now q) /\
  release less T <= E * release more T + delta c /\
  release more T <= E * release less T + delta c.
Proof.
  intros c s k before now E p q ob oa T H Hs Hb Hn HE Wb Wn Lb La i less more.
  unfold check in H. rewrite !andb_true_iff, forallb_forall in H. destruct H as ((H1 & H2) & _).
  assert (N := numbers_of c E H1 HE). destruct (span_sound c s (H2 s Hs)) as [A B].
  assert (Gb := A k before Hb). assert (Gn := A (S k) now Hn).
  replace (Z.to_nat (first s) + S k)%nat with (S i) in Gn by (unfold i; lia). fold i in Gb.
  destruct (pair_sound c E i before now p q N Gb Gn Wb Wn (B k before now Hb Hn)) as [Up Down].
  assert (law (row_of c i before p)) by (eapply row_is_law; eassumption).
  assert (law (row_of c (S i) now q)) by (eapply row_is_law; eassumption).
  assert (0 <= E) by (destruct N as [[? ?] _ _ _ _ _]; lra).
  repeat split; try apply H; try apply H0; apply one_key_changes; assumption.
Qed.

(** A certificate of all frequencies: the whole scheme is private, for whole datasets. *)
Theorem complete_certificates_are_private :
  forall c E q,
  check c = true -> repeats c = true -> at_least_exp (epsilon c) E ->
  (forall i, within c (data c i) (q i)) ->
  (forall i, law (scheme_of c q i)) /\ private E (delta c) (scheme_of c q).
Proof.
  intros c E q H R HE W. unfold check in H. rewrite R, !andb_true_iff in H. destruct H as ((H1 & H2) & H3).
  assert (N := numbers_of c E H1 HE). unfold check_repeats in H3.
  assert (K : exists s, spans c = [s] /\ first s = 0%Z /\ rows s <> [] /\
              check_pair c (last (rows s) nothing) (last (rows s) nothing) = true).
  { destruct (spans c) as [|s [|]]; try discriminate. destruct (rows s) eqn:Er; try discriminate.
    rewrite andb_true_iff, Z.eqb_eq in H3. exists s. rewrite Er. repeat split; try apply H3. discriminate. }
  clear H3. destruct K as (s & Hs & Hf & Hne & Hp). rewrite Hs in H2. simpl in H2. rewrite andb_true_r in H2.
  destruct (span_sound c s H2) as [A B]. rewrite Hf in A. simpl in A.
  assert (D : forall i, data c i = nth i (rows s) (last (rows s) nothing)) by (intros; unfold data; rewrite Hs; reflexivity).
  assert (Last : nth_error (rows s) (length (rows s) - 1) = Some (last (rows s) nothing)).
  { clear - Hne. induction (rows s) as [|a [|b l] IH]; [congruence|reflexivity|].
    replace (length (a :: b :: l) - 1)%nat with (S (length (b :: l) - 1))%nat by (simpl; lia).
    apply IH. discriminate. }
  assert (Pos : (0 < length (rows s))%nat) by (destruct (rows s); [congruence|simpl; lia]).
  assert (Beyond : forall i, (length (rows s) - 1 <= i)%nat -> data c i = last (rows s) nothing).
  { intros i Hi. rewrite D. destruct (Nat.eq_dec i (length (rows s) - 1)) as [->|].
    - apply nth_error_nth. assumption.
    - apply nth_overflow. lia. }
  assert (G : forall i, good_row c i (data c i)).
  { intros i. destruct (le_lt_dec (length (rows s)) i).
    - rewrite Beyond by lia. apply (good_row_later c (length (rows s) - 1)); [lia|]. apply A. assumption.
    - apply A. rewrite D. apply nth_error_nth'. assumption. }
  assert (P : forall i, check_pair c (data c i) (data c (S i)) = true).
  { intros i. destruct (le_lt_dec (length (rows s)) (S i)).
    - rewrite !Beyond by lia. assumption.
    - apply (B i); rewrite D; apply nth_error_nth'; lia. }
  assert (Laws : forall i, law (scheme_of c q i)) by (intros i; eapply row_is_law; [exact N|apply G|apply W]).
  split; [assumption|].
  apply private_iff_neighbouring_rows; [destruct N as [[? ?] _ _ _ _ _]; lra|assumption|].
  intros i. apply (pair_sound c E i); auto.
Qed.
