"""Writes checkpoints that are whole or not there at all, and reads the newest whole one back."""
