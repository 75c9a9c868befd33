"""How often to measure, where to write, and what to say meanwhile."""

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """What every group of measures is given."""

    folder: Path
    quick: bool

    @property
    def repeats(self) -> int:
        """How many measurements a median is taken of."""
        return 2 if self.quick else 5

    def say(self, line: str) -> None:
        """Tells on stderr how far it is; stdout has the table alone."""
        print(f"  {line}", file=sys.stderr, flush=True)
