#!/bin/sh
# Makes .venv from pyproject.toml and constraints.txt, once; does nothing while it is up to date.
#
#   tools/make_venv.sh
#   PYTHON=/path/to/python3.12 tools/make_venv.sh
#
# .venv/made-from holds a copy of what the environment was made from. It is removed before any
# change and written last, so an environment without it is half made, and is made again.
set -eu
cd "$(dirname "$0")/.."

made_from=.venv/made-from
log=.venv/setup.log
lock=.venv.lock
root=$(pwd -P)

fail() {
    echo "Set-up stopped: $*" >&2
    exit 1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# --- Is there anything to do? ------------------------------------------------------------------

python_is_wanted() { # without PYTHON any Python that made .venv will do
    [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON" || true)" = "$1" ]
}

up_to_date() {
    [ -f $made_from/where ] || return 1
    version=$(version_of .venv/bin/python) || return 1
    python_is_wanted "$version" || return 1
    [ "$(cat $made_from/where)" = "$version $root" ] || return 1
    cmp -s pyproject.toml $made_from/pyproject.toml && cmp -s constraints.txt $made_from/constraints.txt
}

# --- One set-up at a time ----------------------------------------------------------------------

take_lock() {
    told=
    until ln -s $$ $lock 2>/dev/null; do
        owner=$(readlink $lock || true)
        if [ -z "$owner" ]; then
            [ -w . ] || fail "the folder $root is not writable; clone the project where you may write."
        elif ! kill -0 "$owner" 2>/dev/null; then
            rm -f $lock # its owner was killed
            continue
        elif [ -z "$told" ]; then
            echo "Another set-up of .venv is running (process $owner): waiting for it."
            told=yes
        fi
        sleep 1
    done
    trap 'rm -f $lock' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# --- A Python that can do it -------------------------------------------------------------------

# Prints "yes VERSION", or why not: "venv VERSION", "old VERSION", "new VERSION", "32 VERSION".
judge() {
    "$1" - 2>/dev/null <<'END'
import sys
version = "%d.%d" % sys.version_info[:2]
if sys.version_info < (3, 11):
    print("old", version)
elif sys.version_info >= (3, 15):
    print("new", version)
elif sys.maxsize < 2**32:
    print("32", version)
else:
    try:
        import ensurepip, venv
    except ImportError:
        print("venv", version)
    else:
        print("yes", version)
END
}

explain() { # explain NAME VERDICT
    case $2 in
    venv*) echo "$1 is Python ${2#* } without its venv module; install it (on Debian and Ubuntu: apt install python${2#* }-venv) and try again." ;;
    old*) echo "$1 is Python ${2#* }, and 3.11 or newer is needed; install one and try again, or name it: make PYTHON=/path/to/python3.11." ;;
    new*) echo "$1 is Python ${2#* }, newer than those PyTorch is known to be built for; install one from 3.11 to 3.14 and try again, or name it: make PYTHON=/path/to/python3.12." ;;
    32*) echo "$1 is a 32-bit Python, and PyTorch needs a 64-bit one; install one and try again." ;;
    *) echo "PYTHON=$1 does not run as a Python; name one from 3.11 to 3.14, or leave PYTHON unset." ;;
    esac
}

find_python() { # sets python
    if [ -n "${PYTHON:-}" ]; then
        verdict=$(judge "$PYTHON" || true)
        case $verdict in yes*) python=$PYTHON ;; *) fail "$(explain "$PYTHON" "$verdict")" ;; esac
        return
    fi
    python=
    why=
    # The version that CI tests first. Each is run, since a name on the PATH may be an empty shim.
    for name in python3.11 python3.12 python3.13 python3 python3.14 python; do
        verdict=$(judge $name || true)
        case $verdict in
        yes*) python=$name && return ;;
        venv*) why=$(explain $name "$verdict") ;; # the nearest miss: worth telling above any other
        ?*) why=${why:-$(explain $name "$verdict")} ;;
        esac
    done
    fail "${why:-no Python was found; install Python 3.11 or newer with its venv module (on Debian and Ubuntu: apt install python3-venv) and try again.}"
}

