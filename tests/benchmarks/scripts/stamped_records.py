"""Two busy ranks that log, every 10 ms, the moment at which they did: SECONDS."""

import math
import sys
import time

import torch

from loadwrap import log

EVERY_S = 0.01

torch.set_num_threads(1)
matrix = torch.rand(96, 96)
start = time.perf_counter()
for step in range(round(float(sys.argv[1]) / EVERY_S)):
    while time.perf_counter() < start + step * EVERY_S:
        matrix = torch.tanh(matrix @ matrix)  # a training leaves no core idle
    log(step, loss=math.exp(-step / 300) + 0.05 * math.sin(step), sent=time.time_ns())
