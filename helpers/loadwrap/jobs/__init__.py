"""Starts, watches and stops torchrun jobs. Knows processes, not tensors and not curves."""
