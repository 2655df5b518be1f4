#!/bin/sh
# Sets up .venv with uv, for `make setup`: workflow/set-up.sh [LAYER ...]
# Layers are extras and groups of pyproject.toml; `compiler` is what the host lacks of nvcc and nvdisasm. A host
# with an NVIDIA GPU gets `compiler` and `gpu`: PyCUDA, which is built here. The file .venv/set-up says what is
# in place, and tells the environment from one of the user.
set -eu
cd -P "$(dirname "$0")/.."
unset UV_DEFAULT_INDEX UV_INDEX_URL # the lock names PyPI; pip reads the user's index
export UV_PROJECT_ENVIRONMENT=.venv
state=.venv/set-up log=.venv/set-up.log pip=".venv/bin/python -m pip"
kept=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/uv}/gemm-study
index="could not install uv.lock; name a package index that answers in PIP_INDEX_URL, or run 'make lock'"

fail() { echo "${level:-error}: $1" >&2 && exit 2; }
attempt() { "$@" >$log 2>&1 </dev/null; }

# run REMEDY COMMAND ...: fails with the remedy and the most telling line of the command's output.
run() {
  remedy=$1 && shift
  attempt "$@" && return
  for words in 'No space' 'fatal error:|cannot find -l' 'cause:' 'error' .; do
    line=$(sed 's/^ *//' $log | grep -v '^WARNING' | grep -iE "$words" | tail -n 1)
    [ ! "$line" ] || break
  done
  fail "$remedy (${line:-no message}; more in $PWD/$log)"
}

# The environment with uv, from the Python from which that of an active environment was made.
create() {
  for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11} ''; do
    $python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
  done
  [ "$python" ] || fail "no Python 3.11 or newer runs here; install one, or name it: make PYTHON=/path/to/python3"
  run "install Python's venv module (Debian, Ubuntu: apt-get install python3-venv)" \
    "$($python -c 'import sys; print(sys._base_executable)')" -m venv --prompt gemm-study .venv
  attempt $pip install --no-index --find-links "$kept" -r workflow/uv.txt && return
  run "$index" $pip download --dest "$kept" -r workflow/uv.txt
  run "$index" $pip install --no-index --find-links "$kept" -r workflow/uv.txt
}

# PyCUDA takes the toolkit of the first nvcc on PATH, which may be a script, and any libcuda.so to link.
prepare_pycuda() {
  nvcc=${nvcc:-$(ls .venv/lib/python*/site-packages/nvidia/cu13/bin/nvcc)} || fail "PyCUDA needs nvcc"
  folder=$("$nvcc" --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ _HERE_=//p')
  run "install gcc" gcc -shared -Wl,-soname,libcuda.so.1 -o .venv/libcuda.so -x c /dev/null
  export PATH="$folder:$PATH" LDFLAGS=-Wl,--no-as-needed LIBRARY_PATH="$PWD/.venv"
}

place() { echo "$PWD $(readlink -e .venv/bin/python)"; }
record() { echo $(printf "%s\n" "$@" | sort -u) "/ $(place) $locks"; }

# After an interruption or a move, all files are installed again, because some may be cut off.
install() {
  echo set-up: installing the study "$@" >&2
  names= again=
  case $(cat $state) in '') create ;; *"/ $(place) "*) ;; *) create && again=--reinstall ;; esac
  for layer; do
    case $layer in blas | crate | gpu | slurm) names="$names --extra=$layer" ;; *) names="$names --group=$layer" ;; esac
    [ "$layer" != gpu ] || prepare_pycuda
  done
  echo "$required / interrupted" >$state
  sync=".venv/bin/uv sync --python .venv/bin/python --inexact --locked --no-group=build $names"
  attempt $sync $again --offline || attempt $sync $again && return
  run "$index" .venv/bin/uv export --frozen --no-emit-project --no-group=build $names -o .venv/locked.txt
  run "$index" $pip install --no-deps --no-build-isolation -r .venv/locked.txt
  run "$index" $sync --offline
}

case $PWD in *[:{}]*) fail "$PWD: Python packages cannot be in a folder with : { or }; move it" ;; esac
if [ -L .venv ] || { [ "$(ls -A .venv 2>/dev/null)" ] && ! ls .venv/set-up* >/dev/null 2>&1; }; then
  fail "$PWD/.venv was not made by this set-up; move it away, or use it without make: .venv/bin/gemm-study report"
fi
{ mkdir -p .venv && touch $state; } 2>/dev/null || fail "$PWD/.venv: cannot be written; make the folder writable"
exec 9<uv.lock && flock 9 # two makes at once would install over each other
trap 'fail "stopped; rerun the same command to resume"' INT
locks=$(cat pyproject.toml uv.lock workflow/uv.txt | sha256sum)
required=$(sed 's,/ .*,,' $state) optional=
nvcc=$(sed -n "s/^[^#]*\bnvcc: *['\"]\{0,1\}\([^'\"#} ]*\).*/\1/p" config*.yaml)
nvcc=$(command -v "${nvcc:-nvcc}") && missing= || missing=compiler
near="$PATH:${nvcc%/*}:$(dirname "$(readlink -f "$nvcc")")"
[ "$missing" ] || PATH=$near command -v nvdisasm >/dev/null || missing=disassembler
case " $required " in *" compiler "* | *" disassembler "*) missing= ;; esac
for layer in "$@" $(ls /dev/nvidia[0-9]* >/dev/null 2>&1 && echo compiler gpu); do
  [ "$layer" != compiler ] || layer=$missing
  case $layer in disassembler | gpu) optional="$optional $layer" ;; *) required="$required $layer" ;; esac
done
[ "$(record $required)" = "$(cat $state)" ] || { install $required && record $required >$state; }
for layer in $optional; do
  case " $required " in *" $layer "*) continue ;; esac
  if (level="warning: the study works without $layer" && install $required $layer); then
    required="$required $layer"
  fi
  record $required >$state
done
