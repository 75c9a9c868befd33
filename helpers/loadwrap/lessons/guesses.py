"""What a learner predicted, in the words that stand beside what was measured."""

from __future__ import annotations

__all__ = ["predicted"]


def predicted(guess: object) -> str:
    """Returns a prediction in words. None alone is no prediction: 0 is one.

    Example:
        >>> predicted(None), predicted(0)
        ('you predicted nothing yet', 'you predicted 0')
    """
    return f"you predicted {'nothing yet' if guess is None else guess}"
