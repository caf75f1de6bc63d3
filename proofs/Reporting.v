(** * The largest reporting probabilities

    docs/theory.md, section 2.  In words:

    Let q_1 <= q_2 <= ... be the probabilities of being sampled, and

        pi_0 = 0,   pi_(i+1) = min( q_(i+1),  E pi_i + delta,  1 - (1 - pi_i - delta) / E ).

    - In every private scheme that never reports frequency 0, and reports what was
      sampled alone, a key of frequency i is reported with probability pi_i at
      most, for every i [no_private_scheme_reports_more].
    - There is a private scheme that reports each frequency i with probability
      pi_i [reporting_pi_is_private]; it has no tokens.  TailMap.v has one with
      tokens. *)

From Coq Require Import QArith Qminmax Lqa List Arith.
From DPSample Require Import Rows.
Import ListNotations.
Open Scope Q_scope.

(** ** Definitions *)

(** The probability of being reported, by any token: of every outcome but the first. *)
Definition reported (r : row) : Q := prob r (fun j => negb (j =? 0)%nat).

Section Scheme.
Variables (E delta : Q) (q : nat -> Q).

(** How far one step may go from p. *)
Definition grow (p : Q) : Q := E * p + delta.
Definition shrink (p : Q) : Q := 1 - (1 - p - delta) / E.

Fixpoint pi (i : nat) : Q :=
  match i with
  | O => 0
  | S j => Qmin (q i) (Qmin (grow (pi j)) (shrink (pi j)))
  end.

(** ** Proofs *)

Hypothesis E_least : 1 <= E.
Hypothesis delta_nonneg : 0 <= delta.

Lemma le_shrink : forall x p, x <= shrink p <-> 1 - p <= E * (1 - x) + delta.
Proof.
  intros x p. unfold shrink. assert (I : (1 - p - delta) / E * E == 1 - p - delta) by (field; lra).
  set (z := (1 - p - delta) / E) in *. split; intros H; nra.
Qed.

Lemma pi_step : forall i, pi (S i) <= q (S i) /\ pi (S i) <= grow (pi i) /\ pi (S i) <= shrink (pi i).
Proof.
  intros i. cbn [pi]. set (a := grow (pi i)). set (b := shrink (pi i)).
  assert (H := Q.le_min_l (q (S i)) (Qmin a b)). assert (K := Q.le_min_r (q (S i)) (Qmin a b)).
  assert (L := Q.le_min_l a b). assert (M := Q.le_min_r a b). repeat split; lra.
Qed.

Section Sampled.
Hypothesis q_range : forall i, 0 <= q i <= 1.
Hypothesis q_ascending : forall i, q i <= q (S i).

Lemma pi_range : forall i, 0 <= pi i <= 1 /\ pi i <= q i.
Proof.
  induction i as [|i IH]; [cbn [pi]; assert (H := q_range 0); lra|].
  destruct (pi_step i) as (A & _ & _). assert (H := q_range (S i)). repeat split; try lra.
  cbn [pi]. apply Q.min_glb; [lra|apply Q.min_glb].
  - unfold grow. nra.
  - apply le_shrink. nra.
Qed.

Lemma pi_ascending : forall i, pi i <= pi (S i).
Proof.
  intros i. destruct (pi_range i) as [R L]. cbn [pi]. apply Q.min_glb; [|apply Q.min_glb].
  - assert (H := q_ascending i). lra.
  - unfold grow. nra.
  - apply le_shrink. nra.
Qed.
End Sampled.

Lemma not_reported : forall r, law r -> prob r (fun j => (j =? 0)%nat) == 1 - reported r.
Proof.
  intros r [_ S]. unfold reported, prob.
  assert (mean r (fun j => if (j =? 0)%nat then 1 else 0) + mean r (fun j => if negb (j =? 0)%nat then 1 else 0)
          == mean r (fun _ => 1)); [|lra].
  clear S. destruct r as [|p r]; [reflexivity|]. cbn [mean Nat.eqb negb].
  rewrite mean_0. ring.
Qed.

(** ** Theorems *)

Theorem no_private_scheme_reports_more : forall P : scheme,
  (forall i, law (P i)) -> private E delta P ->
  reported (P 0%nat) <= 0 -> (forall i, reported (P i) <= q i) ->
  forall i, reported (P i) <= pi i.
Proof.
  intros P L H H0 Hq i. assert (HE : 0 <= E) by lra.
  assert (Rows := proj1 (private_iff_neighbouring_rows E delta P HE L) H).
  induction i as [|i IH]; [exact H0|].
  destruct (Rows i) as [Up Down].
  assert (A := proj2 (every_set_iff_excess E delta (P (S i)) (P i) HE (proj1 (L i))) Up (fun j => negb (j =? 0)%nat)).
  assert (B := proj2 (every_set_iff_excess E delta (P i) (P (S i)) HE (proj1 (L (S i)))) Down (fun j => (j =? 0)%nat)).
  fold (reported (P i)) in A. fold (reported (P (S i))) in A.
  rewrite !not_reported in B by apply L.
  cbn [pi]. apply Q.min_glb; [apply Hq|apply Q.min_glb].
  - unfold grow. nra.
  - apply le_shrink. lra.
Qed.

(** Keys alone: "not reported", or reported. *)
Definition keys_only : scheme := fun i => [1 - pi i; pi i].

Theorem reporting_pi_is_private :
  (forall i, 0 <= q i <= 1) -> (forall i, q i <= q (S i)) ->
  (forall i, law (keys_only i)) /\ private E delta keys_only /\ forall i, reported (keys_only i) == pi i.
Proof.
  intros R A. assert (Range := pi_range R).
  assert (Laws : forall i, law (keys_only i)).
  { intros i. destruct (Range i) as [? _]. split; [repeat constructor; lra|]. unfold keys_only. simpl. ring. }
  split; [exact Laws|]. split.
  - apply private_iff_neighbouring_rows; [lra|exact Laws|]. intros i.
    assert (Up := pi_ascending R A i). destruct (pi_step i) as (_ & G & S).
    apply le_shrink in S. unfold grow in G. destruct (Range i) as [? _]. destruct (Range (Datatypes.S i)) as [? _].
    unfold keys_only. cbn [excess].
    set (p := pi i) in *. set (P := pi (Datatypes.S i)) in *. split.
    + assert (positive_part (1 - P - E * (1 - p)) <= 0) by (apply positive_part_le; nra).
      assert (positive_part (P - E * p) <= delta) by (apply positive_part_le; lra). lra.
    + assert (positive_part (1 - p - E * (1 - P)) <= delta) by (apply positive_part_le; lra).
      assert (positive_part (p - E * P) <= 0) by (apply positive_part_le; nra). lra.
  - intros i. unfold reported, prob, keys_only. simpl. ring.
Qed.
End Scheme.
