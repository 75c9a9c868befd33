"""A job that says when its first line was printed, and ends."""

import time

import torch  # as every training script does before it can say anything

assert torch.__version__
print(time.time_ns(), flush=True)
