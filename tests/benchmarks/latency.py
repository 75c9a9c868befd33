"""How long a record takes from ``log`` in a rank to the screen's side of the kernel.

Two ranks keep both cores busy and log, every 10 ms, the moment at which they do. In the kernel
each picture is noted with the number of records it holds (``observer.py``). This process takes
the time at which the picture's message reaches it, as a browser's server would: a little more
than when it left the kernel. A record's delay ends with the first picture that holds it, and
every record counts, from the first one to the last.
"""

import statistics
from typing import Any

import bare
import notebook
from plan import Plan
from table import Row, seconds

SECONDS = 10


def measure(plan: Plan) -> list[Row]:
    results = []
    with notebook.opened(plan.folder) as kernel:
        kernel.cell(f"import sys\nsys.path.insert(0, {str(bare.SCRIPTS.parent)!r})")
        kernel.cell("from loadwrap import torchrun\nimport observer\nobserver.install()")
        once(kernel, 1)  # loads what draws
        for _ in range(plan.repeats):
            delays = once(kernel, 3 if plan.quick else SECONDS)
            results.append(statistics.quantiles(delays, n=20)[-1])
            plan.say(f"{len(delays)} records: median {statistics.median(delays):.2f} s, "
                     f"95 % {results[-1]:.2f} s, worst {max(delays):.2f} s")  # fmt: skip
    value = statistics.median(results)
    return [
        Row(
            "from log to the redrawn figure, 95th percentile", "0.6 s", seconds(value), value <= 0.6
        )
    ]


def once(kernel: notebook.Notebook, duration: float) -> list[float]:
    """Returns every record's delay in seconds."""
    arrivals: list[int] = []

    def observe(message: dict[str, Any], arrived: int) -> None:
        shows = message["msg_type"] in ("display_data", "update_display_data")
        if shows and "image/png" in message["content"]["data"]:
            arrivals.append(arrived)

    script = str(bare.SCRIPTS / "stamped_records.py")
    kernel.cell("observer.pictures.clear()")
    kernel.cell(f"run = torchrun({script!r}, {duration}, nproc_per_node=2)", observe=observe)
    pictures = kernel.value("[list(held.items()) for held in observer.pictures]")
    sent = kernel.value(
        "{rank: [int(t) for t in times] for rank, (_, times) in run.curve('sent').items()}"
    )
    if len(pictures) != len(arrivals):
        raise RuntimeError(f"{len(pictures)} pictures were drawn, {len(arrivals)} arrived")
    delays = []
    for rank, times in sent.items():
        shown = 0
        for held, arrived in zip(pictures, arrivals, strict=True):
            size = dict(held).get(int(rank), 0)
            delays += [(arrived - time) / 1e9 for time in times[shown:size]]
            shown = max(shown, size)
        if shown != len(times):
            raise RuntimeError(f"rank {rank} logged {len(times)} records, {shown} were drawn")
    return delays
