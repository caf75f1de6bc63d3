(** * Privacy is about neighbouring rows

    docs/theory.md, section 1.  In words:

    A scheme gives each frequency i a row: the probability of "not reported" and
    of each token.  Each key draws from the row of its frequency, independently
    of all others.  Then these two say the same:

    - For every two datasets that differ in one element, and for every set T of
      outputs, Pr[T] <= E Pr'[T] + delta, both ways round.
    - For every i, the sum over outcomes of max(0, P_(i+1) - E P_i), and that of
      max(0, P_i - E P_(i+1)), are at most delta.

    Numbers are rational.  E stands for any rational bound of exp(epsilon) from
    below: what holds with a smaller E holds with exp(epsilon). *)

From Coq Require Import QArith Lqa List Arith.
Import ListNotations.
Open Scope Q_scope.

(** ** Definitions *)

(** A row lists the probability of each outcome: first that of "not reported",
    then that of token 1, 2, 3 and so on.  Outcomes beyond the end of the list
    have probability 0. *)
Definition row := list Q.

(** The mean of a function of the outcome. *)
Fixpoint mean (r : row) (f : nat -> Q) : Q :=
  match r with
  | [] => 0
  | p :: rest => p * f 0%nat + mean rest (fun j => f (S j))
  end.

(** The probability of a set of outcomes. *)
Definition prob (r : row) (A : nat -> bool) : Q := mean r (fun j => if A j then 1 else 0).

Definition nonnegative (r : row) : Prop := Forall (fun p => 0 <= p) r.

(** A law: no probability is negative, and they sum to 1. *)
Definition law (r : row) : Prop := nonnegative r /\ mean r (fun _ => 1) == 1.

Definition positive_part (x : Q) : Q := if Qle_bool x 0 then 0 else x.

(** The sum over outcomes of max(0, r - E s). *)
Fixpoint excess (E : Q) (r s : row) : Q :=
  match r, s with
  | [], _ => 0
  | p :: r', [] => positive_part p + excess E r' []
  | p :: r', t :: s' => positive_part (p - E * t) + excess E r' s'
  end.

(** What a release shows is the outcome of each key: a list.  Keys draw
    independently, the first from the first row, and so on.  This is the
    probability that the release is in the set T. *)
Fixpoint release (rows : list row) (T : list nat -> bool) : Q :=
  match rows with
  | [] => if T [] then 1 else 0
  | r :: rest => mean r (fun j => release rest (fun others => T (j :: others)))
  end.

(** A scheme has a row for each frequency.  A dataset is the frequency of each
    key that there could be; a key that does not occur has frequency 0. *)
Definition scheme := nat -> row.
Definition dataset := list nat.