# --- Packages ----------------------------------------------------------------------------------

check_disk() {
    free=$(df -Pk . | awk 'NR == 2 { for (i = 2; i <= NF; i++) if ($i ~ /%$/) { print $(i - 1); exit } }')
    [ "${free:-9999999}" -ge 3000000 ] ||
        fail "only $((free / 1000)) MB are free on this disk and .venv needs 3,000 (about 9,000 where PyTorch comes with CUDA); free some and try again."
}

pip_install() {
    # pip's own text goes to the log; here one line a download, so that the wait can be followed.
    {
        PIP_USER=0 PYTHONUNBUFFERED=1 .venv/bin/python -m pip --disable-pip-version-check install \
            --no-build-isolation -c constraints.txt "$@" </dev/null 2>&1 && : >.venv/pip-succeeded
    } | tee -a $log | sed -n 's/^ *Downloading \([^ ]* ([^)]*[MG]B)\).*/  downloading \1/p'
    [ -f .venv/pip-succeeded ] || explain_pip
    rm .venv/pip-succeeded
}

explain_pip() {
    more="all of pip's output is in $log."
    if grep -q "No space left on device" $log; then
        fail "the disk is full; free some space, or set TMPDIR to a folder with space, and try again: $more"
    elif grep -qE "CERTIFICATE_VERIFY_FAILED|SSLError" $log; then
        fail "the package index's certificate was refused; behind a proxy set PIP_CERT to its certificate file and try again: $more"
    elif grep -qiE "NewConnectionError|NameResolutionError|Failed to establish|Max retries|Connection broken|Connection reset|ReadTimeout|ConnectTimeout|timed out|ProxyError|Network is unreachable" $log; then
        fail "pip could not reach its package index; check the network (behind a proxy: HTTPS_PROXY) and try again: $more"
    elif missing=$(grep -m1 -E "No matching distribution found for|requested \(constraint\)" $log); then
        missing=${missing##*found for }
        fail "pip found no ${missing##*(constraint) } for Python $version on $(uname -sm); connect the machine if it is offline, or name another Python (make PYTHON=/path/to/python3.11): $more"
    fi
    grep "^ERROR" $log | tail -n 3 >&2 || true
    fail "pip failed; its last lines are above, and $more"
}

# The announcements extension asks every new user a question in a pop-up: not in a course.
quieten_jupyterlab() {
    mkdir -p .venv/etc/jupyter/labconfig
    echo '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}' \
        >.venv/etc/jupyter/labconfig/page_config.json
}

# --- The set-up itself -------------------------------------------------------------------------

if up_to_date; then exit 0; fi
take_lock
if up_to_date; then exit 0; fi

if [ -d .venv ] && ! [ -f .venv/made-by-load-then-wrap ]; then
    fail "there is a .venv here that this project did not make; move it away and try again."
fi
if [ -f $made_from/where ] && version=$(version_of .venv/bin/python) && python_is_wanted "$version" &&
    [ "$(cat $made_from/where)" = "$version $root" ]; then
    echo "Updating .venv: pyproject.toml or constraints.txt has changed."
    rm -rf $made_from
else
    find_python
    check_disk
    version=$(version_of "$python")
    echo "Making .venv with Python $version: once, and a few minutes with a slow network."
    rm -rf .venv
    mkdir .venv 2>/dev/null || fail "the folder $root is not writable; clone the project where you may write."
    : >.venv/made-by-load-then-wrap
    "$python" -m venv .venv >$log 2>&1 ||
        fail "$python could not make a virtual environment; its output is in $log."
fi
: >$log
pip_install setuptools
pip_install -e ".[course,site,test]"
quieten_jupyterlab

mkdir $made_from
cp pyproject.toml constraints.txt $made_from/
echo "$version $root" >$made_from/new
mv $made_from/new $made_from/where
echo ".venv is ready."
