(** * Rounding keeps the inequality

    docs/theory.md, section 5: the lemma by which certificates of sampled schemes
    cover every frequency.  In words:

    The rows that tokens are drawn from follow the tail map in integers.  Let
    every step of pi be private, in integers ([allowed]), let pi be at most the
    lower bound of q, and let the bounds of q be at most G units apart.  Then every
    two neighbouring rows spend at most

        D + N (3 + 2 e) + (e + 1) (G + 5)     units,

    where D is the delta that the rows are built with, e the bound of exp(epsilon),
    and N a number of tokens that no row exceeds.  If that is at most delta, the
    whole scheme is (e, delta)-private [rounding_is_private].

    Not proved here: the bound of N that section 5 derives (part c of its proof),
    and that pi takes such steps, which `scheme/lemma.py` checks. *)

From Coq Require Import ZArith QArith Qminmax Lqa Lia List Arith Bool.
From DPSample Require Import Rows Checker.
Import ListNotations.
Open Scope Z_scope.

(** ** Definitions: the integers of `scheme/integer.py` and `scheme/reporting.py` *)

Section Rounding.

(** exp(epsilon) is at least E / R, and 1 / e at most I / R.  Probabilities are in units of 1 / one.  D is delta, a
    little less than asked for.  A division rounds down. *)
Variables (E I R one D : Z) (grid : nat).

(** How far one step of pi may go: `Reporting.advance`. *)
Definition grow (p : Z) : Z := E * p / R + D.
Definition allowed (p : Z) : Z :=
  if one <=? p + D then Z.min (grow p) one else Z.min (grow p) (one - (one - p - D) * I / R - 1).

(** One step of a tail t, while pi goes from p to P: `advance` of `integer.py`. *)
Definition from_one (p P : Z) : bool := one - P - (one - p - D) * I / R <? D * I / R.
Definition start (p P : Z) : Z := if from_one p P then one - D else p - D.
Definition top (p P : Z) : Z := if from_one p P then one - 1 else P - 1.
Definition shrink (p P t : Z) : Z := top p P - (start p P - t) * I / R.
Definition switch (p P : Z) : Z := (top p P - D - start p P * I / R) * R / (E - I).
Definition M (p P t : Z) : Z := if t <=? switch p P then grow t else shrink p P t.

(** All tails of a row, up to the first one that reaches P. *)
Fixpoint old_tails (p P : Z) (tails : list Z) : list Z :=
  match tails with
  | [] => []
  | t :: rest => if P <=? M p P t then [P] else M p P t :: old_tails p P rest
  end.

(** Those of new tokens, over which min(D, P) is spread evenly. *)
Definition new_tails (P : Z) : list Z := map (fun k => Z.of_nat k * Z.min D P / Z.of_nat grid) (seq 0 grid).

Variable pi : nat -> Z.

Fixpoint tails (i : nat) : list Z :=
  match i with
  | O => [0]
  | S j => new_tails (pi i) ++ old_tails (pi j) (pi i) (tails j)
  end.

(** The cuts of a row: tails, divided by the upper bound of q. *)
Variables (low high : nat -> Z).

Definition cuts_of (i : nat) : list Z := map (fun t => t * one / high i) (tl (tails i)).

(** The row of frequency i for a key that is sampled with probability q, as in [Checker.row_of]. *)
Definition row_at (i : nat) (q : Q) : row :=
  ((1 - q * frac (last (cuts_of i) 0%Z) one)
    :: rev (map (fun m => q * frac m one) (masses 0%Z (cuts_of i)) ++ repeat 0 (i * grid - length (cuts_of i))))%Q.

(** ** Proofs *)

Hypothesis R_pos : 0 < R.
Hypothesis E_least : R <= E.
Hypothesis I_range : 0 < I < R.
Hypothesis I_least : R * R <= E * I.
Hypothesis D_range : 2 <= D < one.
Hypothesis grid_range : (1 <= grid)%nat /\ Z.of_nat grid <= D.

Lemma div_spec : forall a b, 0 < b -> b * (a / b) <= a < b * (a / b) + b.
Proof. intros a b H. assert (A := Z.div_mod a b ltac:(lia)). assert (B := Z.mod_pos_bound a b H). lia. Qed.

