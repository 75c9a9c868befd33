"""What explain_keys found: for a person as a few lines, for a program as attributes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .container import Candidate
from .rename import KeyRenameError, Renaming


@dataclass(frozen=True)
class KeyReport:
    """How the tensors of a checkpoint fit a model, and the line that makes them fit.

    Prints as a few lines of text. Counts are of tensors: parameters and saved buffers.

    Example:
        >>> import torch
        >>> from loadwrap.checkpoints import explain_keys
        >>> model = torch.nn.Linear(2, 1)
        >>> ckpt = {"model": {"module.weight": torch.zeros(1, 2), "module.bias": torch.zeros(1)}}
        >>> report = explain_keys(ckpt, model)
        >>> report.matches, report.verdict, report.container, report.after
        (False, 'wrapper', 'model', (2, 2))
        >>> list(report.rename(ckpt["model"]))
        ['weight', 'bias']
    """

    verdict: str
    """One word: `fits`; with a cure `wrapper`, `prefix`, `subtree`, `renamed`, `tied`,
    `leftovers`; without `partial`, `extra`, `buffers`, `shapes`, `adapter`, `ambiguous`,
    `nothing`, `empty`, `no model`."""
    fix: str = ""
    """The line that loads the weights (`ckpt`, `model`); empty if no line fills the model."""
    part: str = ""
    """If only a part fits: the line that loads this part and leaves the rest as it is."""
    container: str = ""
    """The entry that holds the weights, dotted if nested; empty if the file itself does."""
    containers: tuple[str, ...] = ()
    """Every entry that might hold weights, the best first."""
    beside: tuple[str, ...] = ()
    """The other top-level entries of the file."""
    checkpoint_wrappers: tuple[str, ...] = ()
    """The wrappers' segments in the file's names, from the outside in."""
    model_wrappers: tuple[str, ...] = ()
    """The wrappers' segments in the model's names, from the outside in."""
    prefix: str = ""
    """What has to be removed from the front of the file's names, wrappers included."""
    added_prefix: str = ""
    """What has to be put in front of the file's names, wrappers included."""
    renamed: tuple[str, ...] = ()
    """Blocks that are called differently: `blocks.#.* -> blocks.*`."""
    missing: tuple[str, ...] = ()
    """Parameters of the model that nothing in the file fills."""
    buffers_missing: tuple[str, ...] = ()
    """The same for buffers."""
    unexpected: tuple[str, ...] = ()
    """Tensors of the file that the model has no place for."""
    shape_mismatches: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    """Name in the model, shape in the file, shape in the model."""
    tied: dict[str, str] = field(default_factory=dict)
    """Names that are missing without harm: the model ties each to the other, which is there."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Tensors of the file that need not be loaded, and why."""
    other_parts: tuple[str, ...] = ()
    """Tensors of the file that belong to other networks than the model."""
    dtypes: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many tensors change their type on loading: (in the file, in the model)."""
    before: tuple[int, int] = (0, 0)
    """Tensors that match as they are, of how many in the model."""
    after: tuple[int, int] = (0, 0)
    """The same once renamed."""
    in_file: int = 0
    """Tensors in the entry that holds the weights."""
    text: str = field(default="", repr=False)
    candidate: Candidate | None = field(default=None, repr=False, compare=False)
    renaming: Renaming | None = field(default=None, repr=False, compare=False)

    @property
    def matches(self) -> bool:
        """The weights fit as they are: a strict load succeeds."""
        return self.verdict == "fits"

    def rename(self, weights: Mapping[str, Any], subset: bool = False) -> OrderedDict[str, Any]:
        """Returns the weights under the model's names, in their order, with their `_metadata`.

        Args:
            weights: The weights that were explained, or the whole checkpoint around them.
            subset: Consent to leave behind what belongs to other networks (`other_parts`).

        Raises:
            KeyRenameError: If there is no rename that fills the whole model, or it would lose a
                tensor, map two onto one or make a name that the model lacks; nothing is renamed.
        """
        if self.renaming is None:
            first_line = self.text.partition("\n")[0]
            raise KeyRenameError(f"there is no rename that makes these weights fit. {first_line}")
        found: Mapping[str, Any] = weights
        if self.candidate is not None:
            # A state dict has no entry of its own at that place: then it is the weights.
            try:
                found = self.candidate.get(weights)
            except (KeyError, IndexError, TypeError):
                found = weights
        return self.renaming(found, subset)

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Shows the lines at the end of a notebook's cell."""
        printer.text(self.text)

    def __repr__(self) -> str:
        return (
            f"<KeyReport {self.verdict}: {self.before[0]} of {self.before[1]} tensors match"
            f"{'' if self.before == self.after else f', {self.after[0]} after the fix'}>"
        )
