(** * The tail map

    docs/theory.md, section 3.  In words:

    Tokens are multiples of 1/grid.  Let S_i(x) be the probability that a key of
    frequency i is reported with a token above x.  The tokens in (i, i+1] are new
    in row i + 1, and have min(delta, pi_(i+1)) spread evenly.  For older ones

        S_(i+1)(x) = min( pi_(i+1),  E S_i(x) + delta,  1 - (1 - S_i(x) - delta) / E,
                          pi_(i+1) - (pi_i - S_i(x) - delta) / E ).

    With pi of Reporting.v, for every non-decreasing q, this is a scheme, it is
    (E, delta)-private, and it reports each frequency i with probability pi_i
    [tail_map_is_private]: as often as any private scheme can.

    In every private scheme that reports as often, the probability of any set of
    tokens is, from one frequency to the next, at most what this map makes of it
    [no_private_scheme_separates_more]: no tokens tell frequencies apart better.

    The rows of a grid are those of any finer grid, with tokens rounded up
    [a_grid_is_a_coarsening]; Coarsening.v has the theorem that what is rounded
    stays private. *)

From Coq Require Import ZArith QArith Qminmax Lqa Lia List Arith.
From DPSample Require Import Rows Reporting.
Import ListNotations.
Open Scope Q_scope.

(** ** Definitions *)

Section TailMap.
Variables (E delta : Q) (q : nat -> Q).

Notation pi := (pi E delta q).

(** One step of a tail s, while pi goes from p to P. *)
Definition F (p P s : Q) : Q :=
  Qmin P (Qmin (grow E delta s) (Qmin (shrink E delta s) (P - (p - s - delta) / E))).

Definition of_nat (n : nat) : Q := inject_Z (Z.of_nat n).

(** S_i(x), with x in units of 1/grid; 0 from the highest token, i * grid, on. *)
Fixpoint S (grid : nat) (i x : nat) : Q :=
  match i with
  | O => 0
  | Datatypes.S j =>
      if (x <=? j * grid)%nat
      then F (pi j) (pi i) (S grid j x)
      else of_nat (i * grid - x) / of_nat grid * Qmin delta (pi i)
  end.

(** The row of frequency i: "not reported", then tokens 1/grid, 2/grid, ..., i. *)
Definition tail_map (grid : nat) : scheme := fun i =>
  (1 - pi i) :: map (fun x => S grid i x - S grid i (Datatypes.S x)) (seq 0 (i * grid)).

(** ** Proofs *)

Hypothesis E_least : 1 <= E.
Hypothesis delta_range : 0 <= delta <= 1.

Let I := / E.

Lemma I_E : I * E == 1.
Proof. unfold I. field. lra. Qed.

Lemma I_range : 0 < I <= 1.
Proof.
  assert (H := I_E). split; [|nra]. unfold I. apply Qinv_lt_0_compat. lra.
Qed.

(** The part that shrinks: both its terms, in one. *)
Definition start (p P : Q) : Q := Qmax (p - delta) (1 - delta - E * (1 - P)).

Lemma start_max : forall p P, p - delta <= start p P /\ 1 - delta - E * (1 - P) <= start p P.
Proof. intros. unfold start. split; [apply Q.le_max_l|apply Q.le_max_r]. Qed.

Lemma F_le : forall p P s,
  F p P s <= P /\ F p P s <= E * s + delta /\ F p P s <= 1 - I * (1 - s - delta) /\ F p P s <= P - I * (p - s - delta).
Proof.
  intros p P s. unfold F, shrink, grow, Qdiv. fold I.
  set (a := E * s + delta). set (b := 1 - (1 - s - delta) * I). set (c := P - (p - s - delta) * I).
  assert (H1 := Q.le_min_l P (Qmin a (Qmin b c))). assert (H2 := Q.le_min_r P (Qmin a (Qmin b c))).
  assert (H3 := Q.le_min_l a (Qmin b c)). assert (H4 := Q.le_min_r a (Qmin b c)).
  assert (H5 := Q.le_min_l b c). assert (H6 := Q.le_min_r b c). unfold b, c in *. repeat split; lra.
