(** * Serial assignment with a cap

    docs/theory.md, section 10.  In words:

    Users come one after the other.  Each gives one unit to the first of their own
    keys that has fewer than [cap] units, and nothing if all of them are full.
    Removing any one user changes the units of one key, by one, or none at all
    [removing_a_user].

    So if a scheme is (E, delta)-private for one element, a release of the units
    is (E, delta)-private for one user, however many keys users have
    [units_are_private_for_users]. *)

From Coq Require Import QArith Lqa List Arith Lia.
From DPSample Require Import Rows.
Import ListNotations.
Open Scope nat_scope.

(** ** Definitions *)

Definition key := nat.

(** A user is the list of their keys, in the order of keys. *)
Definition user := list key.

(** The units of each key. *)
Definition units := key -> nat.

Section Assignment.
Variable cap : nat.

Definition one_unit_to (x : key) (l : units) : units := fun y => if y =? x then S (l y) else l y.

(** The user gives a unit to the first of their keys that has room. *)
Fixpoint give (u : user) (l : units) : units :=
  match u with
  | [] => l
  | x :: rest => if l x <? cap then one_unit_to x l else give rest l
  end.

Fixpoint assign (users : list user) (l : units) : units :=
  match users with
  | [] => l
  | u :: rest => assign rest (give u l)
  end.

Definition nothing : units := fun _ => 0.

(** The units are equal, or the first has one more at one key. *)
Definition same (l l' : units) : Prop := forall y, l y = l' y.
Definition one_more_at (x : key) (l l' : units) : Prop := l x = S (l' x) /\ forall y, y <> x -> l y = l' y.
Definition close (l l' : units) : Prop := same l l' \/ exists x, one_more_at x l l'.

(** ** Proofs *)

Definition within_cap (l : units) : Prop := forall y, l y <= cap.

Lemma give_cap : forall u l, within_cap l -> within_cap (give u l).
Proof.
  induction u as [|x u IH]; intros l H; simpl; [assumption|].
  destruct (l x <? cap) eqn:R; [|apply IH; assumption].
  apply Nat.ltb_lt in R. intros y. unfold one_unit_to. destruct (Nat.eqb_spec y x); [subst; lia|apply H].
Qed.

Lemma give_same : forall u l l', same l l' -> same (give u l) (give u l').
Proof.
  induction u as [|x u IH]; intros l l' H; simpl; [assumption|].
  rewrite (H x). destruct (l' x <? cap); [|apply IH; assumption].
  intros y. unfold one_unit_to. rewrite (H y). reflexivity.
Qed.

(** A user gives one unit to some key with room, or nothing. *)
Lemma give_close : forall u l, close (give u l) l.
Proof.
  induction u as [|x u IH]; intros l; simpl; [left; intros y; reflexivity|].
  destruct (l x <? cap); [|apply IH]. right. exists x. unfold one_unit_to. split.
  - rewrite Nat.eqb_refl. reflexivity.
  - intros y N. destruct (Nat.eqb_spec y x); [contradiction|reflexivity].
Qed.

(** The next user keeps two runs close: the unit moves to another key, or stays, or is gone. *)
Lemma give_keeps_close : forall u l l', within_cap l -> close l l' -> close (give u l) (give u l').
Proof.
  intros u l l' C [S|[x [X R]]]; [left; apply give_same; assumption|].
  assert (Room : l' x < cap) by (specialize (C x); lia).
  induction u as [|y u IH]; simpl; [right; exists x; split; assumption|].
  destruct (Nat.eq_dec y x) as [->|N].
  - (* the key x has room in the second run *)
    assert (l' x <? cap = true) as -> by (apply Nat.ltb_lt; assumption).
    destruct (Nat.ltb_spec (l x) cap).
    + (* and in the first: both give to x *)
      right. exists x. unfold one_unit_to. split.
      * rewrite Nat.eqb_refl. lia.
      * intros y N. destruct (Nat.eqb_spec y x); [contradiction|apply R; assumption].
    + (* x is full in the first run, whose user goes on: to another key, or to none *)
      assert (M : same l (one_unit_to x l')).
      { intros y. unfold one_unit_to. destruct (Nat.eqb_spec y x); [subst; assumption|apply R; assumption]. }
      destruct (give_close u l) as [K|[z [Z K]]].
      * left. intros y. rewrite K. apply M.
      * right. exists z. split; [rewrite Z, <- M; reflexivity|]. intros y D. rewrite K by assumption. apply M.
  - rewrite (R y N). destruct (l' y <? cap); [|exact IH].
    right. exists x. unfold one_unit_to. split.
    + destruct (Nat.eqb_spec x y); [congruence|assumption].
    + intros z D. rewrite (R z D). reflexivity.
Qed.

Lemma assign_keeps_close : forall users l l', within_cap l -> close l l' -> close (assign users l) (assign users l').
Proof.
  induction users as [|u users IH]; intros l l' C H; simpl; [assumption|].
  apply IH; [apply give_cap; assumption|apply give_keeps_close; assumption].
Qed.

(** ** Theorems *)

Theorem removing_a_user : forall before u after,
  close (assign (before ++ u :: after) nothing) (assign (before ++ after) nothing).
Proof.
  intros before u after.
  assert (H : within_cap nothing) by (intros y; apply Nat.le_0_l).
  revert H. generalize nothing. induction before as [|b before IH]; intros l H; simpl.
  - apply assign_keeps_close; [apply give_cap; assumption|apply give_close].
  - apply IH, give_cap, H.
Qed.

(** The units of all keys of a list, each key once: a dataset. *)
Definition counted (keys : list key) (users : list user) : dataset := map (assign users nothing) keys.

Lemma close_datasets : forall keys l l', NoDup keys -> close l l' ->
  map l keys = map l' keys \/ one_more (map l' keys) (map l keys).
Proof.
  intros keys l l' D [S|[x [X R]]]; [left; apply map_ext; assumption|].
  induction D as [|k keys N D IH]; simpl; [left; reflexivity|].
  destruct (Nat.eq_dec k x) as [->|K].
  - right. assert (map l keys = map l' keys) as ->.
    { apply map_ext_in. intros y I. apply R. intros ->. contradiction. }
    rewrite X. constructor.
  - rewrite (R k K). destruct IH as [->|IH]; [left; reflexivity|right; constructor; assumption].
Qed.

Theorem units_are_private_for_users : forall E delta P keys before u after T,
  (1 <= E)%Q -> (0 <= delta)%Q -> (forall i, law (P i)) -> private E delta P -> NoDup keys ->
  let more := map P (counted keys (before ++ u :: after)) in
  let less := map P (counted keys (before ++ after)) in
  (release more T <= E * release less T + delta)%Q /\ (release less T <= E * release more T + delta)%Q.
Proof.
  intros E delta P keys before u after T HE Hd L H D more less. unfold more, less, counted.
  destruct (close_datasets keys _ _ D (removing_a_user before u after)) as [->|N].
  - assert (R : (0 <= release (map P (map (assign (before ++ after) nothing) keys)) T <= 1)%Q).
    { apply release_range, Forall_forall. intros r I. apply in_map_iff in I. destruct I as [i [<- _]]. apply L. }
    split; nra.
  - destruct (H _ _ N T). split; assumption.
Qed.
End Assignment.
