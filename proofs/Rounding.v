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

    Supports.v has the bound of N that section 5 derives (part c of its proof).  Not
    proved: that pi takes such steps, which `scheme/lemma.py` checks. *)

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

(** A list that begins with a: its differences after f, and whether it ascends. *)
Fixpoint steps (f : Z -> Q) (a : Z) (l : list Z) : list Q :=
  match l with
  | [] => []
  | b :: rest => (f b - f a)%Q :: steps f b rest
  end.

Fixpoint ascends (a : Z) (l : list Z) : Prop :=
  match l with
  | [] => True
  | b :: rest => a <= b /\ ascends b rest
  end.

Lemma last_next : forall (l : list Z) a b, last (b :: l) a = last l b.
Proof.
  induction l as [|c l IH]; intros a b; [reflexivity|]. change (last (c :: l) a = last (c :: l) b). rewrite !IH. reflexivity.
Qed.

Lemma last_app : forall (k l : list Z) a b, last (k ++ b :: l) a = last l b.
Proof.
  induction k as [|c k IH]; intros l a b; cbn [app]; [apply last_next|]. rewrite last_next. apply IH.
Qed.

Lemma ascends_last : forall l a, ascends a l -> a <= last l a.
Proof.
  induction l as [|b l IH]; intros a H; [simpl; lia|]. destruct H as [H K]. rewrite last_next. specialize (IH b K). lia.
Qed.

Lemma new_tail_small : forall g k m d y, 0 < g -> 0 <= k <= g - 1 -> 0 <= m <= d -> g <= d -> g * y <= k * m ->
  y <= m /\ y <= d - 1.
Proof. clear. intros g k m d y Hg Hk Hm Hd H. assert (k * m <= (g - 1) * m) by nia. split; nia. Qed.

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

(** The tails of old tokens, after the first of them. *)
Fixpoint old_rest (t : Z) (l : list Z) : list Z :=
  if P <=? M t then [] else
  match l with
  | [] => []
  | s :: rest => Z.min P (M s) :: old_rest s rest
  end.

Lemma old_tails_rest : forall l t, old_tails p P (t :: l) = Z.min P (M t) :: old_rest t l.
Proof.
  induction l as [|s l IH]; intros t.
  - simpl. destruct (Z.leb_spec P (M t)); [rewrite Z.min_l|rewrite Z.min_r]; auto; lia.
  - specialize (IH s). cbn [old_tails old_rest] in *. destruct (Z.leb_spec P (M t)).
    + rewrite Z.min_l by lia. reflexivity.
    + rewrite Z.min_r, IH by lia. reflexivity.
Qed.

Lemma old_rest_ascends : forall l t, ascends t l -> ascends (Z.min P (M t)) (old_rest t l).
Proof.
  induction l as [|s l IH]; intros t H; simpl; destruct (P <=? M t); simpl; auto.
  destruct H as [H K]. split; [|apply IH; assumption]. assert (N := M_ascending t s H). lia.
Qed.

Lemma old_rest_last : forall l t, ascends t l -> last (old_rest t l) (Z.min P (M t)) = Z.min P (M (last l t)).
Proof.
  induction l as [|s l IH]; intros t H.
  - simpl. destruct (P <=? M t); reflexivity.
  - assert (N := M_ascending t (last (s :: l) t) (ascends_last _ _ H)).
    cbn [old_rest]. destruct (Z.leb_spec P (M t)); [simpl last at 1; lia|].
    rewrite !last_next. apply IH. apply H.
Qed.

Lemma old_rest_length : forall l t, (length (old_rest t l) <= length l)%nat.
Proof.
  induction l as [|s l IH]; intros t; simpl; destruct (P <=? M t); simpl; try lia. specialize (IH s). lia.
Qed.

Open Scope Q_scope.

Definition e : Q := frac E R.
Definition inv : Q := frac I R.

Lemma e_least : 1 <= e.
Proof. unfold e. rewrite <- (frac_whole 1 R) by lia. rewrite Z.mul_1_l. apply frac_le; lia. Qed.

Lemma inv_range : 0 < inv <= 1.
Proof.
  unfold inv. split.
  - unfold frac. apply Qlt_shift_div_l; [apply inject_pos; lia|]. rewrite Qmult_0_l. apply inject_pos. lia.
  - rewrite <- (frac_whole 1 R) by lia. rewrite Z.mul_1_l. apply frac_le; lia.
Qed.

Lemma e_inv : 1 <= e * inv.
Proof.
  unfold e, inv. rewrite frac_mul by assumption. rewrite <- (frac_whole R R) by assumption. apply frac_le; nia.
Qed.

(** From integers over R to rational numbers. *)
Lemma over_most : forall k x y z, (R * x <= k * y + R * z)%Z -> inject_Z x <= frac k R * inject_Z y + inject_Z z.
Proof.
  intros k x y z H. rewrite Zle_Qle, inject_Z_plus, !inject_Z_mult in H.
  assert (P0 := inject_pos R R_pos). assert (K : frac k R * inject_Z R == inject_Z k) by (unfold frac; field; lra).
  set (r := inject_Z R) in *. set (f := frac k R) in *. rewrite <- K in H.
  apply (Qmult_le_l _ _ r P0). lra.
Qed.

Lemma over_least : forall k x y z, (k * y + R * z <= R * x)%Z -> frac k R * inject_Z y + inject_Z z <= inject_Z x.
Proof.
  intros k x y z H. rewrite Zle_Qle, inject_Z_plus, !inject_Z_mult in H.
  assert (P0 := inject_pos R R_pos). assert (K : frac k R * inject_Z R == inject_Z k) by (unfold frac; field; lra).
  set (r := inject_Z R) in *. set (f := frac k R) in *. rewrite <- K in H.
  apply (Qmult_le_l _ _ r P0). lra.
Qed.

(** Where the part that shrinks reaches P, and what is lost above it. *)
Definition end_ : Q := inject_Z start - (inject_Z top - inject_Z P) / inv.
Definition lost (t : Q) : Q := Qmax 0 (t - end_).

Lemma lost_bounds : forall t, 0 <= lost t /\ t - end_ <= lost t.
Proof. intros. unfold lost. split; [apply Q.le_max_l|apply Q.le_max_r]. Qed.

Lemma lost_lub : forall t x, 0 <= x -> t - end_ <= x -> lost t <= x.
Proof. intros. unfold lost. apply Q.max_lub; assumption. Qed.

Lemma lost_ascending : forall s t, s <= t -> lost s <= lost t.
Proof. intros s t H. destruct (lost_bounds t). apply lost_lub; lra. Qed.

Lemma M_end : forall t, inject_Z (M t) <= inject_Z P - inv * (end_ - inject_Z t) + 1.
Proof.
  intros t. assert (H := M_shrinks t).
  assert (K : inject_Z (M t) <= inv * inject_Z (t - start) + inject_Z (top + 1)) by (apply over_most; lia).
  rewrite inject_sub, inject_Z_plus in K. change (inject_Z 1) with 1 in K.
  assert (X : inv * end_ == inv * inject_Z start - (inject_Z top - inject_Z P)).
  { unfold end_. field. assert (A := inv_range). lra. }
  lra.