(** The second dataset has one element more than the first, of any one key. *)
Inductive one_more : dataset -> dataset -> Prop :=
  | this_key : forall i others, one_more (i :: others) (S i :: others)
  | a_later_key : forall i D D', one_more D D' -> one_more (i :: D) (i :: D').

(** (epsilon, delta)-differential privacy, with E for exp(epsilon). *)
Definition private (E delta : Q) (P : scheme) : Prop :=
  forall D D', one_more D D' -> forall T,
    release (map P D) T <= E * release (map P D') T + delta /\
    release (map P D') T <= E * release (map P D) T + delta.

(** ** Proofs *)

Lemma mean_ext : forall r f g, (forall j, f j == g j) -> mean r f == mean r g.
Proof.
  induction r as [|p r IH]; intros f g H; simpl; [reflexivity|].
  rewrite (H 0%nat), (IH _ (fun j => g (S j))); [reflexivity|]. intros; apply H.
Qed.

Lemma mean_le : forall r f g, nonnegative r -> (forall j, f j <= g j) -> mean r f <= mean r g.
Proof.
  induction r as [|p r IH]; intros f g N H; simpl; [lra|].
  inversion_clear N. specialize (IH (fun j => f (S j)) (fun j => g (S j)) H1 (fun j => H (S j))).
  specialize (H 0%nat). simpl in H. assert (p * f 0%nat <= p * g 0%nat) by nra. lra.
Qed.

Lemma mean_affine : forall r a b f, mean r (fun j => a * f j + b) == a * mean r f + b * mean r (fun _ => 1).
Proof.
  induction r as [|p r IH]; intros a b f; simpl; [ring|]. rewrite (IH a b (fun j => f (S j))). ring.
Qed.

Lemma mean_0 : forall r, mean r (fun _ => 0) == 0.
Proof. induction r as [|p r IH]; simpl; [reflexivity|]. rewrite IH. ring. Qed.

Lemma positive_part_max : forall x, 0 <= positive_part x /\ x <= positive_part x.
Proof.
  intros x. unfold positive_part. destruct (Qle_bool x 0) eqn:H.
  - apply Qle_bool_iff in H. lra.
  - assert (~ x <= 0) by (intros C; apply Qle_bool_iff in C; congruence). lra.
Qed.

Lemma positive_part_le : forall x y, 0 <= y -> x <= y -> positive_part x <= y.
Proof. intros x y H1 H2. unfold positive_part. destruct (Qle_bool x 0); lra. Qed.

Lemma excess_nonneg : forall E r s, 0 <= excess E r s.
Proof.
  intros E. induction r as [|p r IH]; intros s; simpl; [lra|].
  destruct s as [|t s].
  - destruct (positive_part_max p). specialize (IH []). lra.
  - destruct (positive_part_max (p - E * t)). specialize (IH s). lra.
Qed.

Lemma excess_app : forall E r s r' s', length r = length s ->
  excess E (r ++ r') (s ++ s') == excess E r s + excess E r' s'.
Proof.
  intros E r. induction r as [|p r IH]; intros s r' s' H; destruct s as [|t s]; try discriminate; simpl.
  - ring.
  - rewrite IH by (simpl in H; congruence). ring.
Qed.

(** No function of the outcome with values from 0 to 1 has a larger difference than the excess. *)
Lemma mean_excess : forall E r s f, 0 <= E -> nonnegative s ->
  (forall j, 0 <= f j <= 1) -> mean r f <= E * mean s f + excess E r s.
Proof.
  intros E r. induction r as [|p r IH]; intros s f HE N Hf; simpl.
  - assert (0 <= mean s f).
    { rewrite <- (mean_0 s). apply mean_le; [assumption|]. intros; apply Hf. }
    nra.
  - destruct (Hf 0%nat). destruct s as [|t s]; simpl.
    + specialize (IH [] (fun j => f (S j)) HE N (fun j => Hf (S j))). simpl in IH.
      destruct (positive_part_max p). nra.
    + inversion_clear N. specialize (IH s (fun j => f (S j)) HE H2 (fun j => Hf (S j))).
      destruct (positive_part_max (p - E * t)).
      assert ((p - E * t) * f 0%nat <= positive_part (p - E * t)) by nra. nra.
Qed.

Lemma release_range : forall rows T, Forall law rows -> 0 <= release rows T <= 1.
Proof.
  induction rows as [|r rows IH]; intros T L; simpl.
  - destruct (T []); lra.
  - inversion_clear L. destruct H as [N S]. split.
    + rewrite <- (mean_0 r). apply mean_le; [assumption|]. intros; apply IH; assumption.
    + rewrite <- S. apply mean_le; [assumption|]. intros; apply IH; assumption.
Qed.

(** One key changes its row; the others keep theirs. *)
Lemma one_key_changes : forall E delta before r s after T,
  0 <= E -> Forall law before -> law s -> Forall law after -> excess E r s <= delta ->
  release (before ++ r :: after) T <= E * release (before ++ s :: after) T + delta.
Proof.
  intros E delta before r s after T HE Hb Hs Ha Hd. revert T.
  induction before as [|b before IH]; intros T; simpl.
  - apply Qle_trans with (E * mean s (fun j => release after (fun o => T (j :: o))) + excess E r s); [|lra].
    apply mean_excess; [assumption|apply Hs|]. intros; apply release_range; assumption.
  - inversion_clear Hb. destruct H as [N S].
    apply Qle_trans with (mean b (fun j => E * release (before ++ s :: after) (fun o => T (j :: o)) + delta)).
    + apply mean_le; [assumption|]. intros. apply IH. assumption.
    + rewrite mean_affine, S. lra.
Qed.

(** The set at which the excess is attained. *)
Fixpoint above (E : Q) (r s : row) : nat -> bool :=
  match r, s with
  | [], _ => fun _ => false
  | p :: r', [] => fun j => match j with O => negb (Qle_bool p 0) | S k => above E r' [] k end
  | p :: r', t :: s' => fun j => match j with O => negb (Qle_bool (p - E * t) 0) | S k => above E r' s' k end
  end.

Lemma above_attains : forall E r s, prob r (above E r s) == E * prob s (above E r s) + excess E r s.
Proof.
  intros E. unfold prob. induction r as [|p r IH]; intros s; simpl.
  - rewrite mean_0. ring.
  - destruct s as [|t s]; simpl.
    + specialize (IH []). simpl in IH. unfold positive_part. destruct (Qle_bool p 0); simpl; lra.
    + specialize (IH s). unfold positive_part. destruct (Qle_bool (p - E * t) 0); simpl; lra.
Qed.

(** ** Theorems *)

(** Two rows: the inequality for every set of outcomes is one test of a sum. *)
Theorem every_set_iff_excess : forall E delta r s, 0 <= E -> nonnegative s ->
  ((forall A, prob r A <= E * prob s A + delta) <-> excess E r s <= delta).
Proof.
  intros E delta r s HE N. split.
  - intros H. specialize (H (above E r s)). rewrite above_attains in H. lra.
  - intros H A. apply Qle_trans with (E * prob s A + excess E r s); [|lra].
    apply mean_excess; try assumption. intros j. destruct (A j); lra.
Qed.

(** Whole releases: privacy is about neighbouring rows alone. *)
Theorem private_iff_neighbouring_rows : forall E delta P, 0 <= E -> (forall i, law (P i)) ->
  (private E delta P <->
   forall i, excess E (P (S i)) (P i) <= delta /\ excess E (P i) (P (S i)) <= delta).
Proof.
  intros E delta P HE L. split.
  - intros H i.
    assert (K : forall A, prob (P i) A <= E * prob (P (S i)) A + delta /\
                          prob (P (S i)) A <= E * prob (P i) A + delta).
    { intros A. specialize (H [i] [S i] (this_key i [])
        (fun o => match o with [j] => A j | _ => false end)).
      exact H. }
    split; apply every_set_iff_excess; try assumption; try apply L; intros A; apply K.
  - intros H D D' N.
    assert (F : forall D, Forall law (map P D)).
    { intros X. apply Forall_forall. intros r I. apply in_map_iff in I. destruct I as [i [<- _]]. apply L. }
    assert (exists before i after, D = before ++ i :: after /\ D' = before ++ S i :: after) as (b & i & a & -> & ->).
    { clear F. induction N as [i others|j D D' N (b & i & a & -> & ->)].
      - exists [], i, others. split; reflexivity.
      - exists (j :: b), i, a. split; reflexivity. }
    intros T. rewrite !map_app. simpl map. destruct (H i).
    split; apply one_key_changes; auto; apply L.
Qed.