Qed.

Lemma F_glb : forall p P s x,
  x <= P -> x <= E * s + delta -> x <= 1 - I * (1 - s - delta) -> x <= P - I * (p - s - delta) -> x <= F p P s.
Proof.
  intros. unfold F, shrink, grow, Qdiv. fold I. repeat apply Q.min_glb; try assumption; lra.
Qed.

Lemma F_ascending : forall p P s t, s <= t -> F p P s <= F p P t.
Proof.
  intros p P s t H. destruct (F_le p P s) as (A & B & C & D). assert (R := I_range).
  assert (0 <= E * (t - s)) by nra. assert (0 <= I * (t - s)) by nra. apply F_glb; lra.
Qed.

(** No token grows by more than E. *)
Lemma F_grows : forall p P s t, s <= t -> F p P t - F p P s <= E * (t - s).
Proof.
  intros p P s t H. destruct (F_le p P t) as (A & B & C & D). assert (R := I_range).
  assert (0 <= (E - 1) * (t - s)) by nra. assert (0 <= (1 - I) * (t - s)) by nra.
  assert (F p P t - E * (t - s) <= F p P s); [|lra]. apply F_glb; lra.
Qed.

(** No token below [start] shrinks by more than E; above it, what is lost is counted by [lost]. *)
Definition lost (p P s : Q) : Q := Qmax 0 (s - start p P).

Lemma lost_bounds : forall p P s, 0 <= lost p P s /\ s - start p P <= lost p P s.
Proof. intros. unfold lost. split; [apply Q.le_max_l|apply Q.le_max_r]. Qed.

Lemma lost_lub : forall p P s x, 0 <= x -> s - start p P <= x -> lost p P s <= x.
Proof. intros. unfold lost. apply Q.max_lub; assumption. Qed.

Lemma lost_ascending : forall p P s t, s <= t -> lost p P s <= lost p P t.
Proof. intros p P s t H. destruct (lost_bounds p P t). apply lost_lub; lra. Qed.

Lemma F_shrinks : forall p P s t, s <= t ->
  (t - s) - E * (F p P t - F p P s) <= lost p P t - lost p P s.
Proof.
  intros p P s t H. destruct (F_le p P s) as (A & B & C & D). assert (R := I_range). assert (IE := I_E).
  destruct (lost_bounds p P t) as [T0 T1]. destruct (lost_bounds p P s) as [S0 S1].
  assert (M : start p P == p - delta \/ start p P == 1 - delta - E * (1 - P)).
  { unfold start. destruct (Q.max_spec (p - delta) (1 - delta - E * (1 - P))) as [[_ ->]|[_ ->]]; [right|left]; reflexivity. }
  set (kept := t - s - (lost p P t - lost p P s)) in *.
  assert (kept <= t - s) by (unfold kept; assert (L := lost_ascending p P s t H); lra).
  assert (Kept : I * kept <= I * (t - s)) by nra.
  assert (Grow : I * (t - s) <= E * (t - s)) by nra.
  assert (Top : F p P s + I * kept <= P).
  { (* from [start] on nothing is kept; below it, both terms reach P at [start] *)
    assert (Cases : s - start p P <= 0 \/ 0 <= s - start p P) by (destruct (Qlt_le_dec (s - start p P) 0); lra).
    destruct Cases as [Below|Above].
    - assert (lost p P s <= 0) by (apply lost_lub; lra).
      assert (kept <= start p P - s) by (unfold kept; lra).
      assert (I * kept <= I * (start p P - s)) by nra.
      assert (IE1 : I * (E * (1 - P)) == 1 - P) by (rewrite Qmult_assoc, IE; ring).
      destruct M as [M|M]; rewrite M in *; nra.
    - assert (lost p P s <= s - start p P) by (apply lost_lub; lra).
      assert (kept <= 0) by (unfold kept; lra). nra. }
  assert (F p P s + I * kept <= F p P t) by (apply F_glb; lra).
  assert (E * (I * kept) == kept) by (rewrite Qmult_assoc, (Qmult_comm E), IE; ring).
  assert (E * (I * kept) <= E * (F p P t - F p P s)) by nra. unfold kept in *. lra.
