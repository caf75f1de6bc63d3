(** * What is computed from a token stays private

    docs/theory.md, section 3 (a grid is a coarsening).  In words:

    Let f be any function of the outcome, such as rounding tokens to a coarser
    grid, or leaving them out.  If a scheme is (E, delta)-private, so is the scheme
    that shows f of each outcome [coarsening_is_private].  TailMap.v shows that a
    grid is such a function of any finer one [a_grid_is_a_coarsening]. *)

From Coq Require Import QArith Lqa Lia List Arith.
From DPSample Require Import Rows.
Import ListNotations.
Open Scope Q_scope.

(** ** Definitions *)

(** The row of f of the outcome, of which there are n: the probability of each k < n is that of all j with f(j) = k. *)
Definition coarsen (f : nat -> nat) (n : nat) (r : row) : row :=
  map (fun k => prob r (fun j => (f j =? k)%nat)) (seq 0 n).

(** ** Proofs *)

Lemma mean_plus : forall (a b : nat -> Q) h l,
  mean (map (fun k => a k + b k) l) h == mean (map a l) h + mean (map b l) h.
Proof.
  intros a b h l. revert h. induction l as [|k l IH]; intros h; simpl; [ring|]. rewrite IH. ring.
Qed.

Lemma mean_point : forall p (c n : nat) h s, (s <= c < s + n)%nat ->
  mean (map (fun k => p * (if (c =? k)%nat then 1 else 0)) (seq s n)) h == p * h (c - s)%nat.
Proof.
  intros p c n. induction n as [|n IH]; intros h s H; [lia|]. simpl.
  destruct (Nat.eqb_spec c s).
  - subst. rewrite Nat.sub_diag.
    assert (Z : forall m t g, (s < t)%nat -> mean (map (fun k => p * (if (s =? k)%nat then 1 else 0)) (seq t m)) g == 0).
    { induction m as [|m IHm]; intros t g L; simpl; [reflexivity|].
      destruct (Nat.eqb_spec s t); [lia|]. rewrite IHm by lia. ring. }
    rewrite Z by lia. ring.
  - rewrite IH by lia. replace (c - s)%nat with (S (c - S s)) by lia. ring.
Qed.

Lemma coarsen_mean : forall n h r f, (forall j, (j < length r)%nat -> (f j < n)%nat) ->
  mean (coarsen f n r) h == mean r (fun j => h (f j)).
Proof.
  intros n h r. induction r as [|p r IH]; intros f H.
  - unfold coarsen, prob. cbn [mean].
    assert (Z : forall l g, mean (map (fun _ : nat => 0) l) g == 0).
    { induction l as [|k l IHl]; intros g; simpl; [reflexivity|]. rewrite IHl. ring. }
    apply Z.
  - unfold coarsen, prob in *. cbn [mean].
    rewrite mean_plus, (IH (fun j => f (S j))) by (intros j L; apply H; simpl; lia).
    rewrite mean_point by (split; [lia|apply H; simpl; lia]). rewrite Nat.sub_0_r. reflexivity.
Qed.

Lemma coarsen_law : forall f n r, (forall j, (j < length r)%nat -> (f j < n)%nat) -> law r -> law (coarsen f n r).
Proof.
  intros f n r H [N T]. split.
  - apply Forall_map, Forall_forall. intros k _. rewrite <- (mean_0 r). apply mean_le; [assumption|].
    intros j. destruct (f j =? k)%nat; lra.
  - rewrite (coarsen_mean n (fun _ => 1)) by assumption. assumption.
Qed.

(** ** Theorems *)

(** The probability of a set is that of all outcomes that f takes into it. *)
Theorem coarsen_prob : forall f n r A, (forall j, (j < length r)%nat -> (f j < n)%nat) ->
  prob (coarsen f n r) A == prob r (fun j => A (f j)).
Proof. intros f n r A H. apply (coarsen_mean n (fun k => if A k then 1 else 0)). assumption. Qed.

Theorem coarsening_is_private : forall E delta P f (n : nat -> nat), 0 <= E ->
  (forall i, law (P i)) -> (forall i j, (j < length (P i))%nat -> (f j < n i)%nat) ->
  private E delta P ->
  let Q := fun i => coarsen f (n i) (P i) in
  (forall i, law (Q i)) /\ private E delta Q.
Proof.
  intros E delta P f n HE L B H Q.
  assert (LQ : forall i, law (Q i)) by (intros i; apply coarsen_law; [apply B|apply L]).
  split; [exact LQ|].
  apply private_iff_neighbouring_rows; [assumption|assumption|]. intros i.
  destruct (proj1 (private_iff_neighbouring_rows E delta P HE L) H i) as [Up Down].
  assert (U := proj2 (every_set_iff_excess E delta _ _ HE (proj1 (L i))) Up).
  assert (D := proj2 (every_set_iff_excess E delta _ _ HE (proj1 (L (S i)))) Down).
  split; apply every_set_iff_excess; try assumption; try apply LQ; intros A; unfold Q;
    rewrite !coarsen_prob by apply B; [apply U|apply D].
Qed.
