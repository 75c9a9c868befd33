"""as_file: every function here is defined in a cell of a real IPython shell."""

import math
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from loadwrap.jobs.notebook.collect import _References
from loadwrap.jobs.notebook.imports import Imports
from loadwrap.jobs.notebook.layout import Contents
from loadwrap.jobs.notebook.literals import literal
from loadwrap.jobs.notebook.source import SourceError, as_file

LOAD = """
import importlib.util, sys
path, _, name = sys.argv[1].rpartition(":")
spec = importlib.util.spec_from_file_location("piece", path)
module = sys.modules["piece"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
f = getattr(module, name)
print(repr(eval(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    before = sys.modules["__main__"], sys.displayhook
    config = Config()
    config.HistoryManager.enabled = False
    if InteractiveShell.initialized():
        yield InteractiveShell.instance()
        return
    folder = str(tmp_path_factory.mktemp("ipython"))
    shell = InteractiveShell.instance(config=config, ipython_dir=folder)
    yield shell
    shell.clear_instance()
    sys.modules["__main__"], sys.displayhook = before


@pytest.fixture
def cell(shell, tmp_path, monkeypatch):
    """Runs a cell; the notebook's folder is tmp_path / "nb"."""
    (tmp_path / "nb").mkdir()
    monkeypatch.chdir(tmp_path / "nb")
    monkeypatch.syspath_prepend("")
    shell.reset(new_session=True)

    def run(text):
        result = shell.run_cell(textwrap.dedent(text), store_history=True)
        result.raise_error()
        return shell.user_ns

    yield run
    shell.compile.reset_compiler_flags()


