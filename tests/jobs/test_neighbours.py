"""A user's own files beside the script or the notebook: what a rank imports is what it would be."""

import ast
import json
import subprocess
import sys

from kernels import Kernel
from loadwrap import torchrun

# Names of the standard library, of what the host has loaded, of ours, and of nobody.
NAMES = [
    *("helpers", "log", "utils", "run", "curves", "jobs", "folder"),
    *("json", "random", "selectors", "types", "typing", "queue", "signal"),
    *("numpy", "sympy", "sklearn", "loadwrap"),
]

_IMPORTS = """
    import importlib, sys
    found = {}
    for name in sys.argv[1:]:
        module = importlib.import_module(name)
        found[name] = getattr(module, "__file__", None)
    print(found)
"""


def test_many_files_beside_the_script(write, tmp_path):
    for name in NAMES:
        # A library that the host has loaded is hidden by a folder, too.
        write("mine = 1", f"sub/{name}/__init__.py" if name == "sklearn" else f"sub/{name}.py")
    found = {}
    script = write(_IMPORTS, "sub/script.py")
    for warm in (True, False):
        run = torchrun(script, *NAMES, nproc_per_node=1, live=False, warm=warm).wait()
        found[warm] = ast.literal_eval(run.stdout(0))
    assert found[True] == found[False]
    ours = {name for name, file in found[True].items() if file and file.startswith(str(tmp_path))}
    assert ours >= {"helpers", "log", "utils", "run", "numpy", "sklearn", "loadwrap"}


def test_files_that_hide_nothing_leave_a_rank_warm(write, tmp_path):
    for name in ("helpers", "log", "utils", "model", "data", "run", "loadwrap"):
        write("mine = 1", f"{name}.py")
    (tmp_path / "torch").mkdir()  # a folder of results: a package elsewhere is found before it
    (tmp_path / "numpy").mkdir()
    run = torchrun(
        write("import sys; print('torch' in sys.modules); import loadwrap; print(loadwrap.mine)"),
        live=False,
    ).wait()
    assert run.stdout(0) == "True\n1\n"


def test_the_host_starts_beside_any_file(write, tmp_path):
    for name in ("json", "random", "numpy", "torch", "socket", "selectors", "signal", "logging"):
        write("raise ImportError('the wrong file')", f"work/{name}.py")
    write("print('well')", "other.py")
    kernel = Kernel(
        """
        import os, sys
        sys.path.remove("")
        import loadwrap, numpy
        run = loadwrap.torchrun  # a kernel has imported all this before its folder counts
        from loadwrap.curves import follow
        os.chdir("work")
        sys.path.insert(0, "")
        first = loadwrap.torchrun("../other.py", live=False).wait()
        # As a cell's script has it: what lies beside the notebook can be imported.
        second = loadwrap.torchrun("../other.py", live=False, env={"PYTHONPATH": "."})
        # And with a host that is started for such a job.
        os.environ["TZ"] = "UTC"
        third = loadwrap.torchrun("../other.py", live=False, env={"PYTHONPATH": "."})
        say("printed", first.stdout(0).strip(), third.wait().stdout(0).strip())
        """,
        tmp_path,
    )
    try:
        assert kernel.hear("printed") == "well well"
    finally:
        kernel.close()


def test_a_rank_starts_nothing_and_log_imports_little(launch, warm):
    run = launch(
        """
        import json, os, sys
        before = set(sys.modules)
        from loadwrap import log
        log(1, loss=0.5)
        import loadwrap
        from pathlib import Path
        new = set(sys.modules) - before
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        import threading
        print(json.dumps([sorted(new), children, threading.active_count()]))
        """,
        warm=warm,
    )
    new, children, threads = json.loads(run.stdout(1))
    loaded = {name.split(".")[0] for name in new}
    assert not loaded & {"torch", "numpy", "matplotlib", "subprocess", "IPython", "pandas"}
    assert (children, threads) == ([], 1)
    assert not {name for name in new if name.startswith("loadwrap.jobs")} - {
        "loadwrap.jobs",
        "loadwrap.jobs.stacks",
        "loadwrap.jobs.processes",
    }
    assert run.metrics == ("loss",)


def test_a_rank_of_a_notebook_like_kernel_starts_no_host(launch):
    """Where a rank itself runs IPython, importing us still starts nothing."""
    run = launch(
        """
        import os
        from pathlib import Path
        import loadwrap
        from loadwrap.jobs import client
        client.warm_up()
        print(client.possible(), client._host)
        try:
            loadwrap.torchrun("script.py")
        except loadwrap.LaunchError as error:
            print(error)
        """
    )
    first, second = run.stdout(0).splitlines()
    assert first == "False None"
    assert second.startswith("This is a rank of a job already")


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, loadwrap; from loadwrap import log, JobFailed; "
        "print(sorted({n.split('.')[0] for n in sys.modules} & "
        "{'torch', 'numpy', 'matplotlib', 'IPython'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