Qed.

Lemma of_nat_le : forall a b, (a <= b)%nat -> of_nat a <= of_nat b.
Proof. intros a b H. unfold of_nat. rewrite <- Zle_Qle. lia. Qed.

Lemma of_nat_pos : forall a, (1 <= a)%nat -> 0 < of_nat a.
Proof. intros a H. unfold of_nat. change 0 with (inject_Z 0). rewrite <- Zlt_Qlt. lia. Qed.

Section Sampled.
Hypothesis q_range : forall i, 0 <= q i <= 1.
Hypothesis q_ascending : forall i, q i <= q (Datatypes.S i).
Variable grid : nat.
Hypothesis grid_least : (1 <= grid)%nat.

Lemma delta_nonneg : 0 <= delta.
Proof. lra. Qed.

Let step := pi_step E delta q.
Let range i := pi_range E delta q E_least delta_nonneg q_range i.
Let ascending i := pi_ascending E delta q E_least delta_nonneg q_range q_ascending i.

(** All of pi is used. *)
Lemma F_top : forall i, F (pi i) (pi (Datatypes.S i)) (pi i) == pi (Datatypes.S i).
Proof.
  intros i. destruct (step i) as (A & B & C). unfold grow in B. unfold shrink, Qdiv in C. fold I in C.
  destruct (F_le (pi i) (pi (Datatypes.S i)) (pi i)) as (D & _). assert (R := I_range).
  assert (0 <= I * delta) by nra.
  assert (pi (Datatypes.S i) <= F (pi i) (pi (Datatypes.S i)) (pi i)); [|lra].
  apply F_glb; try lra.
Qed.

(** New tokens fit where the old ones end. *)
Lemma F_0 : forall i, F (pi i) (pi (Datatypes.S i)) 0 == Qmin delta (pi (Datatypes.S i)).
Proof.
  intros i. set (p := pi i). set (P := pi (Datatypes.S i)). set (m := Qmin delta P).
  assert (Up : p <= P) by apply ascending. destruct (range i) as [Rp _]. fold p in Rp.
  assert (M1 : m <= delta) by apply Q.le_min_l. assert (M2 : m <= P) by apply Q.le_min_r. assert (R := I_range).
  destruct (F_le p P 0) as (A & B & C & D).
  assert (F p P 0 <= m) by (apply Q.min_glb; lra).
  assert (m <= F p P 0); [|lra]. apply F_glb; [assumption|lra|nra|].
  destruct (Qlt_le_dec p delta); [assert (0 <= I * (delta - p)) by nra; lra|].
  assert (I * (p - delta) <= p - delta) by nra. lra.
Qed.

(** New tokens: from all of the new mass down to 0. *)
Definition new (i x : nat) : Q := of_nat (Datatypes.S i * grid - x) / of_nat grid * Qmin delta (pi (Datatypes.S i)).

Lemma new_mass : forall i, 0 <= Qmin delta (pi (Datatypes.S i)) <= delta.
Proof.
  intros i. split; [|apply Q.le_min_l]. apply Q.min_glb; [apply delta_nonneg|apply range].
Qed.

Lemma new_descends : forall i x y, (x <= y)%nat -> new i y <= new i x.
Proof.
  intros i x y H. unfold new. apply Qmult_le_compat_r; [|apply new_mass].
  unfold Qdiv. apply Qmult_le_compat_r.
  - apply of_nat_le. lia.
  - apply Qinv_le_0_compat, Qlt_le_weak, of_nat_pos, grid_least.
Qed.

