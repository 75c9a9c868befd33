"""From a number inside a rank to a line on the screen. Imports no torch, starts no process."""