def elsewhere(spec, call="f()", cwd="/"):
    """Calls the function in another process, which shares nothing but the file."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOAD, spec, call], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def contents(spec):
    return pathlib.Path(spec.rpartition(":")[0]).read_text()


def refusal(fn):
    with pytest.raises(SourceError) as caught:
        as_file(fn)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_function_with_what_it_uses_and_nothing_else(cell):
    ns = cell(
        """
        %matplotlib --list
        import math, json
        import os.path as paths
        from collections import OrderedDict as Ordered
        SCALE = 3
        UNUSED = 4
        !true
        def unused(): pass
        def helper(x):
            return SCALE * x
        def step(n, k=SCALE):
            # a comment of the user's
            values = [helper(i) for i in range(n)]
            return math.floor(sum(values)), k, Ordered(a=1)["a"], paths.sep
        """
    )
    spec = as_file(ns["step"])
    path, _, name = spec.rpartition(":")
    assert name == "step"
    assert os.path.isabs(path)
    assert pathlib.Path(path).parent == pathlib.Path.cwd() / "runs" / "cells"
    assert pathlib.Path(path).name.startswith("step-")
    assert elsewhere(spec, "f(3)") == "(9, 3, 1, '/')"
    text = contents(spec)
    assert "# a comment of the user's" in text
    for absent in ("json", "UNUSED", "unused", "ipython", "matplotlib"):
        assert absent not in text.replace("-", ""), absent


def test_the_same_function_gives_the_same_file(cell, tmp_path):
    text = "A = {'b', 'a', 'c'}\ndef f():\n    return sorted(A)\n"
    first = as_file(cell(text)["f"])
    stamp = os.stat(first.rpartition(":")[0]).st_mtime_ns
    cell("print('another cell in between')")
    again = as_file(cell("# moved down\n\n" + text)["f"])
    assert again == first
    assert os.stat(first.rpartition(":")[0]).st_mtime_ns == stamp
    other = as_file(cell(text.replace("'c'", "'d'"))["f"])
    assert other != first
    assert as_file(cell(text)["f"], tmp_path / "here").startswith(str(tmp_path / "here" / "f-"))
    leftovers = [p.name for p in pathlib.Path("runs/cells").iterdir() if p.name.startswith(".")]
    assert leftovers == []


def test_the_object_counts_and_not_the_name(cell):
    ns = cell("def f():\n    return 'old'")
    old = ns["f"]
    ns = cell("def f():\n    return 'new'")
    assert elsewhere(as_file(old)) == "'old'"
    assert elsewhere(as_file(ns["f"])) == "'new'"


def test_functions_that_call_each_other(cell):
    ns = cell(
        """
        def even(n):
            return True if n == 0 else odd(n - 1)
        def odd(n):
            return False if n == 0 else even(n - 1)
        """
    )
    assert elsewhere(as_file(ns["even"]), "f(10), f(7)") == "(True, False)"


def test_names_in_every_place(cell):
    ns = cell(
        """
        import math
        A, B, C, D, E, G = 1, 2, 3, 4, 5, 6
        counter = 10
        SKIP = 99
        def outer(SKIP, a=A):
            def inner(b=B):
                return C + b
            class Local:
                d = D
                def get(self):
                    return [E + k for k in range(2)]
            global counter, made
            counter += 1
            made = 5
            if (w := G) > 5:
                pass
            return a, inner(), Local.d, Local().get(), counter, w, made, f"{math.pi:.{B}f}", SKIP
        """
    )
    spec = as_file(ns["outer"])
    assert elsewhere(spec, "f(0)") == "(1, 5, 4, [5, 6], 11, 6, 5, '3.14', 0)"
    assert "99" not in contents(spec)


def test_classes(cell):
    ns = cell(
        """
        import abc, enum, dataclasses, typing
        from dataclasses import dataclass, field
        LIMIT = 7
        def clip(x):
            return min(x, LIMIT)
        class Base(abc.ABC):
            known = {}
            def __init_subclass__(cls):
                cls.known[cls.__name__] = cls
                cls.shout = Base.loud
            def loud(self): ...
            @abc.abstractmethod
            def run(self): ...
        """
    )
    cell(
        """
        class Child(Base):
            __secret = 2
            @property
            def size(self):
                return clip(100)
            @staticmethod
            def make():
                return Child()
            def run(self):
                super().run()
                return type(self).__name__, self.size, self.__secret
        class Colour(enum.Enum):
            RED = 1
        class Pair(typing.NamedTuple):
            x: int
            y: int = 4
        class Oops(Exception):
            pass
        @dataclass(frozen=True)
        class Settings:
            lr: float = 0.1
            tags: list = field(default_factory=list)
        @dataclass(slots=True)
        class Slim:
            a: int
            def double(self):
                return 2 * self.a
        """
    )
    cell(
        """
        def build():
            try:
                raise Oops("x")
            except Oops:
                pass
            settings = Settings(lr=0.2)
            return Child.make().run(), Colour.RED.name, Pair(1), settings, Slim(2).double()
        """
    )
    spec = as_file(ns["build"])
    expected = "(('Child', 7, 2), 'RED', Pair(x=1, y=4), Settings(lr=0.2, tags=[]), 4)"
    assert elsewhere(spec) == expected
    assert elsewhere(as_file(ns["Child"]), "f().size") == "7"


def test_a_class_that_was_defined_twice(cell):
    cell("from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int = 1\n")
    ns = cell("from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int = 2\n")
    cell("def f():\n    return P()")
    assert elsewhere(as_file(ns["f"])) == "P(a=2)"
    cell("if False:\n    class P:\n        a: int = 3\n")
    assert elsewhere(as_file(ns["f"])) == "P(a=2)"
    cell("class Q:\n    def get(self):\n        return 1\nold = Q")
    cell("class Q:\n    def get(self):\n        return 2")
    cell("def g():\n    return Q().get()")
    assert elsewhere(as_file(ns["g"])) == "2"
    assert elsewhere(as_file(ns["old"]), "f().get()") == "1"


def test_a_class_that_was_changed_afterwards_is_refused(cell):
    ns = cell("class Net:\n    width = 4\n    def size(self):\n        return 1")
    cell("def f():\n    return Net().size()\ndef size(self):\n    return 2\nNet.size = size")
    assert "the class Net (used by f) as it is now" in refusal(ns["f"])
    cell("class Net:\n    width = 4\n    def size(self):\n        return 1")
    assert elsewhere(as_file(ns["f"])) == "1"
    cell("Net.width = 5")
    assert "as it is now" in refusal(ns["f"])
    cell("class Net:\n    pass\nclass Sub(Net):\n    def a(self): return 0\ndef g(): return Sub()")
    cell("class Net:\n    pass")
    assert "built on an earlier version of Net" in refusal(ns["g"])


def test_decorators(cell):
    ns = cell(
        """
        import functools
        TIMES = 2
        def twice(function):
            @functools.wraps(function)
            def inner(*args):
                return [log_it(function(*args)) for _ in range(TIMES)]
            return inner
        def log_it(x):
            return ("seen", x)
        def tagged(tag):
            def deco(function):
                return function
            check(tag)
            return deco
        def check(tag):
            assert tag == TAG
        TAG = "t"
        @twice
        def f(x):
            return x + 1
        @functools.lru_cache
        def cached(x):
            return f(x)
        @tagged(TAG)
        def plain(x):
            return cached(x)
        """
    )
    assert elsewhere(as_file(ns["plain"]), "f(1)") == "[('seen', 2), ('seen', 2)]"
    assert elsewhere(as_file(ns["f"]), "f(1)") == "[('seen', 2), ('seen', 2)]"
    assert elsewhere(as_file(ns["cached"]), "f(1), f.cache_info().misses")[-4:] == ", 1)"


def test_constants_that_need_an_import(cell):
    ns = cell(
        """
        import pathlib, re
        _re = "taken"
        WORD = re.compile("[ab]+", re.I)
        HOME = {"path": pathlib.Path("a b"), "none": float("nan")}
        def f():
            return WORD.findall("xABy"), str(HOME["path"]), HOME["none"], _re
        """
    )
    assert elsewhere(as_file(ns["f"])) == "(['AB'], 'a b', nan, 'taken')"


def test_a_function_that_poses_as_another(cell):
    ns = cell(
        """
        import functools
        def real(): return 1
        @functools.wraps(real)
        def stand_in(): return 2
        """
    )
    assert elsewhere(as_file(ns["stand_in"])) == "2"


def test_order_puts_what_runs_first_first(cell):
    ns = cell(
        """
        class A:
            def make(self):
                return C()
        class B(A):
            pass
        class C(B):
            pass
        REGISTRY = {"a": A, "c": C, "int": int}
        def start(kind=C):
            return kind.__mro__[2].__name__, type(A().make()).__name__, sorted(REGISTRY)
        """
    )
    assert elsewhere(as_file(ns["start"])) == "('A', 'C', ['a', 'c', 'int'])"
    assert elsewhere(as_file(ns["A"]), "type(f().make()).__name__") == "'C'"


def test_more_names_for_one_function(cell):
    ns = cell(
        """
        def f(x):
            return g(x - 1) if x else "end"
        g = f
        def both():
            return f(2), g(1), f is g
        """
    )
    assert elsewhere(as_file(ns["both"])) == "('end', 'end', True)"
    cell("def h():\n    return 1\nk = h")
    cell("def h():\n    return 2\ndef use():\n    return h(), k()")
    assert "an older and a newer h are both in use" in refusal(ns["use"])
    cell("def use_old():\n    return k()")
    assert elsewhere(as_file(ns["use_old"])) == "1"


def test_indented_and_async_definitions_and_magics_around(cell):
    ns = cell(
        '''
        import asyncio
        if True:
            async def fetch():
                text = """a
        b"""
                return text
        %env LOADWRAP_NOTHING=1
        def run():
            return asyncio.run(fetch())
        '''
    )
    assert elsewhere(as_file(ns["run"])) == r"'a\nb'"
    assert "LOADWRAP_NOTHING" not in contents(as_file(ns["run"]))


def test_future_annotations_hold_in_later_cells(cell):
    ns = cell(
        """
        from __future__ import annotations
        from dataclasses import dataclass
        import fractions
        Pair = tuple[int, float]
        model = object()
        """
    )
    cell(
        """
        @dataclass
        class Node:
            value: fractions.Fraction
            next: Node | None = None
        def walk(node: Node, pair: Pair, other: Undefined = 1, model: model = 2) -> list[Node]:
            x: Missing = 3
            return [node.value, other, x]
        """
    )
    spec = as_file(ns["walk"])
    assert "Pair = tuple[int, float]" in contents(spec)
    assert elsewhere(spec, "f(module.Node(1), 0), f.__annotations__['other']") == (
        "([1, 1, 3], 'Undefined')"
    )
    assert elsewhere(as_file(ns["Node"]), "f(3)") == "Node(value=3, next=None)"


def test_annotations_that_are_evaluated(cell):
    ns = cell(
        """
        import fractions, pathlib
        class Net: pass
        Batch = tuple[Net, "Net"] | None
        def f(a: fractions.Fraction, b: Batch, c: "Later" = None) -> "Net":
            d: Undefined = 1
            return f.__annotations__["a"].__name__
        """
    )
    assert elsewhere(as_file(ns["f"]), "f(1, 2)") == "'Fraction'"


def test_imports_are_the_ones_of_the_notebook(cell):
    pathlib.Path("beside.py").write_text("import neighbour\ndef g():\n    return neighbour.X\n")
    pathlib.Path("neighbour.py").write_text("X = 5\n")
    pathlib.Path("inner_only.py").write_text("Y = 6\n")
    ns = cell(
        """
        import xml
        import xml.dom.minidom
        import concurrent.futures as cf
        import importlib as il
        import importlib.util
        from os import environ, path as p
        from math import *
        from beside import g as local_g
        from json import dumps as d
        say = print
        def f():
            import inner_only
            il.util.find_spec("os")
            xml.dom.minidom.parseString("<a/>")
            cf.ThreadPoolExecutor
            say(end="")
            return d([local_g(), inner_only.Y, floor(1.5), "PATH" in environ, p.sep])
        """
    )
    spec = as_file(ns["f"])
    text = contents(spec)
    assert "from os import environ\n" in text
    assert "from beside import g as local_g\n" in text
    assert "import xml.dom.minidom\n" in text
    assert "from math import floor" in text
    assert elsewhere(spec) == repr('[5, 6, 1, true, "/"]')
    for name in ("beside", "neighbour", "inner_only"):
        sys.modules.pop(name, None)


def test_the_file_does_not_depend_on_where_the_notebook_lies(cell, tmp_path, monkeypatch):
    names = []
    for place in ("one", "two/deeper"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        (folder / "beside.py").write_text(f"WHERE = {place!r}\n")
        sys.modules.pop("beside", None)
        spec = as_file(cell("import beside\ndef f(): return beside.WHERE")["f"])
        assert elsewhere(spec) == repr(place)
        assert str(tmp_path) not in contents(spec)
        names.append(pathlib.Path(spec).name)
    assert names[0] == names[1]
    sys.modules.pop("beside", None)


def test_functions_of_a_script_that_was_run_in_the_notebook(cell):
    pathlib.Path("script.py").write_text(
        "import math as m\nN = 3\ndef g():\n    return m.floor(N + 0.5)\n"
    )
    ns = cell("%run script.py")
    assert elsewhere(as_file(ns["g"])) == "3"
    cell("def f():\n    return g() + 1")
    assert elsewhere(as_file(ns["f"])) == "4"
    cell("N = 5\ndef f():\n    return g() + N")
    assert "an older and a newer N are both in use" in refusal(ns["f"])


def test_a_hint_that_cannot_be_had_leaves_nothing_behind(cell):
    ns = cell(
        """
        from __future__ import annotations
        import json
        thing = object()
        class Hint:
            def use(self):
                return json.dumps(thing)
        def f(x: Hint):
            return x
        """
    )
    spec = as_file(ns["f"])
    assert elsewhere(spec, "f(1)") == "1"
    assert "json" not in contents(spec)
    assert "class Hint" not in contents(spec)


def test_names_of_this_library(cell):
    ns = cell("from loadwrap import log, torchrun\ndef f():\n    return log.__name__")
    assert "from loadwrap import log\n" in contents(as_file(ns["f"]))
    assert elsewhere(as_file(ns["f"])) == "'log'"


def test_torch_names(cell):
    ns = cell(
        """
        import torch
        import torch.distributed as dist
        import torch.nn as nn
        import torch.nn.functional as F
        from torch import Tensor, relu
        from torch.nn.parallel import DistributedDataParallel as DDP
        DTYPE, DEVICE = torch.float64, torch.device("cpu")
        ACTS = {"relu": nn.ReLU, "tanh": torch.tanh, "gelu": F.gelu}
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2, device=DEVICE, dtype=DTYPE)
            @torch.no_grad()
            def forward(self, x: Tensor) -> Tensor:
                return relu(F.softmax(self.fc(x), dim=1)) * ACTS["tanh"](torch.ones(1))
        @torch.no_grad()
        def total() -> Tensor:
            assert DDP is not None and dist.is_available() and torch.utils.data.Dataset
            return round(float(Net()(torch.ones(1, 2, dtype=DTYPE)).sum()), 3)
        """
    )
    spec = as_file(ns["total"])
    assert "from torch.nn.parallel import DistributedDataParallel as DDP" in contents(spec)
    assert "import torch.distributed as dist" in contents(spec)
    assert elsewhere(spec) == "0.762"
    cell("model = Net()\nweight = torch.ones(2)\ndef bad():\n    return model(weight)")
    assert refusal(ns["bad"]) == (
        "bad uses model, a Net object, which cannot be written to a file: "
        "pass it as an argument, or build it inside the function"
    )
    cell("states = {'w': weight}\ndef worse():\n    return states")
    assert "worse uses states, a dict with a torch.Tensor in it" in refusal(ns["worse"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "def o(lr):\n    def f(): return lr\n    return f\nf = o(1)",
            "f is a closure, it uses lr",
        ),
        ("f = lambda: 1", "is a lambda"),
        ("class A:\n    def m(self): pass\nf = A().m", "is a bound method"),
        ("class A:\n    def m(self): pass\nf = A.m", "is a method of a class"),
        ("class A:\n    def __call__(self): pass\nf = A()", "A is a callable object"),
        ("import functools\ndef g(x): pass\nf = functools.partial(g, 1)", "a functools.partial"),
        ("f = len", "len is built in"),
        ("import random\nf = random.random", "built in"),
        ("f = 3", "int is not a function"),
        ("exec('def f(): return 1')", "the source of f is not kept"),
        ("def o():\n    def f(): return 1\n    return f\nf = o()", "is defined inside a function"),
        ("def g(): pass\nimport contextlib\nf = contextlib.contextmanager(g)", "wrapped by a call"),
        ("h = open('/dev/null')\ndef f(): return h", "f uses h, an open file"),
        (
            "import collections\nXY = collections.namedtuple('XY', 'x')\ndef f(): return XY(1)",
            "XY (used by f) was not made by a class statement in a plain cell",
        ),
        ("def f(): return nowhere", "f uses nowhere, which the notebook does not define"),
        ("def f():\n    !ls\n", "uses get_ipython of IPython"),
        ("def f(): return In", "uses In of IPython"),
        ("act = lambda: 1\ndef f(): return act()", "act (used by f) is a lambda"),
        ("N = 1\ndef f(n=N): return n\nN = 2", "N, the default of n in f, has changed"),
        ("big = 'x' * 2_000_000\ndef f(): return big", "a constant of 2,000,002 characters"),
        ("loop = []\nloop.append(loop)\ndef f(): return loop", "f uses loop, a list"),
        ("def deco(g):\n    def w(): return g()\n    return w\n@deco\ndef f(): pass", "closure"),
    ],
)
def test_refusals_are_one_sentence(cell, text, says):
    assert says in refusal(cell(text)["f"])


def test_a_cell_under_time_keeps_no_source(cell, capsys):
    ns = cell("%%time\nclass T:\n    def m(self): return 1\ndef f(): return T\n")
    assert "not kept" in refusal(ns["f"])
    cell("def g(): return T().m()")
    assert "no cell holds the source of the class T" in refusal(ns["g"])


def test_an_edited_file_is_noticed(tmp_path):
    script = tmp_path / "edited.py"
    script.write_text("def f():\n    return 1\n")
    namespace = {"__name__": "__main__", "__file__": str(script)}
    exec(compile(script.read_text(), str(script), "exec"), namespace)
    script.write_text("def f():\n    return 2\n")
    assert "the source of f has changed since it was run" in refusal(namespace["f"])


def test_functions_from_files(cell):
    pathlib.Path("mine.py").write_text("import os\ndef f():\n    return os.sep\n")
    ns = cell("from mine import f\nfrom torch.nn.functional import relu\nfrom json import dumps")
    assert as_file(ns["f"]) == f"{pathlib.Path('mine.py').absolute()}:f"
    spec = as_file(ns["dumps"])
    assert spec.endswith(":dumps")
    assert "from json import dumps" in contents(spec)
    assert elsewhere(spec, "f([1])") == "'[1]'"
    sys.modules.pop("mine")


def test_a_script_is_treated_like_a_notebook(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom loadwrap.jobs.notebook.source import as_file\nN = 4\n"
        "class Plain:\n    n = 4\n"
        "def f():\n    return N + Plain.n\n"
        "print(as_file(f))\nassert __name__ == '__main__'\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert elsewhere(done.stdout.strip()) == "8"


def test_a_folder_that_cannot_be_written(cell):
    ns = cell("def f(): return 1")
    pathlib.Path("closed").write_text("a file, which also root cannot write into")
    with pytest.raises(OSError, match="closed"):
        as_file(ns["f"], "closed/cells")


def test_no_torch_and_no_ipython_for_the_import():
    code = (
        "import sys, loadwrap.jobs.notebook.source, loadwrap.jobs.notebook.cells;"
        "print([m for m in ('torch', 'IPython', 'matplotlib', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.just(...)
    | st.builds(range, st.integers(), st.integers(), st.integers(min_value=1))
    | st.builds(pathlib.Path, st.text("abc/ '\"", min_size=1))
)
HASHABLE = st.recursive(
    SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6
)
CONSTANTS = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.builds(slice, inner, inner)
    ),
    max_leaves=12,
)


def evaluate(text):
    return eval(text, {"_pathlib": pathlib})


@settings(max_examples=300, deadline=None)
@given(CONSTANTS)
def test_constants_come_back_equal(value):
    text = literal(value, _References(_Nobody(), "x", None))
    text.encode("utf-8")
    assert literal(evaluate(text), _References(_Nobody(), "x", None)) == text
    assert same(evaluate(text), value)


class _Nobody:
    contents = Contents(Imports(set()))


def same(one, other):
    """Equality of types and bits: nan equals nan, 0.0 does not equal -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, slice):
        return same([one.start, one.stop, one.step], [other.start, other.stop, other.step])
    return one == other