Qed.

(** One old token, from i to i - 1: what it loses. *)
Lemma token_loses : forall s t, (s <= t)%Z ->
  inject_Z t - inject_Z s - e * (inject_Z (Z.min P (M t)) - inject_Z (Z.min P (M s)))
  <= lost (inject_Z t) - lost (inject_Z s) + e.
Proof.
  intros s t H. assert (A := e_least). assert (B := inv_range). assert (C := e_inv).
  assert (Hq : inject_Z s <= inject_Z t) by (rewrite <- Zle_Qle; assumption).
  assert (L := lost_ascending _ _ Hq).
  destruct (lost_bounds (inject_Z s)) as [S0 S1]. destruct (lost_bounds (inject_Z t)) as [T0 T1].
  assert (Ms := M_end s). assert (N := M_ascending s t H).
  set (x := inject_Z s) in *. set (y := inject_Z t) in *.
  destruct (Z.le_gt_cases P (M s)).
  - (* both are cut off *)
    rewrite !Z.min_l by lia.
    assert (inject_Z P <= inject_Z (M s)) by (rewrite <- Zle_Qle; assumption).
    assert (F : inv * (end_ - x) <= 1) by lra.
    assert (G : end_ - x <= e) by nra.
    assert (lost x <= lost y - (y - x) + e); [|lra]. apply lost_lub; lra.
  - rewrite (Z.min_r P (M s)) by lia. destruct (Z.le_gt_cases P (M t)).
    + (* the larger one is cut off *)
      rewrite Z.min_l by lia.
      assert (D0 : 0 <= inject_Z P - inject_Z (M s)).
      { assert (inject_Z (M s) <= inject_Z P) by (rewrite <- Zle_Qle; lia). lra. }
      set (d := inject_Z P - inject_Z (M s)) in *.
      assert (F : inv * (end_ - x) - 1 <= d) by (unfold d; lra).
      assert (lost x <= lost y - (y - x) + e * d + e); [|lra]. apply lost_lub; [|nra].
      destruct (Qlt_le_dec end_ x).
      * nra.
      * assert (e * (inv * (end_ - x)) <= e * (d + 1)) by nra.
        assert (end_ - x <= e * inv * (end_ - x)) by nra. nra.
    + rewrite Z.min_r by lia.
      assert (F : inv * (y - x) - 1 <= inject_Z (M t) - inject_Z (M s)).
      { assert (K := M_least s t H).
        assert (J : inv * inject_Z (t - s) + inject_Z (-1) <= inject_Z (M t - M s)) by (apply over_least; lia).
        rewrite !inject_sub in J. change (inject_Z (-1)) with (-(1)) in J. unfold x, y. lra. }
      set (d := inject_Z (M t) - inject_Z (M s)) in *.
      assert (e * (inv * (y - x)) <= e * (d + 1)) by nra.
      assert (y - x <= e * inv * (y - x)) by nra. nra.
Qed.

Lemma token_gains : forall s t, (s <= t)%Z -> (M s < P)%Z ->
  0 <= inject_Z (Z.min P (M t)) - inject_Z (Z.min P (M s)) <= e * (inject_Z t - inject_Z s) + 2.
Proof.
  intros s t H L. assert (N := M_ascending s t H). assert (K := M_most s t H).
  rewrite (Z.min_r P (M s)) by lia.
  assert (J : inject_Z (M t - M s) <= e * inject_Z (t - s) + inject_Z 2) by (apply over_most; lia).
  rewrite !inject_sub in J. change (inject_Z 2) with 2 in J.
  assert (inject_Z (M s) <= inject_Z (Z.min P (M t)) <= inject_Z (M t)) by (split; rewrite <- Zle_Qle; lia). lra.
Qed.

(** What ends, and "not reported", have D together, and a few units. *)
Lemma lost_and_absent : (P <= allowed p)%Z ->
  lost (inject_Z p) + positive_part (inject_Z (one - p) - e * inject_Z (one - P)) <= inject_Z D + 2 * e.
Proof.
  intros A. assert (B := e_least). assert (C := inv_range). assert (F := e_inv).
  assert (D0 : 0 <= inject_Z D) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; lia).
  assert (a0 : 0 <= inject_Z (one - P)) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; lia).
  assert (X : inv * end_ == inv * inject_Z start - (inject_Z top - inject_Z P)).
  { unfold end_. field. lra. }
  assert (Y1 := div_spec ((one - p - D) * I) R R_pos). assert (Y2 := div_spec (D * I) R R_pos).
  assert (IE : inv * (e * inject_Z (one - P)) == e * inv * inject_Z (one - P)) by ring.
  unfold Rounding.start, Rounding.top in X. unfold allowed in A. destruct (from_one p P) eqn:Case; unfold from_one in Case.
  - apply Z.ltb_lt in Case.
    (* a' - a/I is between 0 and D *)
    set (y := ((one - p - D) * I / R)%Z) in *. set (z := (D * I / R)%Z) in *.
    assert (H1 : inject_Z (one - P) <= inv * inject_Z (one - p) + inject_Z 0) by (apply over_most; nia).
    assert (H2 : inv * inject_Z (one - p - D) <= inject_Z (one - P)).
    { destruct (Z.leb_spec one (p + D)).
      - assert (inject_Z (one - p - D) <= 0) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; lia). nra.
      - assert (inv * inject_Z (one - p - D) + inject_Z 0 <= inject_Z (one - P)) by (apply over_least; nia).
        change (inject_Z 0) with 0 in H0. lra. }
    change (inject_Z 0) with 0 in H1. rewrite ?inject_sub in *. change (inject_Z 1) with 1 in *.
    set (o := inject_Z one) in *. set (x := inject_Z p) in *. set (w := inject_Z P) in *. set (d := inject_Z D) in *.
    (* p - end <= D - (a' - a/I) *)
    assert (Q1 : inv * (x - end_) <= inv * d - (inv * (o - x) - (o - w))) by lra.
    set (gap := o - x - e * (o - w)).
    assert (Q2 : inv * gap <= inv * (o - x) - (o - w)) by (unfold gap; nra).
    assert (Q3 : x - end_ <= d - gap) by nra.
    assert (Q4 : gap <= d) by nra.
    assert (Q5 : x - end_ <= d) by nra.
    destruct (Qlt_le_dec 0 gap).
    + assert (positive_part (inject_Z (one - p) - e * inject_Z (one - P)) <= gap).
      { apply positive_part_le; [lra|]. rewrite !inject_sub. fold o x w. unfold gap. lra. }
      assert (lost x <= d - gap) by (apply lost_lub; lra). lra.
    + assert (positive_part (inject_Z (one - p) - e * inject_Z (one - P)) <= 0).
      { apply positive_part_le; [lra|]. rewrite !inject_sub. fold o x w. unfold gap in q. lra. }
      assert (lost x <= d) by (apply lost_lub; lra). lra.
  - apply Z.ltb_ge in Case.
    set (y := ((one - p - D) * I / R)%Z) in *. set (z := (D * I / R)%Z) in *.
    assert (H1 : inv * inject_Z (one - p) + inject_Z (-2) <= inject_Z (one - P)) by (apply over_least; nia).
    change (inject_Z (-2)) with (-(2)) in H1. rewrite ?inject_sub in *. change (inject_Z 1) with 1 in *.
    set (o := inject_Z one) in *. set (x := inject_Z p) in *. set (w := inject_Z P) in *. set (d := inject_Z D) in *.
    assert (Q1 : inv * (x - end_) <= inv * d) by lra.
    assert (Q5 : x - end_ <= d) by nra.
    assert (lost x <= d) by (apply lost_lub; lra).
    assert (positive_part (inject_Z (one - p) - e * inject_Z (one - P)) <= 2 * e); [|lra].
    apply positive_part_le; [lra|]. rewrite !inject_sub. fold o x w.
    assert (e * (inv * (o - x)) <= e * (o - w + 2)) by nra.
    assert (x0 : 0 <= o - x).
    { assert (0 <= inject_Z (one - p)) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; lia).
      rewrite inject_sub in H2. assumption. }
    nra.
Qed.
(** Rounded tails: u of the row before, v of this one, in units; rho is what division by the bound of q has left. *)
Variables (u v : Z -> Q) (rho0 rho1 : Q).
Hypothesis rho_range : 0 <= rho0 <= 1 /\ 0 <= rho1 <= 1.
Hypothesis u_range : forall t, (0 <= t)%Z -> rho0 * inject_Z t - 1 <= u t <= rho0 * inject_Z t.
Hypothesis v_range : forall t, (0 <= t)%Z -> rho1 * inject_Z t - 1 <= v t <= rho1 * inject_Z t.

Definition size (l : list Z) : Q := inject_Z (Z.of_nat (length l)).

Lemma size_next : forall (a : Z) l, size (a :: l) == size l + 1.
Proof. intros. unfold size. cbn [length]. rewrite Nat2Z.inj_succ. unfold Z.succ. rewrite inject_Z_plus. reflexivity. Qed.

Lemma size_nil : size [] == 0.
Proof. reflexivity. Qed.

Lemma size_nonneg : forall l, 0 <= size l.
Proof. intros. unfold size. change 0 with (inject_Z 0). rewrite <- Zle_Qle. lia. Qed.

Lemma M_nonneg : forall t, (0 <= t <= p)%Z -> (0 <= Z.min P (M t))%Z.
Proof. intros t H. destruct (M_stays t H); lia. Qed.

(** (e) Old tokens from i - 1 to i. *)
Lemma up_sum : forall l t, (0 <= t)%Z -> ascends t l -> (last l t <= p)%Z ->
  excess e (steps v (Z.min P (M t)) (old_rest t l)) (steps u t l)
  <= size l * (3 + e) + e * (1 - rho0) * (inject_Z (last l t) - inject_Z t).
Proof.
  assert (A := e_least). destruct rho_range as [R0 R1].
  induction l as [|s l IH]; intros t Ht H Hp.
  - cbn [last old_rest]. rewrite size_nil. destruct (P <=? M t); cbn [steps excess]; lra.
  - assert (T := ascends_last _ _ H). assert (Hq : inject_Z t <= inject_Z (last (s :: l) t)) by (rewrite <- Zle_Qle; assumption).
    rewrite last_next in *. destruct H as [H K]. cbn [old_rest]. destruct (Z.leb_spec P (M t)).
    + cbn [steps excess]. assert (S := size_nonneg (s :: l)).
      assert (0 <= e * (1 - rho0)) by nra. nra.
    + cbn [steps excess]. specialize (IH s ltac:(lia) K Hp). assert (S := size_next s l).
      destruct (token_gains t s H H0) as [G0 G1].
      assert (L := ascends_last _ _ K).
      assert (Hs : inject_Z t <= inject_Z s) by (rewrite <- Zle_Qle; assumption).
      destruct (v_range (Z.min P (M s)) (M_nonneg s ltac:(lia))) as [_ V1].
      destruct (v_range (Z.min P (M t)) (M_nonneg t ltac:(lia))) as [V0 _].
      destruct (u_range t Ht) as [_ U1]. destruct (u_range s ltac:(lia)) as [U0 _].
      set (a := inject_Z (Z.min P (M s))) in *. set (b := inject_Z (Z.min P (M t))) in *.
      assert (rho1 * (a - b) <= a - b) by nra.
      assert (e * (rho0 * (inject_Z s - inject_Z t) - 1) <= e * (u s - u t)) by nra.
      assert (0 <= e * (1 - rho0) * (inject_Z s - inject_Z t)) by (assert (0 <= e * (1 - rho0)) by nra; nra).
      assert (F : positive_part (v (Z.min P (M s)) - v (Z.min P (M t)) - e * (u s - u t))
              <= 3 + e + e * (1 - rho0) * (inject_Z s - inject_Z t)) by (apply positive_part_le; lra).
      rewrite S. lra.
Qed.

(** (f) Old tokens from i to i - 1. *)
Lemma cut_sum : forall l t, (0 <= t)%Z -> ascends t l -> (P <= M t)%Z ->
  excess e (steps u t l) [] <= size l * (1 + 2 * e) + lost (inject_Z (last l t)) - lost (inject_Z t).
Proof.
  assert (A := e_least). destruct rho_range as [R0 R1].
  induction l as [|s l IH]; intros t Ht H HP.
  - cbn [last steps excess old_rest]. rewrite size_nil. lra.
  - rewrite last_next. destruct H as [H K]. cbn [steps excess]. assert (N := M_ascending t s H).
    specialize (IH s ltac:(lia) K ltac:(lia)). assert (S := size_next s l).
    assert (T := token_loses t s H). rewrite !Z.min_l in T by lia.
    assert (Hs : inject_Z t <= inject_Z s) by (rewrite <- Zle_Qle; assumption).
    assert (L := lost_ascending _ _ Hs).
    destruct (u_range t Ht) as [U0 _]. destruct (u_range s ltac:(lia)) as [_ U1].
    assert (rho0 * (inject_Z s - inject_Z t) <= inject_Z s - inject_Z t) by nra.
    assert (F : positive_part (u s - u t) <= 1 + 2 * e + lost (inject_Z s) - lost (inject_Z t))
      by (apply positive_part_le; lra).
    rewrite S. lra.
Qed.

Lemma down_sum : forall l t, (0 <= t)%Z -> ascends t l -> (last l t <= p)%Z ->
  excess e (steps u t l) (steps v (Z.min P (M t)) (old_rest t l))
  <= size l * (1 + 2 * e) + lost (inject_Z (last l t)) - lost (inject_Z t)
     + e * (1 - rho1) * (inject_Z (Z.min P (M (last l t))) - inject_Z (Z.min P (M t))).
Proof.
  assert (A := e_least). destruct rho_range as [R0 R1].
  induction l as [|s l IH]; intros t Ht H Hp.
  - cbn [last steps excess old_rest]. rewrite size_nil. lra.
  - cbn [old_rest]. destruct (Z.leb_spec P (M t)) as [C|C].
    + assert (X := cut_sum (s :: l) t Ht H C).
      assert (N := M_ascending t _ (ascends_last _ _ H)).
      cbn [steps] in *. rewrite (Z.min_l P (M (last (s :: l) t))), (Z.min_l P (M t)) by lia. lra.
    + rewrite last_next in *. destruct H as [H K]. cbn [steps excess].
      specialize (IH s ltac:(lia) K Hp). assert (S := size_next s l).
      assert (L := ascends_last _ _ K).
      assert (T := token_loses t s H). destruct (token_gains t s H C) as [G0 _].
      assert (Hs : inject_Z t <= inject_Z s) by (rewrite <- Zle_Qle; assumption).
      assert (Lo := lost_ascending _ _ Hs).
      destruct (v_range (Z.min P (M s)) (M_nonneg s ltac:(lia))) as [V0 _].
      destruct (v_range (Z.min P (M t)) (M_nonneg t ltac:(lia))) as [_ V1].
      destruct (u_range t Ht) as [U0 _]. destruct (u_range s ltac:(lia)) as [_ U1].
      set (a := inject_Z (Z.min P (M s))) in *. set (b := inject_Z (Z.min P (M t))) in *.
      assert (rho0 * (inject_Z s - inject_Z t) <= inject_Z s - inject_Z t) by nra.
      assert (e * (rho1 * (a - b) - 1) <= e * (v (Z.min P (M s)) - v (Z.min P (M t)))) by nra.
      assert (0 <= e * (1 - rho1) * (a - b)) by (assert (0 <= e * (1 - rho1)) by nra; nra).
      assert (F : positive_part (u s - u t - e * (v (Z.min P (M s)) - v (Z.min P (M t))))
              <= 1 + 2 * e + lost (inject_Z s) - lost (inject_Z t) + e * (1 - rho1) * (a - b))
        by (apply positive_part_le; lra).
      rewrite S. lra.
Qed.

Close Scope Q_scope.
End Step.

(** *** Rows *)

Hypothesis pi_0 : pi 0 = 0.
Hypothesis pi_steps : forall i, pi i <= pi (S i) <= allowed (pi i).
Variable G : Z.
Hypothesis q_bounds : forall i, pi i <= low i /\ low i <= high i <= one /\ 1 <= high i /\ high i - low i <= G.

Lemma pi_range : forall i, 0 <= pi i <= one.
Proof.
  intros i. destruct (q_bounds i) as (A & B & _). split; [|lia].
  induction i as [|i IH]; [lia|]. assert (K := pi_steps i). destruct (q_bounds i) as (A' & B' & _). lia.
Qed.

Lemma next_range : forall i, pi i <= pi (S i) <= one.
Proof. intros i. assert (A := pi_steps i). assert (B := pi_range (S i)). lia. Qed.

(** New tails ascend from 0, and end below the first old one. *)
Lemma new_tails_ascend : forall P m, 0 <= P -> (forall k, (k < grid)%nat -> Z.of_nat k * Z.min D P / Z.of_nat grid <= m) ->
  exists ns, new_tails P = 0 :: ns /\ length ns = (grid - 1)%nat /\ forall l, ascends m l -> ascends 0 (ns ++ m :: l).
Proof.
  intros P m HP Hm. destruct grid_range as [G1 G2]. unfold new_tails.
  set (f := fun k => Z.of_nat k * Z.min D P / Z.of_nat grid) in *.
  assert (F0 : f 0%nat = 0) by (unfold f; rewrite Z.mul_0_l; apply Z.div_0_l; lia).
  assert (Mono : forall a b, (a <= b)%nat -> f a <= f b) by (intros a b H; unfold f; apply Z.div_le_mono; nia).
  assert (Seq : seq 0 grid = 0%nat :: seq 1 (grid - 1)).
  { replace grid with (S (grid - 1)) at 1 by lia. reflexivity. }
  rewrite Seq. change (map f (0%nat :: seq 1 (grid - 1))) with (f 0%nat :: map f (seq 1 (grid - 1))). rewrite F0.
  exists (map f (seq 1 (grid - 1))). split; [reflexivity|]. split; [rewrite map_length, seq_length; reflexivity|].
  intros l Hl. rewrite <- F0.
  assert (K : forall n s, (s + n <= grid - 1)%nat -> ascends (f s) (map f (seq (S s) n) ++ m :: l)).
  { induction n as [|n IH]; intros s H; simpl.
    - split; [apply Hm; lia|assumption].
    - split; [apply Mono; lia|apply IH; lia]. }
  apply K. lia.
Qed.

(** The tails of the next row: new ones, and then the old ones. *)
Lemma tails_next : forall i l, tails i = 0 :: l -> ascends 0 l ->
  let first := Z.min (pi (S i)) (M (pi i) (pi (S i)) 0) in
  let old := old_rest (pi i) (pi (S i)) 0 l in
  exists ns, tails (S i) = 0 :: ns ++ first :: old /\ length ns = (grid - 1)%nat /\ ascends 0 (ns ++ first :: old).
Proof.
  intros i l T A first old. assert (Rp := pi_range i). assert (RP := next_range i). destruct grid_range as [G1 G2].
  set (p := pi i) in *. set (P := pi (S i)) in *.
  destruct (new_tails_ascend P first) as (ns & N & NL & NA); [lia| |].
  - intros k H. assert (X := M_new p P). unfold first.
    assert (Y := div_spec (Z.of_nat k * Z.min D P) (Z.of_nat grid) ltac:(lia)).
    set (y := Z.of_nat k * Z.min D P / Z.of_nat grid) in *.
    destruct (new_tail_small (Z.of_nat grid) (Z.of_nat k) (Z.min D P) D y); lia.
  - exists ns. split; [|split; [assumption|]].
    + cbn [tails]. fold p P. rewrite T, N, old_tails_rest. reflexivity.
    + apply NA. apply old_rest_ascends; assumption.
Qed.

Lemma tails_spec : forall i, exists l, tails i = 0 :: l /\ ascends 0 l /\ used (pi i) (last l 0) /\ (length l <= i * grid)%nat.
Proof.
  induction i as [|i (l & T & A & U & L)].
  - exists []. simpl. rewrite pi_0. repeat split; try lia. left. reflexivity.
  - destruct (tails_next i l T A) as (ns & N & NL & NA). destruct grid_range as [G1 G2].
    assert (Rp := pi_range i). assert (RP := next_range i). destruct (pi_steps i) as [_ St].
    exists (ns ++ Z.min (pi (S i)) (M (pi i) (pi (S i)) 0) :: old_rest (pi i) (pi (S i)) 0 l).
    repeat split; [assumption|assumption| |].
    + rewrite last_app, old_rest_last by assumption. apply all_is_used; assumption.
    + rewrite app_length. cbn [length]. assert (X := old_rest_length (pi i) (pi (S i)) l 0). simpl. lia.
Qed.

Lemma used_range : forall i t, used (pi i) t -> pi i - 1 <= t <= pi i.
Proof. intros i t [->|[H ->]]; lia. Qed.

Open Scope Q_scope.

(** *** Division by the bound of q *)

Definition V (h : Z) (q : Q) (t : Z) : Q := q * inject_Z (t * one / h).
Definition rho (h : Z) (q : Q) : Q := q * inject_Z one / inject_Z h.

Definition q_within (i : nat) (q : Q) : Prop := frac (low i) one <= q <= frac (high i) one.

Lemma q_scaled : forall i q, q_within i q -> inject_Z (low i) <= q * inject_Z one <= inject_Z (high i).
Proof.
  intros i q [A B]. assert (O : 0 < inject_Z one) by (apply inject_pos; lia).
  assert (X : forall a, frac a one * inject_Z one == inject_Z a) by (intros a; unfold frac; field; lra).
  rewrite <- (X (low i)), <- (X (high i)). split; nra.
Qed.

Lemma rho_facts : forall i q, q_within i q ->
  0 <= q <= 1 /\ 0 <= rho (high i) q <= 1 /\
  (forall t, (0 <= t)%Z -> rho (high i) q * inject_Z t - 1 <= V (high i) q t <= rho (high i) q * inject_Z t) /\
  (forall t, (0 <= t <= low i)%Z -> (1 - rho (high i) q) * inject_Z t <= inject_Z G).
Proof.
  intros i q W. destruct (q_scaled i q W) as [A B]. destruct (q_bounds i) as (B1 & B2 & B3 & B4).
  assert (P0 := pi_range i).
  assert (O : 0 < inject_Z one) by (apply inject_pos; lia).
  assert (H : 0 < inject_Z (high i)) by (apply inject_pos; lia).
  assert (L : 0 <= inject_Z (low i)) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; lia).
  assert (HO : inject_Z (high i) <= inject_Z one) by (rewrite <- Zle_Qle; lia).
  assert (Q0 : 0 <= q <= 1) by (split; nra).
  assert (Rh : rho (high i) q * inject_Z (high i) == q * inject_Z one) by (unfold rho; field; lra).
  set (r := rho (high i) q) in *. set (h := inject_Z (high i)) in *.
  assert (R0 : 0 <= r <= 1) by (split; nra).
  split; [exact Q0|]. split; [exact R0|]. split.
  - intros t Ht. unfold V. assert (Y := div_spec (t * one) (high i) ltac:(lia)).
    set (y := (t * one / high i)%Z) in *. destruct Y as [Y1 Y2].
    rewrite Zle_Qle, !inject_Z_mult in Y1. rewrite Zlt_Qlt, inject_Z_plus, !inject_Z_mult in Y2. fold h in Y1, Y2.
    set (c := inject_Z y) in *. set (x := inject_Z t) in *. set (o := inject_Z one) in *.
    assert (E1 : h * (r * x) == q * (x * o)) by (transitivity (r * h * x); [ring|rewrite Rh; ring]).
    split.
    + apply (Qmult_le_l _ _ h H). nra.
    + apply (Qmult_le_l _ _ h H). nra.
  - intros t Ht.
    assert (inject_Z (high i) - inject_Z (low i) <= inject_Z G) by (rewrite <- inject_sub, <- Zle_Qle; lia).
    fold h in H0. assert (inject_Z t <= h) by (unfold h; rewrite <- Zle_Qle; lia). nra.
Qed.

Lemma V_0 : forall h q, V h q 0 == 0.
Proof. intros h q. unfold V. rewrite Z.mul_0_l, Zdiv_0_l. change (inject_Z 0) with 0. ring. Qed.

Lemma V_ascending : forall h q s t, (0 < h)%Z -> 0 <= q -> (s <= t)%Z -> V h q s <= V h q t.
Proof.
  intros h q s t H Q0 K. unfold V.
  assert (inject_Z (s * one / h) <= inject_Z (t * one / h)) by (rewrite <- Zle_Qle; apply Z.div_le_mono; nia). nra.
Qed.

(** *** Lists of probabilities *)

Lemma excess_ext : forall x r r' s s', Forall2 Qeq r r' -> Forall2 Qeq s s' -> excess x r s == excess x r' s'.
Proof.
  intros x r r' s s' Hr. revert s s'. induction Hr as [|a b r r' Hab Hr IH]; intros s s' Hs; simpl; [reflexivity|].
  inversion Hs as [|c d k k' Hcd Hk]; subst.
  - rewrite (IH [] []), (positive_part_comp a b) by (auto using Forall2_nil). reflexivity.
  - rewrite (IH k k'), (positive_part_comp (a - x * c) (b - x * d)) by (auto; rewrite Hab, Hcd; reflexivity). reflexivity.
Qed.

Lemma positive_part_scale : forall w x, 0 <= w -> positive_part (w * x) == w * positive_part x.
Proof.
  intros w x H. destruct (positive_part_max x). destruct (positive_part_max (w * x)).
  assert (positive_part (w * x) <= w * positive_part x) by (apply positive_part_le; nra).
  assert (w * positive_part x <= positive_part (w * x)); [|lra].
  unfold positive_part at 1. destruct (Qle_bool x 0); nra.
Qed.

Lemma excess_scale : forall x w r s, 0 <= w -> excess x (map (Qmult w) r) (map (Qmult w) s) == w * excess x r s.
Proof.
  intros x w r s H. revert s. induction r as [|a r IH]; intros s; simpl; [ring|]. destruct s as [|b s]; simpl.
  - rewrite (IH []). rewrite positive_part_scale by assumption. ring.
  - rewrite IH, (positive_part_comp _ (w * (a - x * b))) by ring. rewrite positive_part_scale by assumption. ring.
Qed.

Definition unit : Q := / inject_Z one.

Lemma unit_spec : 0 < unit /\ unit * inject_Z one == 1.
Proof.
  assert (O : 0 < inject_Z one) by (apply inject_pos; lia). unfold unit. split; [apply Qinv_lt_0_compat; assumption|].
  field. lra.
Qed.

Lemma tokens_steps : forall h q l a,
  Forall2 Qeq (map (fun m => q * frac m one) (masses (a * one / h) (map (fun t => t * one / h)%Z l)))
              (map (Qmult unit) (steps (V h q) a l)).
Proof.
  intros h q l. induction l as [|b l IH]; intros a; simpl; constructor; [|apply IH].
  unfold V, unit, frac, Qdiv. rewrite inject_sub. ring.
Qed.

Lemma steps_app : forall f l m a b,
  steps f a (l ++ b :: m) = steps f a (l ++ [b]) ++ steps f b m.
Proof. intros f l m. induction l as [|c l IH]; intros a b; simpl; [reflexivity|]. rewrite (IH c b). reflexivity. Qed.

Lemma steps_length : forall f l a, length (steps f a l) = length l.
Proof. intros f l. induction l; intros; simpl; congruence. Qed.

Lemma steps_alone : forall x f l a, (forall s t, (s <= t)%Z -> f s <= f t) -> ascends a l ->
  excess x (steps f a l) [] <= f (last l a) - f a.
Proof.
  intros x f l. induction l as [|b l IH]; intros a F H; [simpl; lra|]. rewrite last_next. destruct H as [H K].
  cbn [steps excess]. specialize (IH b F K). assert (X := F a b H).
  assert (positive_part (f b - f a) <= f b - f a) by (apply positive_part_le; lra). lra.
Qed.

Lemma steps_nonneg : forall f l a, (forall s t, (s <= t)%Z -> f s <= f t) -> ascends a l -> nonnegative (steps f a l).
Proof.
  intros f l. induction l as [|b l IH]; intros a F H; simpl; constructor; destruct H as [H K].
  - assert (X := F a b H). lra.
  - apply IH; assumption.
Qed.
Lemma last_map : forall (f : Z -> Z) l a, last (map f l) (f a) = f (last l a).
Proof.
  intros f l. induction l as [|b l IH]; intros a; [reflexivity|]. cbn [map]. rewrite !last_next. apply IH.
Qed.

Lemma absent : forall i l q, tails i = 0%Z :: l ->
  1 - q * frac (last (cuts_of i) 0%Z) one == unit * (inject_Z one - V (high i) q (last l 0%Z)).
Proof.
  intros i l q T. destruct unit_spec as [U0 U1]. unfold cuts_of. rewrite T. cbn [tl].
  assert (X := last_map (fun t => (t * one / high i)%Z) l 0). cbn beta in X.
  rewrite Z.mul_0_l, Zdiv_0_l in X. rewrite X. unfold V, frac, Qdiv. fold unit.
  setoid_replace (unit * (inject_Z one - q * inject_Z (last l 0%Z * one / high i)))
    with (unit * inject_Z one - q * (inject_Z (last l 0%Z * one / high i) * unit)) by ring.
  rewrite U1. reflexivity.
Qed.

Lemma tokens_of : forall i l q, tails i = 0%Z :: l ->
  Forall2 Qeq (map (fun m => q * frac m one) (masses 0 (cuts_of i))) (map (Qmult unit) (steps (V (high i) q) 0 l)).
Proof.
  intros i l q T. unfold cuts_of. rewrite T. cbn [tl].
  assert (X := tokens_steps (high i) q l 0). rewrite Z.mul_0_l, Zdiv_0_l in X. exact X.
Qed.

Lemma cuts_length : forall i l, tails i = 0%Z :: l -> length (cuts_of i) = length l.
Proof. intros i l T. unfold cuts_of. rewrite T, map_length. reflexivity. Qed.

Lemma zeros_scaled : forall n r s, Forall2 Qeq r (map (Qmult unit) s) ->
  Forall2 Qeq (repeat 0 n ++ r) (map (Qmult unit) (repeat 0 n ++ s)).
Proof. intros n r s H. induction n; simpl; [assumption|]. constructor; [ring|assumption]. Qed.

(** *** Laws: by the checker's own lemma *)

Definition as_certificate : certificate := {|
  epsilon_top := 0; epsilon_bottom := 1; delta_top := 0; delta_bottom := 1; ratio := 0; ratio_one := 1; terms := 0;
  Checker.grid := grid; cut_one := one; q_one := one; spans := []; repeats := false |}.

Definition as_data (i : nat) : row_data := {| Checker.low := low i; Checker.high := high i; cuts := cuts_of i |}.

Lemma masses_ascend : forall h l a, (0 < h)%Z -> ascends a l ->
  Forall (fun m => (0 <= m)%Z) (masses (a * one / h) (map (fun t => (t * one / h)%Z) l)).
Proof.
  intros h l. induction l as [|b l IH]; intros a H K; simpl; constructor; destruct K as [K L].
  - assert (a * one / h <= b * one / h)%Z by (apply Z.div_le_mono; nia). lia.
  - apply IH; assumption.
Qed.

Lemma row_at_law : forall i q, q_within i q -> law (row_at i q).
Proof.
  intros i q W. change (row_at i q) with (row_of as_certificate i (as_data i) q).
  destruct (tails_spec i) as (l & T & A & U & L). destruct (q_bounds i) as (B1 & B2 & B3 & B4).
  assert (X := pi_range i). assert (Y := used_range i _ U).
  apply (row_is_law as_certificate e).
  - assert (Z := e_least). constructor; simpl; try lia. unfold frac, Qdiv. change (inject_Z 0) with 0. lra.
  - constructor; simpl; try lia.
    + unfold cuts_of. rewrite T. cbn [tl]. assert (M0 := masses_ascend (high i) l 0 ltac:(lia) A).
      rewrite Z.mul_0_l, Zdiv_0_l in M0. exact M0.
    + unfold reported. cbn [cuts as_data]. unfold cuts_of. rewrite T. cbn [tl].
      assert (Z := last_map (fun t => (t * one / high i)%Z) l 0). cbn beta in Z.
      rewrite Z.mul_0_l, Zdiv_0_l in Z. rewrite Z. apply Z.div_le_upper_bound; nia.
    + rewrite (cuts_length i l T). assumption.
  - exact W.
Qed.

(** *** Two neighbouring rows *)

Variable N : nat.
Hypothesis few_tokens : forall i, (length (tails i) <= N)%nat.

Definition bound : Q :=
  inject_Z D + inject_Z (Z.of_nat N) * (3 + 2 * e) + (e + 1) * (inject_Z G + 5).

Lemma shrunk : forall r x : Q, 0 <= r <= 1 -> 0 <= x -> r * x <= x.
Proof. intros r x H K. nra. Qed.

Lemma times : forall a x y : Q, 0 <= a -> x <= y -> a * x <= a * y.
Proof. intros a x y H K. nra. Qed.

Lemma rows_spend : forall i q q', q_within i q -> q_within (S i) q' ->
  excess e (row_at (S i) q') (row_at i q) <= unit * bound /\
  excess e (row_at i q) (row_at (S i) q') <= unit * bound.
Proof.
  intros i q q' W W'. destruct (tails_spec i) as (l & T & A & U & L).
  destruct (tails_next i l T A) as (ns & T' & NL & A').
  destruct (tails_spec (S i)) as (l' & T'' & _ & U' & L').
  assert (Rp := pi_range i). assert (RP := next_range i). destruct (pi_steps i) as [_ St].
  set (p := pi i) in *. set (P := pi (S i)) in *. set (m0 := Z.min P (M p P 0)) in *. set (old := old_rest p P 0 l) in *.
  assert (l' = ns ++ m0 :: old) by congruence. subst l'. clear T''.
  assert (Few := few_tokens i). rewrite T in Few. cbn [length] in Few.
  destruct grid_range as [G1 G2]. destruct unit_spec as [Un0 Un1].
  destruct (rho_facts i q W) as (Q0 & R0 & Vu & Gu). destruct (rho_facts (S i) q' W') as (Q1 & R1 & Vv & Gv).
  destruct (q_bounds i) as (B1 & B2 & B3 & B4). destruct (q_bounds (S i)) as (C1 & C2 & C3 & C4).
  set (u := V (high i) q) in *. set (v := V (high (S i)) q') in *.
  set (r0 := rho (high i) q) in *. set (r1 := rho (high (S i)) q') in *.
  assert (He := e_least).
  assert (Us := used_range i _ U). fold p in Us.
  set (Sp := last l 0%Z) in *.
  assert (Hl : last (ns ++ m0 :: old) 0%Z = Z.min P (M p P Sp)).
  { rewrite last_app. apply old_rest_last; assumption. }
  assert (Sp0 : (0 <= Sp)%Z) by (apply ascends_last; assumption).
  assert (Asc : forall s t, (s <= t)%Z -> v s <= v t) by (intros; apply V_ascending; [lia|lra|assumption]).
  assert (AscU : forall s t, (s <= t)%Z -> u s <= u t) by (intros; apply V_ascending; [lia|lra|assumption]).
  set (T1 := Z.min P (M p P Sp)) in *.
  assert (Up1 : (Sp <= T1)%Z).
  { unfold T1. destruct (M_stays p P Rp RP Sp ltac:(lia)); lia. }
  assert (T1P : (T1 <= P)%Z) by (unfold T1; lia).
  assert (m00 : (0 <= m0)%Z) by (apply M_nonneg; [assumption|assumption|lia]).
  assert (m0D : (m0 <= D)%Z).
  { assert (X := M_grows p P Rp 0). assert (M p P 0 < D + 1)%Z by (apply (Z.mul_lt_mono_pos_l R); lia). unfold m0. lia. }
  (* what is spent, in units *)
  assert (SizeN : size l <= inject_Z (Z.of_nat N)) by (unfold size; rewrite <- Zle_Qle; lia).
  assert (Size0 := size_nonneg l).
  assert (uSp := Vu Sp Sp0). assert (vT1 := Vv T1 ltac:(lia)).
  assert (gSp := Gu Sp ltac:(lia)). assert (gT1 := Gv T1 ltac:(lia)).
  assert (iSp : inject_Z Sp <= inject_Z T1) by (rewrite <- Zle_Qle; assumption).
  assert (Sp00 : 0 <= inject_Z Sp) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; assumption).
  assert (ip : inject_Z p - 1 <= inject_Z Sp <= inject_Z p).
  { change 1 with (inject_Z 1). rewrite <- inject_sub. split; rewrite <- Zle_Qle; lia. }
  assert (iP : inject_Z T1 <= inject_Z P) by (rewrite <- Zle_Qle; assumption).
  assert (ione : inject_Z P <= inject_Z one /\ inject_Z p <= inject_Z one) by (split; rewrite <- Zle_Qle; lia).
  assert (G0 : 0 <= inject_Z G) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; lia).
  assert (Up_sum := up_sum p P Rp RP u v r0 r1 (conj R0 R1) Vu Vv l 0 ltac:(lia) A ltac:(fold Sp; lia)).
  assert (Down_sum := down_sum p P Rp RP u v r0 r1 (conj R0 R1) Vu Vv l 0 ltac:(lia) A ltac:(fold Sp; lia)).
  fold m0 old Sp T1 in Up_sum, Down_sum. change (inject_Z 0) with 0 in Up_sum, Down_sum.
  assert (New : excess e (steps v 0 (ns ++ [m0])) [] <= inject_Z D).
  { assert (ascends 0 (ns ++ [m0])).
    { clear - A'. revert A'. generalize 0%Z. induction ns as [|a ns IH]; intros z H; simpl in *.
      - split; [apply H|exact Logic.I].
      - split; [apply H|]. apply IH, H. }
    assert (X := steps_alone e v (ns ++ [m0]) 0 Asc H).
    rewrite last_app in X. cbn [last] in X. assert (V00 : v 0%Z == 0) by apply V_0.
    assert (Y := Vv m0 m00). assert (inject_Z m0 <= inject_Z D) by (rewrite <- Zle_Qle; assumption).
    assert (0 <= inject_Z m0) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; assumption).
    assert (K := shrunk r1 (inject_Z m0) R1 ltac:(assumption)). lra. }
  assert (NewNonneg : nonnegative (steps v 0 (ns ++ [m0]))).
  { apply steps_nonneg; [assumption|].
    clear - A'. revert A'. generalize 0%Z. induction ns as [|a ns IH]; intros z H; simpl in *.
    - split; [apply H|exact Logic.I].
    - split; [apply H|]. apply IH, H. }
  (* lists of probabilities are lists of units *)
  assert (TL : forall (f : Z -> Q) c, length (map f (masses 0 c)) = length c).
  { intros. rewrite map_length, masses_length. reflexivity. }
  assert (Old := tokens_of i l q T). assert (All := tokens_of (S i) _ q' T'). fold u in Old. fold v in All.
  assert (OldNonneg : nonnegative (map (fun m => q * frac m one) (masses 0 (cuts_of i)))).
  { assert (X := row_at_law i q W). destruct X as [X _]. unfold row_at in X. inversion_clear X.
    apply Forall_rev in H0. rewrite rev_involutive in H0. apply Forall_app in H0. apply H0. }
  assert (AllNonneg : nonnegative (map (fun m => q' * frac m one) (masses 0 (cuts_of (S i))))).
  { assert (X := row_at_law (S i) q' W'). destruct X as [X _]. unfold row_at in X. inversion_clear X.
    apply Forall_rev in H0. rewrite rev_involutive in H0. apply Forall_app in H0. apply H0. }
  assert (LenOld := cuts_length i l T). assert (LenAll := cuts_length (S i) _ T').
  rewrite steps_app in All.
  assert (LenA : length (steps v 0 (ns ++ [m0])) = length (repeat 0 grid)).
  { rewrite steps_length, app_length, repeat_length. cbn [length]. lia. }
  assert (AbsOld := absent i l q T). assert (AbsNew := absent (S i) _ q' T'). rewrite Hl in AbsNew. fold u Sp in AbsOld. fold v in AbsNew.
  unfold row_at. cbn [excess]. split.
  - (* from i to i + 1 *)
    rewrite (positive_part_comp _ (unit * (inject_Z one - v T1 - e * (inject_Z one - u Sp))))
      by (rewrite AbsOld, AbsNew; ring).
    rewrite positive_part_scale by lra.
    rewrite <- (TL (fun m => q' * frac m one) (cuts_of (S i))), <- (TL (fun m => q * frac m one) (cuts_of i)).
    rewrite excess_up; [|lra|assumption|rewrite TL, LenOld; assumption|rewrite TL, LenAll; assumption].
    rewrite (excess_ext e _ _ _ _ All (zeros_scaled grid _ _ Old)).
    rewrite excess_scale by lra. rewrite excess_app by assumption.
    rewrite <- (app_nil_l (repeat 0 grid)), excess_zeros_right.
    assert (Absent : positive_part (inject_Z one - v T1 - e * (inject_Z one - u Sp)) <= inject_Z G + 1).
    { apply positive_part_le; [lra|]. assert (K := shrunk r0 (inject_Z Sp) R0 Sp00).
      assert (J := times (e - 1) 0 (inject_Z one - u Sp) ltac:(lra) ltac:(lra)). lra. }
    assert (Sum : excess e (steps v 0 (ns ++ [m0])) [] + excess e (steps v m0 old) (steps u 0 l)
            <= inject_Z D + inject_Z (Z.of_nat N) * (3 + 2 * e) + e * inject_Z G).
    { assert (K := times e _ _ ltac:(lra) gSp). assert (J := times (3 + e) _ _ ltac:(lra) SizeN).
      assert (I0 := times e _ _ ltac:(lra) (Qle_trans _ _ _ Size0 SizeN)). lra. }
    rewrite <- Qmult_plus_distr_r. apply Qmult_le_l; [assumption|]. unfold bound. lra.
  - (* from i + 1 to i *)
    rewrite (positive_part_comp _ (unit * (inject_Z one - u Sp - e * (inject_Z one - v T1))))
      by (rewrite AbsOld, AbsNew; ring).
    rewrite positive_part_scale by lra.
    rewrite <- (TL (fun m => q' * frac m one) (cuts_of (S i))), <- (TL (fun m => q * frac m one) (cuts_of i)).
    rewrite excess_down; [|lra|assumption|rewrite TL, LenOld; assumption|rewrite TL, LenAll; assumption].
    rewrite (excess_ext e _ _ _ _ (zeros_scaled grid _ _ Old) All).
    rewrite excess_scale by lra. rewrite excess_app by (symmetry; assumption).
    assert (Zeros : excess e (repeat 0 grid) (steps v 0 (ns ++ [m0])) == 0).
    { apply (excess_zeros_left e grid [] (steps v 0 (ns ++ [m0]))); [lra|assumption]. }
    rewrite Zeros.
    assert (Both := lost_and_absent p P Rp RP St).
    assert (Lp : lost p P (inject_Z Sp) <= lost p P (inject_Z p)) by (apply lost_ascending; lra).
    destruct (lost_bounds p P 0) as [L0 _].
    set (pp := positive_part (inject_Z (one - p) - e * inject_Z (one - P))) in *.
    assert (Pp : inject_Z one - inject_Z p - e * (inject_Z one - inject_Z P) <= pp /\ 0 <= pp).
    { destruct (positive_part_max (inject_Z (one - p) - e * inject_Z (one - P))) as [X Y]. fold pp in X, Y.
      assert (Z := inject_sub one p). assert (Z' := inject_sub one P).
      set (a := inject_Z (one - p)) in *. set (b := inject_Z (one - P)) in *. split; [rewrite <- Z, <- Z'; assumption|assumption]. }
    assert (Absent : positive_part (inject_Z one - u Sp - e * (inject_Z one - v T1)) <= pp + inject_Z G + 2).
    { apply positive_part_le; [lra|]. assert (K := shrunk r1 (inject_Z T1) R1 ltac:(lra)).
      assert (J := times e (inject_Z one - inject_Z P) (inject_Z one - v T1) ltac:(lra) ltac:(lra)). lra. }
    assert (Sum : excess e (steps u 0 l) (steps v m0 old)
            <= inject_Z (Z.of_nat N) * (3 + 2 * e) + lost p P (inject_Z p) + e * inject_Z G).
    { assert (0 <= inject_Z m0) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; assumption).
      assert (K := times e _ _ ltac:(lra) gT1). assert (J := times (1 + 2 * e) _ _ ltac:(lra) SizeN).
      assert (I0 := times (e * (1 - r1)) 0 (inject_Z m0) (Qmult_le_0_compat e (1 - r1) ltac:(lra) ltac:(lra)) ltac:(assumption)).
      lra. }
    rewrite Qplus_0_l, <- Qmult_plus_distr_r. apply Qmult_le_l; [assumption|]. unfold bound. lra.
Qed.

Lemma rounding : forall (delta : Q) (q : nat -> Q),
  bound <= delta * inject_Z one -> (forall i, q_within i (q i)) ->
  (forall i, law (row_at i (q i))) /\ private e delta (fun i => row_at i (q i)).
Proof.
  intros delta q B W. assert (Laws : forall i, law (row_at i (q i))) by (intros i; apply row_at_law, W).
  split; [exact Laws|]. assert (He := e_least). destruct unit_spec as [U0 U1].
  assert (X : unit * bound <= delta).
  { apply Qle_trans with (unit * (delta * inject_Z one)); [apply Qmult_le_l; assumption|].
    setoid_replace (unit * (delta * inject_Z one)) with (delta * (unit * inject_Z one)) by ring. rewrite U1. lra. }
  apply private_iff_neighbouring_rows; [lra|exact Laws|]. intros i.
  destruct (rows_spend i (q i) (q (S i)) (W i) (W (S i))). split; lra.
Qed.
Close Scope Q_scope.
End Rounding.

(** ** Theorem *)

Theorem rounding_is_private :
  forall (E I R one D : Z) (grid : nat) (pi low high : nat -> Z) (G : Z) (N : nat) (delta : Q) (q : nat -> Q),
  (* the numbers: 1 <= e = E / R, and 1 / e <= I / R < 1 *)
  0 < R -> R <= E -> 0 < I < R -> R * R <= E * I -> 2 <= D < one -> (1 <= grid)%nat /\ Z.of_nat grid <= D ->
  (* pi takes private steps *)
  pi 0%nat = 0 -> (forall i, pi i <= pi (S i) <= allowed E I R one D (pi i)) ->
  (* and stays below the bounds of q, which are at most G units apart *)
  (forall i, pi i <= low i /\ low i <= high i <= one /\ 1 <= high i /\ high i - low i <= G) ->
  (forall i, frac (low i) one <= q i <= frac (high i) one)%Q ->
  (* no row has more than N tokens *)
  (forall i, (length (tails E I R one D grid pi i) <= N)%nat) ->
  (inject_Z D + inject_Z (Z.of_nat N) * (3 + 2 * frac E R) + (frac E R + 1) * (inject_Z G + 5)
     <= delta * inject_Z one)%Q ->
  let rows := fun i => row_at E I R one D grid pi high i (q i) in
  (forall i, law (rows i)) /\ private (frac E R) delta rows.
Proof.
  intros E I R one D grid pi low high G N delta q H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H11 H12 rows.
  exact (rounding E I R one D grid pi low high H1 H2 H3 H4 H5 H6 H7 H8 G H9 N H11 delta q H12 H10).
Qed.