Section Step.
Variables p P : Z.
Hypothesis p_range : 0 <= p <= one.
Hypothesis P_range : p <= P <= one.

Notation M := (M p P).
Notation shrink := (shrink p P).
Notation switch := (switch p P).
Notation start := (start p P).
Notation top := (top p P).

Lemma grow_spec : forall t, E * t + R * D - R < R * grow t <= E * t + R * D.
Proof. intros t. unfold grow. assert (H := div_spec (E * t) R R_pos). lia. Qed.

Lemma shrink_spec : forall t, R * top - I * (start - t) <= R * shrink t < R * top - I * (start - t) + R.
Proof. intros t. unfold Rounding.shrink. assert (H := div_spec ((start - t) * I) R R_pos). lia. Qed.

Lemma switch_spec : (E - I) * switch <= (top - D - start * I / R) * R < (E - I) * switch + (E - I).
Proof. apply div_spec. lia. Qed.

Lemma grows_below : forall t, t <= switch -> grow t <= shrink t.
Proof.
  intros t H. assert (S := switch_spec). assert (G := grow_spec t). assert (K := shrink_spec t).
  assert (Z := div_spec (start * I) R R_pos). unfold Rounding.shrink in *.
  assert (Y := div_spec ((start - t) * I) R R_pos).
  assert ((E - I) * t <= (E - I) * switch) by nia.
  set (y := (start - t) * I / R) in *. set (z := start * I / R) in *. set (x := grow t) in *.
  assert (R * (x + y) < R * top + R) by nia. nia.
Qed.

Lemma shrinks_above : forall t, switch < t -> R * shrink t < E * t + R * D + R.
Proof.
  intros t H. assert (S := switch_spec). assert (K := shrink_spec t).
  assert (Z := div_spec (start * I) R R_pos).
  assert ((E - I) * switch + (E - I) <= (E - I) * t) by nia.
  set (z := start * I / R) in *. nia.
Qed.

Lemma M_cases : forall t, (t <= switch /\ M t = grow t) \/ (switch < t /\ M t = shrink t).
Proof. intros t. unfold Rounding.M. destruct (Z.leb_spec t switch); [left|right]; split; auto. Qed.

(** (a) M and its terms. *)
Lemma M_shrinks : forall t, R * M t < R * top - I * (start - t) + R.
Proof.
  intros t. assert (K := shrink_spec t). destruct (M_cases t) as [[H ->]|[_ ->]]; [|lia].
  assert (G := grows_below t H). nia.
Qed.

Lemma M_grows : forall t, R * M t < E * t + R * D + R.
Proof.
  intros t. destruct (M_cases t) as [[_ ->]|[H ->]]; [|apply shrinks_above; assumption].
  assert (G := grow_spec t). lia.
Qed.

Lemma M_most : forall s t, s <= t -> R * (M t - M s) <= E * (t - s) + 2 * R.
Proof.
  intros s t H. assert (G := grow_spec s). assert (K := shrink_spec s). assert (L := shrink_spec t). assert (N := M_grows t).
  assert (I * (t - s) <= E * (t - s)) by nia.
  destruct (M_cases s) as [[A B]|[A B]]; rewrite B.
  - lia.
  - destruct (M_cases t) as [[C F]|[C F]]; [lia|]. rewrite F. lia.
Qed.

