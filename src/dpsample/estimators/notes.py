"""Notes of answers: what is claimed, and apart from it what the asker may do about it."""


class Note(str):
    """A remark on an answer: the text of both, which is what is printed. A page for others shows the claim alone.

    >>> note = Note("few keys are that frequent", advice="at_least takes in rarer ones")
    >>> note, note.claim
    ('few keys are that frequent; at_least takes in rarer ones', 'few keys are that frequent')
    """

    claim: str

    def __new__(cls, claim: str, advice: str = "") -> "Note":  # noqa: D102
        note = super().__new__(cls, f"{claim}; {advice}" if advice else claim)
        note.claim = claim
        return note


NONE_SELECTED = "no reported key is selected; more than this would have shown"
FEW = "few keys determine the error: the interval is conservative"
HIDDEN = "many keys of these frequencies are not reported: the interval is not guaranteed"


def blurred_note(least: int) -> Note:
    """Return the note of an answer about keys from a frequency on, if keys just below it matter."""
    return Note(
        f"keys below frequency {least:,} cannot be distinguished from those at it: the interval is not guaranteed",
        advice="a larger at_least (--at-least) leaves these out",
    )


def claim_of(note: str) -> str:
    """Return a note without its advice."""
    return note.claim if isinstance(note, Note) else note
