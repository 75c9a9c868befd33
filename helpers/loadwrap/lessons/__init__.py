"""What the notebooks of the course need and nobody else: real source on show, exercise checks.

The checks of a lesson are in the module of its number. They judge what the learner's code did (its
losses, its replicas), never its text, and print one verdict: "Not yet: …" or "Yes: …".
"""

from .sources import launch_file, show

__all__ = ["launch_file", "show"]
