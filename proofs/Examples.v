(** The checker, run by Coq itself: the certificate of all keys at epsilon = 1 and delta = 0.3 passes, and wrong ones
    do not.  This is what `dpsample certify --epsilon 1 --delta 0.3 --grid 1 --certificate FILE` writes, in decimal. *)

From Coq Require Import ZArith List.
From DPSample Require Import Checker.
From DPSample Require Rounding.
Import ListNotations.
Open Scope Z_scope.

Definition one : Z := 2 ^ 128.
Definition a : Z := 102084710076281448369575911132342360473.
Definition b : Z := 290209212127590183905631076278858075429.

Definition row (cuts : list Z) : row_data := {| low := 1; high := 1; cuts := cuts |}.
Definition steady : row_data := row [a; b; one].

Definition all_keys (delta : Z) (rows : list row_data) : certificate := {|
  epsilon_top := 1; epsilon_bottom := 1;
  delta_top := delta; delta_bottom := 10;
  ratio := 924983374546220337150911035843336795079; ratio_one := one;
  terms := 34;
  grid := 1;
  cut_one := one; q_one := 1;
  spans := [{| first := 0; rows := rows |}];
  repeats := true
|}.

Example right : check (all_keys 3 [nothing; row [a]; row [a; b]; steady; steady]) = true.
Proof. vm_compute. reflexivity. Qed.

Example delta_too_small : check (all_keys 2 [nothing; row [a]; row [a; b]; steady; steady]) = false.
Proof. vm_compute. reflexivity. Qed.

Example rows_swapped : check (all_keys 3 [nothing; row [a; b]; row [a]; steady; steady]) = false.
Proof. vm_compute. reflexivity. Qed.

(** Keys are reported with probability 3/10, by their frequency itself: this spends all of delta.  3/10 of [one] is no
    integer.  The integer below it passes, and the integer above it does not. *)
Example tight : check (all_keys 3 [nothing; row [3 * one / 10]]) = true.
Proof. vm_compute. reflexivity. Qed.

Example one_unit_too_much : check (all_keys 3 [nothing; row [3 * one / 10 + 1]]) = false.
Proof. vm_compute. reflexivity. Qed.

(** The tails of Rounding.v are those of `scheme/integer.py`: for these keys, on a grid of 2, at the frequencies 1 to 3.
    (tests/scheme/test_independent.py has the integers from there.) *)
Definition E : Z := 17062931582690352517073033763910857342528359051737534093910.
Definition I : Z := 2309216678590342932651346902585934177159290373933187757876.
Definition R : Z := 2 ^ 192.
Definition D : Z := 102084710076281448369575911132342360473.
Definition pi (i : nat) : Z := match i with O => 0 | 1%nat => a | 2%nat => b | _ => one end.

Definition c : Z := 51042355038140724184787955566171180236.
Definition d : Z := 240832216258214375709671788506189656211.

Example tails_1 : Rounding.tails E I R one D 2 pi 1 = [0; c; a].
Proof. vm_compute. reflexivity. Qed.
Example tails_2 : Rounding.tails E I R one D 2 pi 2 = [0; c; a; d; b].
Proof. vm_compute. reflexivity. Qed.
Example tails_3 : Rounding.tails E I R one D 2 pi 3 = [0; c; a; d; b; one].
Proof. vm_compute. reflexivity. Qed.