Lemma M_least : forall s t, s <= t -> I * (t - s) - R < R * (M t - M s).
Proof.
  intros s t H. assert (K := shrink_spec s). assert (L := shrink_spec t).
  assert (I * (t - s) <= E * (t - s)) by nia.
  destruct (M_cases s) as [[A ->]|[A ->]]; destruct (M_cases t) as [[C ->]|[C ->]].
  - assert (G := grow_spec s). assert (G' := grow_spec t). lia.
  - assert (G := grows_below s A). assert (R * grow s <= R * shrink s) by nia. lia.
  - lia.
  - lia.
Qed.

Lemma M_ascending : forall s t, s <= t -> M s <= M t.
Proof. intros s t H. assert (K := M_least s t H). nia. Qed.

Lemma M_stays : forall t, 0 <= t <= p -> t <= M t \/ P <= M t.
Proof.
  intros t H. assert (G := grow_spec t). destruct (M_cases t) as [[_ ->]|[_ ->]].
  - left. assert (R * t <= E * t) by nia. nia.
  - unfold Rounding.shrink, Rounding.top, Rounding.start. destruct (from_one p P).
    + assert (Y := div_spec ((one - D - t) * I) R R_pos). set (y := (one - D - t) * I / R) in *.
      destruct (Z.lt_ge_cases (one - D - t) 0).
      * right. assert (y < 0) by nia. lia.
      * left. assert (R * y <= R * (one - D - t)) by nia. assert (y <= one - D - t) by nia. lia.
    + assert (Y := div_spec ((p - D - t) * I) R R_pos). set (y := (p - D - t) * I / R) in *.
      destruct (Z.lt_ge_cases (p - D - t) 0).
      * right. assert (y < 0) by nia. lia.
      * left. assert (R * y <= R * (p - D - t)) by nia. assert (y <= p - D - t) by nia. lia.
Qed.

Lemma M_new : D - 1 <= M 0 \/ P <= M 0.
Proof.
  assert (G := grow_spec 0). destruct (M_cases 0) as [[_ ->]|[_ ->]].
  - left. unfold grow. rewrite Z.mul_0_r, Z.div_0_l; lia.
  - unfold Rounding.shrink, Rounding.top, Rounding.start. rewrite !Z.sub_0_r. destruct (from_one p P).
    + left. assert (Y := div_spec ((one - D) * I) R R_pos). set (y := (one - D) * I / R) in *.
      assert (R * y <= R * (one - D)) by nia. nia.
    + assert (Y := div_spec ((p - D) * I) R R_pos). set (y := (p - D) * I / R) in *.
      destruct (Z.lt_ge_cases (p - D) 0).
      * right. assert (y < 0) by nia. lia.
      * left. assert (R * y <= R * (p - D)) by nia. assert (y <= p - D) by nia. lia.
Qed.

(** (b) All of pi is used, up to one unit where it is certainty. *)
Definition used (v t : Z) : Prop := t = v \/ (v = one /\ t = one - 1).

Lemma all_is_used : P <= allowed p -> forall t, used p t -> used P (Z.min P (M t)).
Proof.
  intros A t U. assert (G := grow_spec t).
  assert (Grow : p = t -> P <= grow t).
  { intros <-. unfold allowed in A. destruct (one <=? p + D); lia. }
  destruct U as [->|[Hp ->]].
  - destruct (M_cases p) as [[_ ->]|[_ ->]]; [left; specialize (Grow eq_refl); lia|].
    unfold allowed in A. unfold Rounding.shrink, Rounding.top, Rounding.start. destruct (from_one p P).
    + replace ((one - D - p) * I) with ((one - p - D) * I) by lia.
      destruct (Z.leb_spec one (p + D)); [|left; lia].
      assert (Y := div_spec ((one - p - D) * I) R R_pos). set (y := (one - p - D) * I / R) in *.
      assert (y <= 0) by nia. unfold used. lia.
    + left. assert (Y := div_spec ((p - D - p) * I) R R_pos). set (y := (p - D - p) * I / R) in *.
      assert (y < 0) by nia. lia.
  - left. assert (HP : P = one) by lia.
    assert (one <= M (one - 1)); [|lia].
    destruct (M_cases (one - 1)) as [[_ ->]|[_ ->]].
    + assert (R * (one - 1) <= E * (one - 1)) by nia. nia.
    + assert (Case : from_one p P = false).
      { unfold from_one. apply Z.ltb_ge. rewrite Hp, HP. replace (one - one - D) with (- D) by lia.
        assert (Y := div_spec (- D * I) R R_pos). assert (X := div_spec (D * I) R R_pos). nia. }
      unfold Rounding.shrink, Rounding.top, Rounding.start. rewrite Case, Hp, HP.
      assert (Y := div_spec ((one - D - (one - 1)) * I) R R_pos). set (y := (one - D - (one - 1)) * I / R) in *.
      assert (y < 0) by nia. lia.
Qed.
End Step.
End Rounding.
