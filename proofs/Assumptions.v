(** Every theorem of docs/proofs.md, and what it rests on: nothing but Coq's logic.  `make proofs` fails otherwise. *)

From DPSample Require Import Rows Checker.

Print Assumptions every_set_iff_excess.
Print Assumptions private_iff_neighbouring_rows.
Print Assumptions checked_pairs_are_private.
Print Assumptions complete_certificates_are_private.
