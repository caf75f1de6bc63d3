"""Facts: the statements about a release for people, by topic. Each medium chooses which it shows, and in which form.

The words are those of `explain`. Which facts a release has follows from its kind, and from what every release has.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum


class Topic(Enum):
    """What a fact is about; the value is the name that commands and representations print before it."""

    WARNING = "warning"  # that it was made for tests, and is not private
    SAMPLED = "sampled"
    FOUND = "found"  # how keys of users without a contribution bound were found
    CHOSEN = "chosen"  # why they were found in this way
    REPORTED = "reported"  # when a key is reported
    TOKENS = "tokens"
    COUNTED = "counted"
    SUMMED = "summed"
    KEPT = "kept"  # how many of their keys users kept
    KNOWN = "known"
    SIZE = "size"
    TOTAL = "total"
    PRIVACY = "privacy"
    PART = "part"
    READ = "read"  # how keys were computed, and which rows were read
    SEEN = "seen"  # which frequencies are reported
    LEDGER = "ledger"


@dataclass(frozen=True)
class Fact:
    """A fact: its topic, a clause for a sentence, and a shorter form for a list."""

    topic: Topic
    words: str
    brief: str


def fact(topic: Topic, words: str, brief: str = "") -> Fact:
    """Return a fact; without a shorter form, the words are short enough."""
    return Fact(topic, words, brief or words)


@dataclass(frozen=True)
class Facts:
    """All facts about a release."""

    facts: tuple[Fact, ...]

    def about(self, *topics: Topic) -> Iterator[Fact]:
        """Yield the facts about these topics, in the order of the topics."""
        for topic in topics:
            yield from (fact for fact in self.facts if fact.topic is topic)

    def words(self, *topics: Topic) -> list[str]:
        """Return the words of the facts about these topics."""
        return [fact.words for fact in self.about(*topics)]


def joined(*several: Iterable[Fact]) -> Facts:
    """Put facts together."""
    return Facts(tuple(fact for facts in several for fact in facts))
