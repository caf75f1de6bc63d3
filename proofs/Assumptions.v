(** Every theorem of docs/proofs.md, and what it rests on: nothing but Coq's logic.  `make proofs` fails otherwise. *)

From DPSample Require Rows Reporting TailMap Coarsening Assignment Checker Rounding Supports.

Print Assumptions Rows.every_set_iff_excess.
Print Assumptions Rows.private_iff_neighbouring_rows.
Print Assumptions Reporting.no_private_scheme_reports_more.
Print Assumptions Reporting.reporting_pi_is_private.
Print Assumptions TailMap.tail_map_is_private.
Print Assumptions TailMap.no_private_scheme_separates_more.
Print Assumptions TailMap.a_grid_is_a_coarsening.
Print Assumptions Coarsening.coarsen_prob.
Print Assumptions Coarsening.coarsening_is_private.
Print Assumptions Assignment.removing_a_user.
Print Assumptions Assignment.units_are_private_for_users.
Print Assumptions Checker.checked_pairs_are_private.
Print Assumptions Checker.complete_certificates_are_private.
Print Assumptions Rounding.rounding_is_private.
Print Assumptions Supports.supports_are_short.
Print Assumptions Supports.rounding_with_short_supports_is_private.
