(* Reads a certificate (docs/proofs.md has the format) and prints what `check`, which Coq extracted, says of it.

   dpsample-checker FILE, or - for standard input. The exit code is 0 if the certificate is accepted, 1 if it is
   refused, and 2 if it cannot be read. *)

module Big = Z (* of Zarith; `Checker` has a Z of its own *)

open Checker

exception Unreadable of string

let unreadable format = Printf.ksprintf (fun reason -> raise (Unreadable reason)) format

let number word =
  let digit = function '0' .. '9' | 'a' .. 'f' -> true | _ -> false in
  if word = "" || not (String.for_all digit word) then
    unreadable "integers are written in hexadecimal digits, 0 to 9 and a to f";
  Big.of_string ("0x" ^ word)

(* A number of terms, steps or rows. *)
let count word =
  let n = number word in
  if Big.gt n (Big.of_int 1_000_000) then unreadable "a count is at most a million";
  Big.to_int n

let rec nat n = if n <= 0 then O else S (nat (n - 1))

let read channel =
  let at = ref 0 in
  let line () =
    incr at;
    match input_line channel with
    | text -> String.split_on_char ' ' text
    | exception End_of_file -> unreadable "it ends before its end"
  in
  let field name =
    match line () with
    | word :: numbers when word = name -> numbers
    | _ -> unreadable "line %d must begin with '%s'" !at name
  in
  let one name = match field name with [a] -> a | _ -> unreadable "'%s' has one integer" name in
  let two name = match field name with [a; b] -> (number a, number b) | _ -> unreadable "'%s' has two integers" name in
  if field "dpsample-certificate" <> ["1"] then unreadable "it must be of format 1";
  let epsilon_top, epsilon_bottom = two "epsilon" in
  let delta_top, delta_bottom = two "delta" in
  let ratio, ratio_one = two "ratio" in
  let terms = nat (count (one "terms")) in
  let grid = nat (count (one "grid")) in
  let cut_one = number (one "cut_one") in
  let q_one = number (one "q_one") in
  let repeats = match one "repeats" with "0" -> false | "1" -> true | _ -> unreadable "'repeats' is 0 or 1" in
  let row () =
    match field "row" with
    | low :: high :: cuts -> { low = number low; high = number high; cuts = List.map number cuts }
    | _ -> unreadable "'row' has two bounds, and its cuts"
  in
  let rec spans before =
    match line () with
    | ["end"] -> List.rev before
    | ["span"; first; rows] ->
      let first = number first in
      let rows = List.map (fun _ -> row ()) (List.init (count rows) Fun.id) in
      spans ({ first; rows } :: before)
    | _ -> unreadable "line %d must be a span, or the end" !at
  in
  let spans = spans [] in
  (match input_char channel with
   | _ -> unreadable "nothing may follow its end"
   | exception End_of_file -> ());
  { epsilon_top; epsilon_bottom; delta_top; delta_bottom; ratio; ratio_one; terms; grid; cut_one; q_one; spans; repeats }

(* What was accepted: the privacy, and the frequencies whose rows were compared with the ones before them. *)
let accepted c =
  let frequencies { first; rows } =
    let first = Big.succ first and pairs = List.length rows - 1 in
    Printf.sprintf "%s-%s" (Big.to_string first) (Big.to_string (Big.add first (Big.of_int (pairs - 1))))
  in
  Printf.sprintf "accepted: epsilon %s/%s, delta %s/%s, frequencies %s%s" (Big.to_string c.epsilon_top)
    (Big.to_string c.epsilon_bottom) (Big.to_string c.delta_top) (Big.to_string c.delta_bottom)
    (String.concat " " (List.map frequencies c.spans))
    (if c.repeats then " and all above" else "")

(* Where a certificate fails. This is a hint for people: that it fails was decided by `check`. *)
let refused c =
  let rec find frequency = function
    | before :: (now :: _ as rest) ->
      let frequency = Big.succ frequency in
      if not (check_row c frequency now) then Some (Printf.sprintf "row %s is no law" (Big.to_string frequency))
      else if not (check_pair c before now) then
        Some (Printf.sprintf "between the frequencies %s and %s" (Big.to_string (Big.pred frequency)) (Big.to_string frequency))
      else find frequency rest
    | _ -> None
  in
  "refused: "
  ^
  if not (check_numbers c) then "the numbers above the rows, or the bound of exp(epsilon)"
  else
    match List.find_map (fun { first; rows } -> find first rows) c.spans with
    | Some where -> where
    | None -> "a first row, or the repetition of the last"

let () =
  let file = match Sys.argv with [| _; file |] -> file | _ -> prerr_endline "usage: dpsample-checker FILE"; exit 2 in
  match if file = "-" then read stdin else (let channel = open_in_bin file in read channel) with
  | certificate ->
    if check certificate then print_endline (accepted certificate) else (print_endline (refused certificate); exit 1)
  | exception Unreadable reason -> prerr_endline ("the certificate cannot be read: " ^ reason); exit 2
  | exception Sys_error reason -> prerr_endline reason; exit 2