Lemma new_first : forall i, new i (i * grid) == Qmin delta (pi (Datatypes.S i)).
Proof.
  intros i. unfold new. replace (Datatypes.S i * grid - i * grid)%nat with grid by (simpl; lia).
  field. assert (H := of_nat_pos grid grid_least). lra.
Qed.

Lemma new_last : forall i, new i (Datatypes.S i * grid) == 0.
Proof. intros i. unfold new. rewrite Nat.sub_diag. unfold of_nat, Qdiv. simpl. ring. Qed.

(** Tails descend from pi to 0. *)
Lemma tails : forall i,
  S grid i 0 == pi i /\ S grid i (i * grid) == 0 /\ forall x, S grid i (Datatypes.S x) <= S grid i x.
Proof.
  induction i as [|i (Top & Last & Down)]; [repeat split; intros; simpl; lra|].
  assert (Old : forall x, (x <= i * grid)%nat -> S grid (Datatypes.S i) x = F (pi i) (pi (Datatypes.S i)) (S grid i x)).
  { intros x H. cbn [S]. apply Nat.leb_le in H. rewrite H. reflexivity. }
  assert (New : forall x, (i * grid < x)%nat -> S grid (Datatypes.S i) x = new i x).
  { intros x H. cbn [S]. apply Nat.leb_gt in H. rewrite H. reflexivity. }
  assert (Comp : forall s t, s == t -> F (pi i) (pi (Datatypes.S i)) s == F (pi i) (pi (Datatypes.S i)) t).
  { intros s t H. assert (A := F_ascending (pi i) (pi (Datatypes.S i)) s t).
    assert (B := F_ascending (pi i) (pi (Datatypes.S i)) t s). lra. }
  split; [|split].
  - rewrite Old by lia. rewrite (Comp _ _ Top). apply F_top.
  - rewrite New by (simpl; lia). apply new_last.
  - intros x. destruct (le_lt_dec (Datatypes.S x) (i * grid)) as [H|H].
    + rewrite !Old by lia. apply F_ascending, Down.
    + rewrite (New (Datatypes.S x)) by lia. destruct (le_lt_dec x (i * grid)) as [K|K].
      * assert (x = (i * grid)%nat) as -> by lia. rewrite Old by lia.
        rewrite (Comp _ _ Last), F_0, <- new_first. apply new_descends. lia.
      * rewrite New by lia. apply new_descends. lia.
Qed.

(** Sums over tokens telescope. *)
Lemma telescope : forall e (a b h : nat -> Q) n s,
  (forall x, (s <= x < s + n)%nat -> positive_part (a x - e * b x) <= h x - h (Datatypes.S x)) ->
  excess e (map a (seq s n)) (map b (seq s n)) <= h s - h (s + n)%nat.
Proof.
  intros e a b h n. induction n as [|n IH]; intros s H; simpl.
  - rewrite Nat.add_0_r. lra.
  - specialize (IH (Datatypes.S s)). rewrite Nat.add_succ_r. cbn [plus] in IH.
    assert (excess e (map a (seq (Datatypes.S s) n)) (map b (seq (Datatypes.S s) n))
            <= h (Datatypes.S s) - h (Datatypes.S (s + n))) by (apply IH; intros; apply H; lia).
    assert (positive_part (a s - e * b s) <= h s - h (Datatypes.S s)) by (apply H; lia). lra.
Qed.

Lemma telescope_alone : forall e (a h : nat -> Q) n s,
  (forall x, (s <= x < s + n)%nat -> positive_part (a x) <= h x - h (Datatypes.S x)) ->
  excess e (map a (seq s n)) [] <= h s - h (s + n)%nat.
Proof.
  intros e a h n. induction n as [|n IH]; intros s H; simpl.
  - rewrite Nat.add_0_r. lra.
  - specialize (IH (Datatypes.S s)). rewrite Nat.add_succ_r. cbn [plus] in IH.
    assert (excess e (map a (seq (Datatypes.S s) n)) [] <= h (Datatypes.S s) - h (Datatypes.S (s + n)))
      by (apply IH; intros; apply H; lia).
    assert (positive_part (a s) <= h s - h (Datatypes.S s)) by (apply H; lia). lra.
