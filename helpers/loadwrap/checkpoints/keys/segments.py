"""Dotted names as segments, and the segments that wrappers put into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Path = tuple[str, ...]

# What a wrapper calls the module inside it, and who does so. Only whole segments count, and only
# where the other side lacks them: a net may have a child called `module` of its own.
WRAPPERS = {
    "module": "DistributedDataParallel or DataParallel",
    "_orig_mod": "torch.compile",
    "_fsdp_wrapped_module": "FullyShardedDataParallel",
    "_fpw_module": "an old FullyShardedDataParallel",
    "_checkpoint_wrapped_module": "activation checkpointing",
    "_forward_module": "Lightning Fabric",
    "base_layer": "a PEFT adapter",
}


class Node:
    """A module in the tree that dotted names spell out; a leaf is a tensor."""

    __slots__ = ("children", "name", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.children: dict[str, Node] = {}
        self.name: str | None = None
        """The full name, if a tensor ends here."""

    def leaves(self) -> Iterator[str]:
        """Yields the names of the tensors below, in the order in which they were added."""
        if self.name is not None:
            yield self.name
        for child in self.children.values():
            yield from child.leaves()

    def at(self, path: Path) -> Node:
        """Returns the node below this one at a path."""
        node = self
        for segment in path:
            node = node.children[segment]
        return node


def tree(names: Iterable[str]) -> Node:
    """Builds the tree of dotted names."""
    root = Node(())
    for name in names:
        node = root
        for segment in name.split("."):
            child = node.children.get(segment)
            if child is None:
                child = node.children[segment] = Node((*node.path, segment))
            node = child
        node.name = name
    return root


def without_wrappers(path: Path) -> Path:
    """Drops every segment that might be a wrapper's: to find candidates, never to decide."""
    return tuple(segment for segment in path if segment not in WRAPPERS)


def dotted(path: Path) -> str:
    """Spells a path as a prefix, with its last dot; the empty path is the empty prefix."""
    return "".join(f"{segment}." for segment in path)
