"""Explains why the names in a checkpoint do, or do not, fit a model."""