Qed.

Lemma total : forall (f : nat -> Q) n s,
  mean (map (fun x => f x - f (Datatypes.S x)) (seq s n)) (fun _ => 1) == f s - f (s + n)%nat.
Proof.
  intros f n. induction n as [|n IH]; intros s; simpl; [rewrite Nat.add_0_r; ring|].
  rewrite IH, Nat.add_succ_r. cbn [plus]. ring.
Qed.

Lemma tail_map_law : forall i, law (tail_map grid i).
Proof.
  intros i. destruct (tails i) as (Top & Last & Down). destruct (range i) as [R _]. split.
  - constructor; [lra|]. apply Forall_map, Forall_forall. intros x _. assert (H := Down x). lra.
  - unfold tail_map. cbn [mean]. rewrite total. cbn [plus]. rewrite Top, Last. ring.
Qed.

Lemma rows_private : forall i,
  excess E (tail_map grid (Datatypes.S i)) (tail_map grid i) <= delta /\
  excess E (tail_map grid i) (tail_map grid (Datatypes.S i)) <= delta.
Proof.
  intros i. destruct (tails i) as (Top & Last & Down). destruct (tails (Datatypes.S i)) as (_ & Last' & Down').
  assert (Up : pi i <= pi (Datatypes.S i)) by apply ascending.
  destruct (range i) as [Ri _]. destruct (range (Datatypes.S i)) as [RSi _].
  destruct (step i) as (_ & _ & Shrink). apply (le_shrink E delta E_least) in Shrink.
  assert (Old : forall x, (x <= i * grid)%nat -> S grid (Datatypes.S i) x = F (pi i) (pi (Datatypes.S i)) (S grid i x)).
  { intros x H. cbn [S]. apply Nat.leb_le in H. rewrite H. reflexivity. }
  assert (Comp : forall s t, s == t -> F (pi i) (pi (Datatypes.S i)) s == F (pi i) (pi (Datatypes.S i)) t).
  { intros s t H. assert (A := F_ascending (pi i) (pi (Datatypes.S i)) s t).
    assert (B := F_ascending (pi i) (pi (Datatypes.S i)) t s). lra. }
  assert (Mass : S grid (Datatypes.S i) (i * grid) <= delta).
  { rewrite Old by lia. rewrite (Comp _ _ Last), F_0. apply new_mass. }
  set (a := fun x => S grid (Datatypes.S i) x - S grid (Datatypes.S i) (Datatypes.S x)).
  set (b := fun x => S grid i x - S grid i (Datatypes.S x)).
  set (p := pi i) in *. set (P := pi (Datatypes.S i)) in *.
  assert (Split : map a (seq 0 (Datatypes.S i * grid)) =
                  map a (seq 0 (i * grid)) ++ map a (seq (i * grid) grid)).
  { replace (Datatypes.S i * grid)%nat with (i * grid + grid)%nat by (simpl; lia).
    rewrite seq_app, map_app. reflexivity. }
  assert (Length : length (map a (seq 0 (i * grid))) = length (map b (seq 0 (i * grid)))).
  { rewrite !map_length. reflexivity. }
  unfold tail_map. fold a b p P. rewrite Split. cbn [excess]. split.
  - (* new tokens have delta at most; no other outcome grows by more than E *)
    assert (positive_part (1 - P - E * (1 - p)) <= 0) by (apply positive_part_le; nra).
    rewrite <- (app_nil_r (map b (seq 0 (i * grid)))), excess_app by assumption.
    assert (excess E (map a (seq 0 (i * grid))) (map b (seq 0 (i * grid))) <= 0 - 0).
    { apply (telescope E a b (fun _ => 0)). intros x H1. apply positive_part_le; [lra|]. unfold a, b.
      rewrite !Old by lia. assert (H2 := F_grows p P (S grid i (Datatypes.S x)) (S grid i x) (Down x)). lra. }
    assert (excess E (map a (seq (i * grid) grid)) []
            <= S grid (Datatypes.S i) (i * grid) - S grid (Datatypes.S i) (i * grid + grid)).
    { apply (telescope_alone E a (S grid (Datatypes.S i))). intros x H1. unfold a. apply positive_part_le; [|lra].
      assert (H2 := Down' x). lra. }
    replace (i * grid + grid)%nat with (Datatypes.S i * grid)%nat in H1 by (simpl; lia).
    rewrite Last' in H1. lra.
  - (* tokens that end, and "not reported", have delta at most *)
    rewrite <- (app_nil_r (map b (seq 0 (i * grid)))), excess_app by (symmetry; assumption). cbn [excess].
    assert (excess E (map b (seq 0 (i * grid))) (map a (seq 0 (i * grid)))
            <= lost p P (S grid i 0) - lost p P (S grid i (0 + i * grid))).
    { apply (telescope E b a (fun x => lost p P (S grid i x))). intros x H1. unfold a, b. rewrite !Old by lia.
      assert (H2 := Down x). apply positive_part_le.
      - assert (H3 := lost_ascending p P _ _ H2). lra.
      - apply F_shrinks. assumption. }
    assert (Lost : lost p P (S grid i 0) <= lost p P p) by (apply lost_ascending; lra).
    destruct (lost_bounds p P (S grid i (0 + i * grid))) as [L0 _].
    destruct (start_max p P) as [M1 M2].
    assert (lost p P p + positive_part (1 - p - E * (1 - P)) <= delta); [|lra].
    assert (L : lost p P p <= delta) by (apply lost_lub; lra).
    assert (L' : lost p P p <= Qmax 0 (delta - (1 - p - E * (1 - P)))).
    { apply lost_lub; [apply Q.le_max_l|]. apply Qle_trans with (delta - (1 - p - E * (1 - P))); [lra|apply Q.le_max_r]. }
    unfold positive_part. destruct (Qle_bool (1 - p - E * (1 - P)) 0); [lra|].
    rewrite Q.max_r in L' by lra. lra.
Qed.
End Sampled.

(** ** Theorems *)

Theorem tail_map_is_private : forall grid, (1 <= grid)%nat ->
  (forall i, 0 <= q i <= 1) -> (forall i, q i <= q (Datatypes.S i)) ->
  (forall i, law (tail_map grid i)) /\
  private E delta (tail_map grid) /\
  forall i, reported (tail_map grid i) == pi i.
Proof.
  intros grid G R A.
  assert (Laws := tail_map_law R A grid G). split; [exact Laws|]. split.
  - apply private_iff_neighbouring_rows; [lra|exact Laws|]. apply rows_private; assumption.
  - intros i. assert (H := Laws i). destruct H as [_ H]. unfold reported, prob, tail_map in *. cbn [mean Nat.eqb negb] in *.
    lra.
Qed.

(** A set, and what is left of a larger one. *)
Lemma prob_without : forall r A B, (forall j, A j = true -> B j = true) ->
  prob r (fun j => andb (B j) (negb (A j))) == prob r B - prob r A.
Proof.
  unfold prob. induction r as [|x r IH]; intros A B H; cbn [mean]; [ring|].
  rewrite (IH (fun j => A (Datatypes.S j)) (fun j => B (Datatypes.S j))) by (intros j; apply H).
  specialize (H 0%nat). destruct (A 0%nat), (B 0%nat); cbn [andb negb]; try ring. discriminate (H eq_refl).
Qed.

Theorem no_private_scheme_separates_more : forall P : scheme,
  (forall i, law (P i)) -> private E delta P -> (forall i, reported (P i) == pi i) ->
  forall (A : nat -> bool), A 0%nat = false ->
  forall i, prob (P (Datatypes.S i)) A <= F (pi i) (pi (Datatypes.S i)) (prob (P i) A).
Proof.
  intros P L H R A A0 i. assert (HE : 0 <= E) by lra.
  destruct (proj1 (private_iff_neighbouring_rows E delta P HE L) H i) as [Up Down].
  assert (U := proj2 (every_set_iff_excess E delta _ _ HE (proj1 (L i))) Up).
  assert (D := proj2 (every_set_iff_excess E delta _ _ HE (proj1 (L (Datatypes.S i)))) Down).
  assert (Sub : forall j, A j = true -> negb (j =? 0)%nat = true).
  { intros [|j] K; [congruence|reflexivity]. }
  assert (All : forall j, prob (P j) (fun _ => true) == 1) by (intros j; apply (L j)).
  assert (X1 := U A). assert (X2 := D (fun j => andb true (negb (A j)))).
  assert (X3 := D (fun j => andb (negb (j =? 0)%nat) (negb (A j)))).
  assert (X4 : 0 <= prob (P (Datatypes.S i)) (fun j => andb (negb (j =? 0)%nat) (negb (A j)))).
  { unfold prob. rewrite <- (mean_0 (P (Datatypes.S i))). apply mean_le; [apply L|]. intros j.
    destruct (andb (negb (j =? 0)%nat) (negb (A j))); lra. }
  rewrite !(prob_without _ A (fun _ => true)), !All in X2 by (intros; reflexivity).
  rewrite !(prob_without _ A (fun j => negb (j =? 0)%nat)) in X3 by assumption.
  rewrite (prob_without _ A (fun j => negb (j =? 0)%nat)) in X4 by assumption.
  fold (reported (P i)) in X3. fold (reported (P (Datatypes.S i))) in X3, X4. rewrite !R in X3. rewrite R in X4.
  set (a := prob (P i) A) in *. set (b := prob (P (Datatypes.S i)) A) in *.
  assert (IR := I_range). assert (IE := I_E).
  apply F_glb; [lra|lra| |].
  - assert (I * (1 - a) <= I * (E * (1 - b) + delta)) by nra.
    assert (I * (E * (1 - b)) == 1 - b) by (rewrite Qmult_assoc, IE; ring). lra.
  - assert (I * (pi i - a) <= I * (E * (pi (Datatypes.S i) - b) + delta)) by nra.
    assert (I * (E * (pi (Datatypes.S i) - b)) == pi (Datatypes.S i) - b) by (rewrite Qmult_assoc, IE; ring). lra.
Qed.

(** Tails on a grid are tails on a finer one, at the points that both have. *)
Lemma finer_tails : forall grid m, (1 <= grid)%nat -> (1 <= m)%nat ->
  forall i x, S (grid * m) i (x * m) == S grid i x.
Proof.
  intros grid m G M. induction i as [|i IH]; intros x; cbn [S]; [reflexivity|].
  assert (Comp : forall s t, s == t -> F (pi i) (pi (Datatypes.S i)) s == F (pi i) (pi (Datatypes.S i)) t).
  { intros s t H. assert (A := F_ascending (pi i) (pi (Datatypes.S i)) s t).
    assert (B := F_ascending (pi i) (pi (Datatypes.S i)) t s). lra. }
  replace (x * m <=? i * (grid * m))%nat with (x <=? i * grid)%nat.
  - destruct (x <=? i * grid)%nat; [apply Comp, IH|].
    replace (Datatypes.S i * (grid * m) - x * m)%nat with ((Datatypes.S i * grid - x) * m)%nat
      by (rewrite Nat.mul_sub_distr_r; lia).
    unfold of_nat. rewrite !Nat2Z.inj_mul, !inject_Z_mult. fold (of_nat m) (of_nat grid).
    assert (A := of_nat_pos grid G). assert (B := of_nat_pos m M). field.
    split; intros C; lra.
  - destruct (Nat.leb_spec x (i * grid)); symmetry; [apply Nat.leb_le|apply Nat.leb_gt]; nia.
Qed.

Lemma mean_app_general : forall r s f, mean (r ++ s) f == mean r f + mean s (fun j => f (length r + j)%nat).
Proof.
  induction r as [|p r IH]; intros s f; cbn [app mean length plus]; [symmetry; apply Qplus_0_l|].
  rewrite (IH s (fun j => f (Datatypes.S j))). apply Qplus_assoc.
Qed.

Lemma blocks : forall m (f H : nat -> Q), (1 <= m)%nat -> forall n s,
  mean (map (fun x => f x - f (Datatypes.S x)) (seq (s * m) (n * m))) (fun j => H ((s * m + j) / m)%nat)
  == mean (map (fun k => f (k * m)%nat - f (Datatypes.S k * m)%nat) (seq s n)) (fun j => H (s + j)%nat).
Proof.
  intros m f H M n. induction n as [|n IH]; intros s; [reflexivity|].
  replace (Datatypes.S n * m)%nat with (m + n * m)%nat by lia.
  rewrite seq_app, map_app, mean_app_general. cbn [seq map mean].
  rewrite map_length, seq_length, Nat.add_0_r.
  replace (s * m + m)%nat with (Datatypes.S s * m)%nat by lia.
  specialize (IH (Datatypes.S s)). apply Qplus_comp.
  - assert (K : forall k a, (k <= m)%nat -> (a = s * m + (m - k))%nat ->
      mean (map (fun x => f x - f (Datatypes.S x)) (seq a k)) (fun j => H ((a + j) / m)%nat)
      == (f a - f (a + k)%nat) * H s).
    { induction k as [|k IHk]; intros a L E0; simpl; [rewrite Nat.add_0_r; ring|].
      rewrite (mean_ext _ _ (fun j => H ((Datatypes.S a + j) / m)%nat)) by (intros j; rewrite Nat.add_succ_r; reflexivity).
      rewrite IHk by lia. rewrite Nat.add_succ_r, Nat.add_0_r. cbn [plus].
      replace (a / m)%nat with s; [ring|]. apply Nat.div_unique with (m - Datatypes.S k)%nat; lia. }
    rewrite (K m (s * m)%nat) by lia. replace (s * m + m)%nat with (Datatypes.S s * m)%nat by lia. reflexivity.
  - rewrite (mean_ext _ _ (fun j => H ((Datatypes.S s * m + j) / m)%nat)).
    + rewrite IH. apply mean_ext. intros j. rewrite Nat.add_succ_r. reflexivity.
    + intros j. replace (s * m + (m + j))%nat with (Datatypes.S s * m + j)%nat by lia. reflexivity.
Qed.

(** Token j of the finer grid is rounded up to this one of the other. *)
Definition round_up (m j : nat) : nat :=
  match j with
  | O => O
  | Datatypes.S x => Datatypes.S (x / m)
  end.

Theorem a_grid_is_a_coarsening : forall grid m, (1 <= grid)%nat -> (1 <= m)%nat ->
  forall i A, prob (tail_map grid i) A == prob (tail_map (grid * m) i) (fun j => A (round_up m j)).
Proof.
  intros grid m G M i A. unfold prob, tail_map. cbn [mean round_up].
  assert (B := blocks m (S (grid * m) i) (fun k => if A (Datatypes.S k) then 1 else 0) M (i * grid) 0).
  cbn [Nat.mul plus] in B. replace (i * (grid * m))%nat with (i * grid * m)%nat by lia.
  rewrite B. apply Qplus_comp; [reflexivity|].
  assert (K : forall l f, mean (map (fun x => S grid i x - S grid i (Datatypes.S x)) l) f
    == mean (map (fun k => S (grid * m) i (k * m) - S (grid * m) i (Datatypes.S k * m)) l) f).
  { induction l as [|x l IH]; intros f; [reflexivity|]. cbn [map mean].
    rewrite IH, !finer_tails by assumption. reflexivity. }
  apply K.
Qed.
End TailMap.
