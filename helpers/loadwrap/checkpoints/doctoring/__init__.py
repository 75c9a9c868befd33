"""What ``loadwrap doctor`` does, step by step. Imports no torch until it has to match names."""
