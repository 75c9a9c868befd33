"""Prints the cost of one log() call in microseconds, REPEATS times."""

import sys
import time

from loadwrap import log

CALLS = 20_000

losses = [1.0 / (step + 1) for step in range(CALLS)]
for step, value in enumerate(losses[:1000]):
    log(step, loss=value)
for _ in range(int(sys.argv[1])):
    start = time.perf_counter()
    for step, value in enumerate(losses):
        log(step, loss=value)
    print((time.perf_counter() - start) / CALLS * 1e6)
