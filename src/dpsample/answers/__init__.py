"""What can be asked of a release, and what is answered from it alone.

**Question, evidence, answer**

question         what is asked, checked once for every kind of release
evidence         what all answers follow from: one class of evidence for each kind of release
answers          each question, written once over evidence
release          `Release`: the only publishable object, with its answers and its file
by_kind          which evidence a release has
estimates        an answer of several rows
entered          whether releases are entered in a ledger
example          a release for examples

**The keys of a question**

selection        the keys that a question selects, their weights and their groups
expressions      which SQL expressions are allowed, and how much memory they may take

**Evidence, by kind**

tokens           tokens as questions see them, and the law by which they were drawn
token_sums       releases with tokens: sums, numbers of keys and means
token_order      their single keys: top k, ranks and comparisons
token_quantiles  their quantiles
reported         what their reported keys have together: the first line of every total
held             releases of streams
known            releases with tokens and known keys
keys_only        releases of keys only
counted          releases of counted users
counted_keys     the keys of such a question, and what is known of each
counted_sums     sums, numbers and means over these keys
amounts          sums of rows and columns of counted users, and ratios
normal_order     the order of keys whose estimates have normal errors
unreported       what it says of a key that it was not reported
remainder        the elements of keys that were not reported

**Several releases**

several              `combine`: the object that answers questions about several releases
combinable           which releases may be combined, and what they cost together
several_evidence     what the evidence of several releases has in common, whatever their kinds
several_keys         the keys of all releases, and where each is in each of them
several_measured     counted users, known keys, streams and mixed kinds: values and variances add up
several_held         streams: sums, numbers of keys and means, in steps
several_known        releases with one list of known keys, and other keys
several_coordinated  samples of one public seed, whose errors are not independent
several_keys_only    releases of keys only: which keys there are, and how many releases report each
several_tokens       releases with tokens, whose laws are convolved
several_totals       the frequency of a key over all of them, with its interval
several_sums         sums and means over all of them
several_numbers      numbers of keys that are frequent in some of them
several_order        their order: quantiles, top k, ranks and comparisons
several_unreported   what a key has in releases that do not report it: a bound, and an estimate

**Before and after**

changes          `changes`: keys that rose or fell, at a rate of false discoveries
compared         both sides of a comparison, and the laws of their differences
hypotheses       what has not changed, and the evidence against it: as counted, beyond chance, of shares

coordinated      what changed between two coordinated releases, and which keys both have
"""
