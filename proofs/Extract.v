(** The checker as a program in OCaml.  Z becomes the integers of Zarith, which are those of GMP: the program trusts
    them, and Coq's extraction, the OCaml compiler and main.ml, which reads the file.  [Examples] runs the same checker
    inside Coq, which trusts none of these. *)

From Coq Require Import Extraction ExtrOcamlZBigInt.
From DPSample Require Import Checker.

Extraction "checker.ml" check check_numbers check_row check_pair.
