# Every target makes or updates .venv first (tools/make_venv.sh): nothing needs to be run before it.
# PYTHON=… names the Python to make .venv with, PORT=… the port of `make lab`.

.DEFAULT_GOAL := help
.PHONY: help environment setup lab demo site site-links test test-portable lint types unit \
        notebooks browser bench execute clean

python := .venv/bin/python

help:
	@echo "make lab            JupyterLab on the first lesson (PORT=8888)"
	@echo "make demo           the same experiment in the terminal: a table, and the figure as PNG"
	@echo "make site           the lessons as web pages, in build/site; runs nothing"
	@echo "make test           everything that CI runs: lint, types, unit, notebooks, browser"
	@echo
	@echo "make lint           the style of the code"
	@echo "make types          the types of the code"
	@echo "make unit           unit tests and real torchrun jobs"
	@echo "make notebooks      every lesson runs and prints what its committed outputs say"
	@echo "make browser        a lesson in JupyterLab, in headless Chromium"
	@echo "make test-portable  make notebooks, on the plainest instruction set of the processor"
	@echo "make site-links     whether the links to other sites hold; needs a network"
	@echo "make bench          the benchmarks, in one table"
	@echo "make execute        run the lessons again and save their outputs (NB=notebooks/00_….ipynb)"
	@echo "make setup          only make or update .venv (PYTHON=python3.12)"
	@echo "make clean          remove runs/, caches and builds (not .venv)"

environment:
	@tools/make_venv.sh

setup: environment
	@echo "Everything is set up in .venv ($$($(python) --version)). Next: make lab"

lab: environment
	@exec $(python) tools/lab.py

demo: environment
	@exec $(python) launch/demo.py

site: environment
	@exec $(python) tools/build_site.py

site-links: environment
	@exec $(python) tools/build_site.py --links

test: environment
	@tools/check.sh lint types unit notebooks browser

lint types unit notebooks browser: environment
	@tools/check.sh $@

test-portable: environment
	@ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 tools/check.sh notebooks

bench: environment
	@exec $(python) tests/benchmarks

execute: environment
	@exec $(python) tools/execute_notebooks.py $(NB)

clean:
	rm -rf runs notebooks/runs notebooks/solutions/runs launch/runs build dist helpers/*.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name .venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +
