(** * Supports are short

    docs/theory.md, section 5, part c of the proof of its lemma.  In words:

    Let every step of pi be private, in integers.  Then a tail reaches pi after at
    most 5 n + 2 rows, where n is any number with

        1 + 2 (e - 1) one / D <= e ^ n,

    provided that D is at least 2^74 e, e - 1 at least 2^-40, and the bound of
    1 / e at most 1 / one too large.  So no row has more than (5 n + 3) grid + 1
    tokens [supports_are_short].  With that number the lemma is complete: rounding
    keeps the whole scheme private, whatever the number of rows
    [rounding_with_short_supports_is_private].

    The proof follows one tail t [follows].  A row in which it does not reach pi has
    one of three kinds [kinds].  t grows: then 1 + 2 (e - 1) t / D is multiplied by e
    or more, which happens at most n times.  t shrinks from one: then 1 + 2 (e - 1)
    (one - t) / D is divided by e or more, at most n times as well.  Or t shrinks from
    pi.  Let g be the gap between t and pi, and 1 + 2 ((e - 1) g + 1) / D be at most
    e ^ k, with k = n + 1 at first.  k rises by one in a row of the first two kinds, and
    falls by one in a row of the third.  So there are at most n + 1 + 2 n of those.

    Not proved here: that pi takes such steps, which `scheme/lemma.py` checks. *)

From Coq Require Import ZArith QArith Qpower Lqa Lia List Arith.
From DPSample Require Import Rows Checker Rounding.
Import ListNotations.
Open Scope Z_scope.

(** ** Proofs *)

(** *** Powers *)
Open Scope Q_scope.

Lemma power_next : forall (x : Q) k, 1 <= x -> x ^ Z.of_nat (S k) == x * x ^ Z.of_nat k.
Proof.
  intros x k H. rewrite Nat2Z.inj_succ. unfold Z.succ. rewrite Qpower_plus, Qpower_1_r by lra. ring.
Qed.

Lemma power_least : forall (x : Q) k, 1 <= x -> 1 <= x ^ Z.of_nat k.
Proof.
  intros x k H. induction k as [|k IH]; [simpl; lra|]. rewrite power_next by assumption. nra.
Qed.

Lemma power_ascends : forall (x : Q) a b, 1 < x -> x ^ Z.of_nat a <= x ^ Z.of_nat b -> (a <= b)%nat.
Proof.
  intros x a b H K. destruct (le_lt_dec a b) as [L|L]; [assumption|]. exfalso. revert K. apply Qlt_not_le.
  induction L as [|a L IH]; rewrite power_next by lra.
  - assert (X := power_least x b ltac:(lra)). nra.
  - assert (X := power_least x a ltac:(lra)). nra.
Qed.

(** *** What a row of each kind does to the tail t, to the rest c = one - t, and to the gap g; d is D *)
Section Kinds.
Variables e d : Q.
Hypothesis e_more : 1 < e.
Hypothesis d_least : 2 * e * (2 * e - 1) <= d * (e - 1).

Lemma d_four : 4 * e <= d.
Proof. nra. Qed.

Lemma tail_grows : forall x t t', d * x <= d + 2 * (e - 1) * t -> e * t + d - 1 <= t' ->
  d * (e * x) <= d + 2 * (e - 1) * t'.
Proof. intros x t t' H K. assert (F := d_four). nra. Qed.

Lemma tail_stays : forall x t t', d * x <= d + 2 * (e - 1) * t -> t <= t' -> d * x <= d + 2 * (e - 1) * t'.
Proof. intros x t t' H K. nra. Qed.

Lemma rest_shrinks : forall x y c c', 0 <= x -> x * (d + 2 * (e - 1) * c) <= y -> e * c' <= c - d + 2 * e ->
  e * x * (d + 2 * (e - 1) * c') <= y.
Proof.
  intros x y c c' X H K. assert (F := d_four).
  assert (L : e * (d + 2 * (e - 1) * c') <= d + 2 * (e - 1) * c) by nra. nra.
Qed.

Lemma rest_stays : forall x y c c', 0 <= x -> x * (d + 2 * (e - 1) * c) <= y -> c' <= c ->
  x * (d + 2 * (e - 1) * c') <= y.
Proof.
  intros x y c c' X H K. assert (L : d + 2 * (e - 1) * c' <= d + 2 * (e - 1) * c) by nra. nra.
Qed.

Lemma gap_new : forall y g one, 1 <= y -> d + 2 * (e - 1) * one <= d * y -> g <= one ->
  d + 2 * ((e - 1) * g + 1) <= d * (e * y).
Proof.
  intros y g one Y H K. assert (A := times (e - 1) g one ltac:(lra) K).
  assert (F : 2 <= d * (e - 1)) by nra. assert (B := times (d * (e - 1)) 1 y ltac:(lra) Y). lra.
Qed.

Lemma gap_grows : forall y g g', d + 2 * ((e - 1) * g + 1) <= d * y -> g' <= e * g + 1 ->
  d + 2 * ((e - 1) * g' + 1) <= d * (e * y).
Proof. intros y g g' H K. assert (F := d_four). nra. Qed.

Lemma gap_stays : forall y g g', 0 <= g -> d + 2 * ((e - 1) * g + 1) <= d * y -> g' <= g + 1 ->
  d + 2 * ((e - 1) * g' + 1) <= d * (e * y).
Proof. intros y g g' G H K. apply (gap_grows y g); [assumption|]. nra. Qed.

Lemma gap_shrinks : forall y g g', d + 2 * ((e - 1) * g + 1) <= d * (e * y) -> e * g' <= g - d + 2 * e ->
  d + 2 * ((e - 1) * g' + 1) <= d * y.
Proof.
  intros y g g' H K. apply (Qmult_le_l _ _ e); [lra|].
  assert (L : (e - 1) * (e * g') <= (e - 1) * (g - d + 2 * e)) by nra. nra.
Qed.

End Kinds.
Close Scope Q_scope.

(** *** One tail *)
Section Supports.
Variables (E I R one D : Z) (grid : nat) (pi : nat -> Z) (n : nat).

Hypothesis R_pos : 0 < R.
Hypothesis I_range : 0 < I < R.
Hypothesis I_least : R * R <= E * I.
Hypothesis I_most : E * I * one <= R * R * one + E * R.
Hypothesis D_range : 2 <= D < one.
Hypothesis D_least : 2 * E * (2 * E - R) <= D * R * (E - R).
Hypothesis grid_range : (1 <= grid)%nat /\ Z.of_nat grid <= D.
Hypothesis pi_0 : pi 0 = 0.
Hypothesis pi_steps : forall i, pi i <= pi (S i) <= allowed E I R one D (pi i).

Notation e := (frac E R).
Notation M := (M E I R one D).
Notation power k := (e ^ Z.of_nat k)%Q.

Hypothesis n_least : (inject_Z D + 2 * (e - 1) * inject_Z one <= inject_Z D * power n)%Q.

Lemma E_more : R < E.
Proof. nia. Qed.

Lemma allowed_most : forall p, allowed E I R one D p <= one.
Proof.
  intros p. unfold allowed. destruct (Z.leb_spec one (p + D)); [lia|].
  assert (0 <= (one - p - D) * I / R) by (apply Z.div_pos; nia). lia.
Qed.

Lemma pi_within : forall i, 0 <= pi i <= one.
Proof.
  induction i as [|i IH]; [lia|]. assert (A := pi_steps i). assert (B := allowed_most (pi i)). lia.
Qed.

Section Step.
Variables p P t : Z.
Hypothesis p_range : 0 <= p <= one.
Hypothesis P_range : p <= P <= allowed E I R one D p.
Hypothesis t_range : 0 <= t <= p.
Hypothesis not_cut : M p P t < P.

(** The kinds of rows: t grows, shrinks from one, or shrinks from pi. *)
Lemma kinds :
  (E * t + R * D - R <= R * M p P t /\ R * (P - M p P t) <= E * (p - t) + R) \/
  (0 <= one - D - t /\ R * (one - M p P t) <= R + (one - D - t) * I /\ P - M p P t <= p - t + 1) \/
  (D <= p - t /\ R * (P - M p P t) <= R + (p - D - t) * I).
Proof.
  assert (Em := E_more). revert not_cut. unfold Rounding.M. destruct (t <=? switch E I R one D p P) eqn:Kind; intros C.
  - left. assert (G := grow_spec E R D grid R_pos grid_range t). assert (Gp := grow_spec E R D grid R_pos grid_range p).
    assert (P <= grow E R D p) by (unfold allowed in P_range; destruct (one <=? p + D); lia).
    assert (R * P <= R * grow E R D p) by nia. lia.
  - right. revert C. unfold shrink, top, start. destruct (from_one I R one D p P); intros C.
    + left. assert (Y := div_spec D grid grid_range ((one - D - t) * I) R R_pos). set (y := (one - D - t) * I / R) in *.
      assert (PA := allowed_most p).
      assert (0 <= one - D - t) by (destruct (Z.lt_ge_cases (one - D - t) 0); [assert (y < 0) by nia; lia|lia]).
      split; [assumption|]. split; [nia|].
      unfold allowed in P_range. destruct (Z.leb_spec one (p + D)).
      * assert (R * y <= R * (p - t)) by nia. assert (y <= p - t) by nia. lia.
      * assert (X := div_spec D grid grid_range ((one - p - D) * I) R R_pos). set (x := (one - p - D) * I / R) in *.
        assert (R * (y - x) < R * (p - t + 1)) by nia. assert (y - x < p - t + 1) by nia. lia.
    + right. assert (Y := div_spec D grid grid_range ((p - D - t) * I) R R_pos). set (y := (p - D - t) * I / R) in *.
      split; [|nia]. destruct (Z.lt_ge_cases (p - D - t) 0); [assert (y < 0) by nia; lia|lia].
Qed.
End Step.

Open Scope Q_scope.

Lemma e_more : 1 < e.
Proof.
  assert (H := E_more). unfold frac. apply Qlt_shift_div_l; [apply inject_pos; assumption|].
  rewrite Qmult_1_l, <- Zlt_Qlt. assumption.
Qed.

Lemma e_times_R : e * inject_Z R == inject_Z E.
Proof. assert (H := inject_pos R R_pos). unfold frac. field. lra. Qed.

Lemma inv_times_R : frac I R * inject_Z R == inject_Z I.
Proof. assert (H := inject_pos R R_pos). unfold frac. field. lra. Qed.

Lemma d_least : 2 * e * (2 * e - 1) <= inject_Z D * (e - 1).
Proof.
  assert (H := D_least). rewrite Zle_Qle in H. unfold Z.sub in H.
  rewrite !inject_Z_mult, !inject_Z_plus, !inject_Z_opp, !inject_Z_mult in H. rewrite <- e_times_R in H.
  change (inject_Z 2) with 2 in H. assert (P := inject_pos R R_pos). set (r := inject_Z R) in *.
  set (d := inject_Z D) in *. set (x := e) in *.
  apply (Qmult_le_l _ _ (r * r)); [nra|]. lra.
Qed.

(** The bound of 1 / e costs at most one unit. *)
Lemma inv_most : forall c, (0 <= c <= one)%Z -> e * (frac I R * inject_Z c) <= inject_Z c + e.
Proof.
  intros c C. assert (H : (E * I * c <= R * R * c + E * R)%Z).
  { assert (J := I_most). assert (X := E_more). clear - J X C R_pos I_least.
    destruct (Z.le_gt_cases (E * I - R * R) 0); [nia|].
    assert ((E * I - R * R) * c <= (E * I - R * R) * one)%Z by nia. nia. }
  rewrite Zle_Qle in H. rewrite !inject_Z_plus, !inject_Z_mult in H. rewrite <- e_times_R, <- inv_times_R in H.
  assert (P := inject_pos R R_pos). set (r := inject_Z R) in *. set (x := e) in *. set (y := frac I R) in *.
  apply (Qmult_le_l _ _ (r * r)); [nra|]. lra.
Qed.

(** A tail t below pi = p, m rows after it was new: in a of them it grew, in b it shrank from one. *)
Definition follows (p t : Z) (m : nat) : Prop :=
  (0 <= t <= p)%Z /\ exists a b k : nat,
    inject_Z D * power a <= inject_Z D + 2 * (e - 1) * inject_Z t /\
    power b * (inject_Z D + 2 * (e - 1) * (inject_Z one - inject_Z t)) <= inject_Z D * power n /\
    inject_Z D + 2 * ((e - 1) * (inject_Z p - inject_Z t) + 1) <= inject_Z D * power k /\
    (k + m <= n + 1 + 2 * a + 2 * b)%nat.

Lemma D_pos : 2 <= inject_Z D.
Proof. change 2 with (inject_Z 2). rewrite <- Zle_Qle. lia. Qed.

Lemma follows_new : forall p t, (0 <= t <= p)%Z -> (p <= one)%Z -> follows p t 0.
Proof.
  intros p t T O. split; [assumption|]. exists 0%nat, 0%nat, (n + 1)%nat.
  assert (T0 : 0 <= inject_Z t) by (change 0 with (inject_Z 0); rewrite <- Zle_Qle; lia).
  assert (O' : inject_Z p <= inject_Z one) by (rewrite <- Zle_Qle; lia).
  assert (X := e_more). assert (N := n_least). assert (L := d_least).
  replace (n + 1)%nat with (S n) by lia. rewrite power_next by lra.
  assert (Pn := power_least e n ltac:(lra)). change (power 0) with 1.
  assert (W := times (e - 1) 0 (inject_Z t) ltac:(lra) T0).
  split; [lra|]. split; [lra|]. split; [|lia].
  apply (gap_new e _ X L _ _ (inject_Z one)); lra.
Qed.

Lemma follows_short : forall p t m, (p <= one)%Z -> follows p t m -> (m <= 5 * n + 1)%nat.
Proof.
  intros p t m O (T & a & b & k & A & B & _ & L). assert (X := e_more). assert (N := n_least). assert (D0 := D_pos).
  assert (T1 : inject_Z t <= inject_Z one) by (rewrite <- Zle_Qle; lia).
  assert (Pb := power_least e b ltac:(lra)).
  assert (a <= n)%nat by (apply (power_ascends e); [assumption|]; apply (Qmult_le_l _ _ (inject_Z D)); [lra|]; nra).
  assert (b <= n)%nat.
  { apply (power_ascends e); [assumption|]. apply (Qmult_le_l _ _ (inject_Z D)); [lra|].
    assert (0 <= (e - 1) * (inject_Z one - inject_Z t)) by nra. nra. }
  lia.
Qed.

Lemma follows_next : forall p P t m, (0 <= p <= one)%Z -> (p <= P <= allowed E I R one D p)%Z ->
  follows p t m -> (M p P t < P)%Z -> follows P (M p P t) (S m).
Proof.
  intros p P t m Rp RP (T & a & b & k & A & B & C & L) Cut.
  assert (X := e_more). assert (D0 := D_pos). assert (Le := d_least).
  assert (Po := allowed_most p).
  assert (Up : (t <= M p P t)%Z).
  { assert (Em := E_more).
    destruct (M_stays E I R one D grid R_pos ltac:(lia) I_range D_range grid_range p P Rp ltac:(lia) t T); lia. }
  assert (Pb := power_least e b ltac:(lra)).
  assert (G0 : 0 <= inject_Z p - inject_Z t) by (assert (inject_Z t <= inject_Z p) by (rewrite <- Zle_Qle; lia); lra).
  assert (Up' : inject_Z t <= inject_Z (M p P t)) by (rewrite <- Zle_Qle; assumption).
  split; [lia|]. destruct (kinds p P t Rp RP T Cut) as [[K1 K2]|[(K0 & K1 & K2)|[K1 K2]]]; set (t' := M p P t) in *.
  - exists (S a), b, (S k). rewrite !power_next by lra.
    assert (J1 : e * inject_Z t + inject_Z (D - 1) <= inject_Z t') by (apply over_least; [assumption|lia]).
    assert (J2 : inject_Z (P - t') <= e * inject_Z (p - t) + inject_Z 1) by (apply over_most; [assumption|lia]).
    rewrite ?inject_sub in *. change (inject_Z 1) with 1 in *.
    split; [|split; [|split; [|lia]]].
    + apply (tail_grows e _ X Le _ (inject_Z t)); lra.
    + apply (rest_stays e _ X _ _ (inject_Z one - inject_Z t)); lra.
    + apply (gap_grows e _ X Le _ (inject_Z p - inject_Z t)); lra.
  - exists a, (S b), (S k). rewrite !power_next by lra.
    assert (J1 : inject_Z (one - t') <= frac I R * inject_Z (one - D - t) + inject_Z 1)
      by (apply over_most; [assumption|lia]).
    assert (J2 := inv_most (one - D - t) ltac:(lia)).
    assert (J3 : e * inject_Z (one - t') <= inject_Z (one - D - t) + 2 * e) by (change (inject_Z 1) with 1 in J1; nra).
    assert (J4 : inject_Z (P - t') <= inject_Z (p - t + 1)) by (rewrite <- Zle_Qle; assumption).
    rewrite inject_Z_plus in J4. clear J1 J2. rewrite ?inject_sub in *. change (inject_Z 1) with 1 in *.
    split; [|split; [|split; [|lia]]].
    + apply (tail_stays e _ X _ (inject_Z t)); lra.
    + apply (rest_shrinks e _ X Le _ _ (inject_Z one - inject_Z t)); lra.
    + apply (gap_stays e _ X Le _ (inject_Z p - inject_Z t)); lra.
  - destruct k as [|k].
    { exfalso. change (power 0) with 1 in C. nra. }
    exists a, b, k. rewrite power_next in C by lra.
    assert (J1 : inject_Z (P - t') <= frac I R * inject_Z (p - D - t) + inject_Z 1)
      by (apply over_most; [assumption|lia]).
    assert (J2 := inv_most (p - D - t) ltac:(lia)).
    assert (J3 : e * inject_Z (P - t') <= inject_Z (p - D - t) + 2 * e) by (change (inject_Z 1) with 1 in J1; nra).
    clear J1 J2. rewrite ?inject_sub in *.
    split; [|split; [|split; [|lia]]].
    + apply (tail_stays e _ X _ (inject_Z t)); lra.
    + apply (rest_stays e _ X _ _ (inject_Z one - inject_Z t)); lra.
    + apply (gap_shrinks e _ X Le _ (inject_Z p - inject_Z t)); lra.
Qed.
Close Scope Q_scope.

(** *** All tails of a row: but for the last one, each is as old as its place says *)

Lemma old_tails_map : forall p P l z, exists l' z', old_tails E I R one D p P (l ++ [z]) = l' ++ [z'] /\
  (length l' <= length l)%nat /\
  forall j, (j < length l')%nat -> M p P (nth j l 0) < P /\ nth j l' 0 = M p P (nth j l 0).
Proof.
  intros p P l z. induction l as [|t l (l' & z' & H & L & K)]; cbn [app old_tails].
  - destruct (P <=? M p P z); [exists [], P|exists [], (M p P z)]; simpl; repeat split; lia.
  - destruct (Z.leb_spec P (M p P t)).
    + exists [], P. simpl. repeat split; lia.
    + exists (M p P t :: l'), z'. rewrite H. cbn [app length]. split; [reflexivity|]. split; [lia|].
      intros [|j] J; cbn [nth]; [split; [assumption|reflexivity]|]. apply K. lia.
Qed.

Lemma ages : forall i, exists l z, tails E I R one D grid pi i = l ++ [z] /\
  forall j, (j < length l)%nat -> follows (pi i) (nth j l 0) (j / grid).
Proof.
  induction i as [|i (l & z & T & F)].
  - exists [], 0. split; [reflexivity|]. simpl. lia.
  - destruct (old_tails_map (pi i) (pi (S i)) l z) as (l' & z' & H & L & K).
    assert (W := pi_within i). assert (W' := pi_within (S i)).
    exists (new_tails D grid (pi (S i)) ++ l'), z'. split.
    { cbn [tails]. rewrite T, H, app_assoc. reflexivity. }
    assert (Len : length (new_tails D grid (pi (S i))) = grid)
      by (unfold new_tails; rewrite map_length, seq_length; reflexivity).
    intros j J. rewrite app_length, Len in J. destruct (le_lt_dec grid j) as [O|O].
    + rewrite app_nth2 by lia. rewrite Len. destruct (K (j - grid)%nat ltac:(lia)) as [K1 ->].
      replace (j / grid)%nat with (S ((j - grid) / grid)).
      * apply follows_next; [assumption|apply pi_steps|apply F; lia|assumption].
      * replace j with ((j - grid) + 1 * grid)%nat at 2 by lia. rewrite Nat.div_add by lia. lia.
    + rewrite app_nth1 by lia. rewrite Nat.div_small by assumption. apply follows_new; [|lia].
      unfold new_tails. set (f := fun k => Z.of_nat k * Z.min D (pi (S i)) / Z.of_nat grid).
      rewrite (nth_indep _ 0 (f 0%nat)) by (rewrite map_length, seq_length; assumption).
      rewrite map_nth, seq_nth by assumption. unfold f. cbn [Nat.add].
      split; [apply Z.div_pos; nia|]. apply Z.div_le_upper_bound; [lia|]. nia.
Qed.

Lemma short : forall i, (length (tails E I R one D grid pi i) <= (5 * n + 3) * grid + 1)%nat.
Proof.
  intros i. destruct (ages i) as (l & z & -> & F). rewrite app_length. cbn [length].
  destruct (le_lt_dec (length l) ((5 * n + 2) * grid)) as [H|H]; [nia|].
  specialize (F _ H). rewrite Nat.div_mul in F by lia.
  assert (X := follows_short _ _ _ ltac:(apply pi_within) F). lia.
Qed.
End Supports.

(** ** Theorems *)

(** Smaller premises would do: D (e - 1) >= 2 e (2 e - 1). *)
Lemma smaller_premise : forall E R D, 0 < R -> R <= 2 ^ 40 * (E - R) -> 2 ^ 74 * E <= D * R ->
  2 * E * (2 * E - R) <= D * R * (E - R).
Proof.
  intros E R D H K L. assert (2 ^ 74 * E * (E - R) <= D * R * (E - R)) by nia. nia.
Qed.

Theorem supports_are_short :
  forall (E I R one D : Z) (grid : nat) (pi : nat -> Z) (n : nat),
  (* the numbers: e = E / R, and 1 / e <= I / R <= 1 / e + 1 / one *)
  0 < R -> 0 < I < R -> R * R <= E * I -> E * I * one <= R * R * one + E * R -> D < one ->
  (1 <= grid)%nat /\ Z.of_nat grid <= D ->
  (* e - 1 >= 2^-40, and D >= 2^74 e *)
  R <= 2 ^ 40 * (E - R) -> 2 ^ 74 * E <= D * R ->
  (* pi takes private steps *)
  pi 0%nat = 0 -> (forall i, pi i <= pi (S i) <= allowed E I R one D (pi i)) ->
  (1 + 2 * (frac E R - 1) * frac one D <= frac E R ^ Z.of_nat n)%Q ->
  forall i, (length (tails E I R one D grid pi i) <= (5 * n + 3) * grid + 1)%nat.
Proof.
  intros E I R one D grid pi n H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H11.
  assert (2 ^ 74 <= D) by nia.
  apply short; try assumption; [lia|apply smaller_premise; assumption|].
  assert (0 < inject_Z D)%Q by (apply inject_pos; lia).
  assert (frac one D * inject_Z D == inject_Z one)%Q by (unfold frac; field; lra).
  assert (inject_Z D * (1 + 2 * (frac E R - 1) * frac one D) <= inject_Z D * frac E R ^ Z.of_nat n)%Q
    by (apply Qmult_le_l; assumption). nra.
Qed.

Theorem rounding_with_short_supports_is_private :
  forall (E I R one D : Z) (grid : nat) (pi low high : nat -> Z) (G : Z) (n : nat) (delta : Q) (q : nat -> Q),
  (* the numbers: e = E / R, and 1 / e <= I / R <= 1 / e + 1 / one *)
  0 < R -> 0 < I < R -> R * R <= E * I -> E * I * one <= R * R * one + E * R -> D < one ->
  (1 <= grid)%nat /\ Z.of_nat grid <= D ->
  (* e - 1 >= 2^-40, and D >= 2^74 e *)
  R <= 2 ^ 40 * (E - R) -> 2 ^ 74 * E <= D * R ->
  (* pi takes private steps *)
  pi 0%nat = 0 -> (forall i, pi i <= pi (S i) <= allowed E I R one D (pi i)) ->
  (* and stays below the bounds of q, which are at most G units apart *)
  (forall i, pi i <= low i /\ low i <= high i <= one /\ 1 <= high i /\ high i - low i <= G) ->
  (forall i, frac (low i) one <= q i <= frac (high i) one)%Q ->
  (* the number of tokens *)
  (1 + 2 * (frac E R - 1) * frac one D <= frac E R ^ Z.of_nat n)%Q ->
  let N := ((5 * n + 3) * grid + 1)%nat in
  (inject_Z D + inject_Z (Z.of_nat N) * (3 + 2 * frac E R) + (frac E R + 1) * (inject_Z G + 5)
     <= delta * inject_Z one)%Q ->
  let rows := fun i => row_at E I R one D grid pi high i (q i) in
  (forall i, law (rows i)) /\ private (frac E R) delta rows.
Proof.
  intros E I R one D grid pi low high G n delta q H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H11 H12 H13 N H14.
  assert (R < E) by lia. assert (2 ^ 74 <= D) by nia.
  apply (rounding_is_private E I R one D grid pi low high G N delta q); try assumption; try lia.
  apply supports_are_short; assumption.
Qed.
