"""A job that says when its first line was printed, and then lives on for a while.

What is measured is a start: no rank's end competes with another rank's beginning.
"""

import time

import torch  # as every training script does before it can say anything

assert torch.__version__
print(time.time_ns(), flush=True)
time.sleep(1)
