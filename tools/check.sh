#!/bin/sh
# Runs the named checks in order, all of them even if one fails, and ends with one line for each.
#
#   tools/check.sh lint types unit notebooks browser
set -u
cd "$(dirname "$0")/.." || exit 1
python=.venv/bin/python

# A setting of this terminal must not decide a test: unbuffered output hides a lost last line, and
# another Jupyter's folders or an IPython start-up file would change what the notebooks run in.
unset PYTHONUNBUFFERED OMP_NUM_THREADS MPLBACKEND JUPYTER_PATH JUPYTER_CONFIG_DIR
export JUPYTER_PREFER_ENV_PATH=1 IPYTHONDIR="$PWD/.venv/ipython"

# The cores are shared by file: a notebook's cells, and a file's fixtures, stay in one process.
shared="--numprocesses auto --maxprocesses 4 --dist loadfile"

find_browser() {
    for name in ${CHROMIUM:+"$CHROMIUM"} chromium chromium-browser google-chrome google-chrome-stable \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
        "/Applications/Chromium.app/Contents/MacOS/Chromium"; do
        command -v "$name" 2>/dev/null && return
    done
    return 1
}

check() {
    case $1 in
    lint)
        "$python" -m ruff check
        style=$?
        "$python" -m ruff format --check && return $style
        ;;
    types) "$python" -m mypy ;;
    unit)
        # What watches processes and clocks has the cores to itself; everything else shares them.
        "$python" -m pytest tests/jobs tests/setup
        alone=$?
        "$python" -m pytest tests --ignore=tests/jobs --ignore=tests/setup --ignore=tests/browser \
            $shared && return $alone
        ;;
    notebooks)
        set --
        for notebook in notebooks/*.ipynb notebooks/solutions/*.ipynb; do
            [ -f "$notebook" ] && set -- "$@" "$notebook"
        done
        [ $# -gt 0 ] || { echo "There is no notebook in notebooks/." && return 1; }
        "$python" -m pytest $shared --nbval --nbval-cell-timeout=120 \
            --nbval-sanitize-with tests/nbval_sanitize.cfg "$@"
        ;;
    browser)
        CHROMIUM=$(find_browser) || {
            echo "The browser tests need Chromium, and none was found; install it" \
                "(on Debian: apt install chromium), or name it: make browser CHROMIUM=/path/to/it."
            return 1
        }
        export CHROMIUM
        "$python" -m pytest tests/browser
        ;;
    *) echo "There is no check called $1." && return 2 ;;
    esac
}

headline() {
    case $1 in
    lint) echo "lint: ruff" ;;
    types) echo "types: mypy" ;;
    unit) echo "unit: unit tests and real torchrun jobs" ;;
    notebooks) echo "notebooks: every output as committed" ;;
    browser) echo "browser: JupyterLab in headless Chromium" ;;
    *) echo "$1" ;;
    esac
}

failed=0
summary=
for name in "$@"; do
    printf '\n===== %s =====\n' "$(headline "$name")"
    start=$(date +%s)
    if check "$name"; then verdict=ok; else verdict=FAILED failed=1; fi
    summary="$summary$(printf '%-10s %-7s %4d s' "$name" $verdict $(($(date +%s) - start)))
"
done
printf '\n%s' "$summary"
exit $failed
