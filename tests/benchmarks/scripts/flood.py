"""A rank that logs RATE records a second for SECONDS, then says when it was done."""

import sys
import time

from loadwrap import log

rate, seconds = int(sys.argv[1]), float(sys.argv[2])
start = time.perf_counter()
for step in range(round(rate * seconds)):
    if step % 20 == 0:
        ahead = start + step / rate - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
    log(step, loss=1.0 / (step + 1))
print(time.perf_counter() - start, time.time_ns(), flush=True)
