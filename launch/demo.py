"""Make the loss spike without a browser: a healthy run, a wrong resume, a right one, one figure.

Run it with `make demo`, or as `python launch/demo.py --figure spike.png`.
"""

import argparse
import math
import time
from pathlib import Path

from loadwrap import Run, plot_runs, torchrun

ROOT = Path(__file__).resolve().parent.parent
TRAIN = Path(__file__).with_name("train.py")
STOP, END = 120, 220  # the step at which the healthy run is stopped; the last one of a resumed run
CLASSES = 10
Argument = str | Path | int | float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=ROOT / "figures" / "spike.png")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    args = parser.parse_args()
    checkpoint = args.runs / "demo.pt"
    began = time.monotonic()

    def job(says: str, ranks: int, *options: Argument) -> Run:
        print(f"{says} …", flush=True)
        recipe = ("--momentum", 0, *options)
        return torchrun(TRAIN, *recipe, nproc_per_node=ranks, live=False, runs=args.runs).wait()

    def resume(order: str, ranks: int, steps: int) -> Run:
        says = f"  resume on {ranks} rank{'s' * (ranks > 1)}, {order}"
        options = ("--steps", steps, "--lr", 0.05, "--seed", 1, "--order", order)
        return job(says, ranks, "--resume", checkpoint, *options)

    healthy = job("train on 4 ranks, save, stop", 4, "--steps", STOP, "--save", checkpoint)
    before = float(healthy.mean("loss")[1][-10:].mean())
    wrong = {
        ranks: resume("wrap_then_load_on_rank0", ranks, END if ranks == 4 else STOP + 1)
        for ranks in (1, 2, 4, 8)
    }
    right = resume("load_everywhere_then_wrap", 4, END)

    print(f"\nloss before the stop: {before:.3f}; of a network that knows nothing: ", end="")
    print(f"ln {CLASSES} = {math.log(CLASSES):.3f}")
    print("\nmean loss at the first step after the resume\n")
    print("ranks   order                       predicted   measured")
    rows = [(ranks, "wrap, then load on rank 0", run) for ranks, run in wrong.items()]
    for ranks, order, run in [*rows, (4, "load everywhere, then wrap", right)]:
        strangers = ranks - 1 if run is not right else 0
        predicted = (before + strangers * math.log(CLASSES)) / (1 + strangers)
        print(f"{ranks:5}   {order:26} {predicted:10.3f} {run.mean('loss')[1][0]:10.3f}")
    first = [losses[0] for _, (_, losses) in sorted(wrong[4].curve("loss").items())]
    print("\nthe wrong resume on 4 ranks, rank by rank:", *(f"{loss:.2f}" for loss in first))

    args.figure.parent.mkdir(parents=True, exist_ok=True)
    height = (before + 3 * math.log(CLASSES)) / 4
    runs = {"healthy": healthy, "wrong order": wrong[4], "right order": right}
    plot_runs(runs, "loss", resumed_at=STOP, predicted=height).save(args.figure)
    print(f"\n{args.figure} shows the three runs. {time.monotonic() - began:.0f} s in all.")


if __name__ == "__main__":
    main()
