"""What the notebooks of the course need and nobody else: real source on show, exercise checks.

The checks of a lesson are in the module of its number. They judge what the learner's code did (its
losses, its replicas), never its text, and print one verdict: "Not yet: …" or "Yes: …".
"""

from typing import TYPE_CHECKING

from ..lazy import offer
from .sources import launch_file, show

if TYPE_CHECKING:
    from .holders import plot_holders
    from .names import plot_names
    from .sent import plot_sent

__all__ = ["launch_file", "plot_holders", "plot_names", "plot_sent", "show"]

# What draws is imported when it is asked for: a rank that imports a lesson's check draws nothing.
_HOMES = {"plot_holders": "holders", "plot_names": "names", "plot_sent": "sent"}

__getattr__, __dir__ = offer(__name__, globals(), _HOMES)
