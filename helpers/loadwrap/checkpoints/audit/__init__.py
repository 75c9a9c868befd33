"""Compares what was saved with what was restored, in the order that finds faults."""
