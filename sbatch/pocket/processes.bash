# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Processes of a pocket cluster: start one as a daemon, know it again later, wait for something with a deadline.
# A process is known by "pid start-time boot-id", so that a recycled pid is never taken for ours.

die() { echo "pocket-cluster: $*" >&2; exit 1; }
say() { echo "pocket-cluster: $*" >&2; }

# wait_until SECONDS WHAT COMMAND...: polls COMMAND; past the deadline it says what it waited for and fails.
wait_until() {
  local seconds=$1 what=$2 deadline
  shift 2
  deadline=$((${EPOCHREALTIME/[.,]/} + seconds * 1000000))
  until "$@"; do
    ! interrupted || return 1
    if ((${EPOCHREALTIME/[.,]/} > deadline)); then
      say "gave up waiting for $what after $seconds s"
      return 1
    fi
    sleep 0.05
  done
}

not() { ! "$@"; }

# Prints "pid start-time boot-id" of a running process; fails for one that is gone or a zombie.
identity() {
  local pid=$1 stat
  { stat=$(<"/proc/$pid/stat"); } 2>/dev/null || return 1
  read -ra stat <<<"${stat##*) }"  # the fields behind the command name, which may itself hold blanks and brackets
  [[ ${stat[0]} != [ZX] ]] || return 1
  echo "$pid ${stat[19]} $(</proc/sys/kernel/random/boot_id)"
}

# Prints the pid of daemon NAME; fails when it does not run (any more).
daemon_pid() {
  local record=$POCKET_DIR/run/$1 pid
  [[ -s $record ]] || return 1
  read -r pid _ <"$record"
  [[ $(identity "$pid") == "$(<"$record")" ]] || return 1
  echo "$pid"
}

runs() { daemon_pid "$1" >/dev/null; }

# spawn NAME COMMAND...: runs COMMAND in a session of its own, with a clean environment and without the caller's descriptors
# (a caller's pipe or lock would otherwise stay open for as long as the cluster is up).
spawn() {
  local name=$1 record=$POCKET_DIR/run/$1 fd
  shift
  rm -f "$record"
  (
    exec </dev/null >>"$POCKET_DIR/log/$name.out" 2>&1
    for fd in "/proc/$BASHPID/fd/"*; do
      fd=${fd##*/}
      ((fd <= 2 || fd == 255)) || exec {fd}>&-
    done
    identity "$BASHPID" >"$record.new" && mv "$record.new" "$record"
    # A shell without job control starts its children with SIGINT ignored, and every job would inherit that.
    exec env -i --default-signal PATH="$PATH" HOME=/root LANG=C.UTF-8 SLURM_CONF="$SLURM_CONF" setsid "$@"
  ) &
  disown $! # else bash would report its end
  wait_until 5 "process $name to start" test -s "$record"
}

# kill_daemons NAME...: SIGKILL to each that runs.
kill_daemons() {
  local name pid
  for name in "$@"; do
    if pid=$(daemon_pid "$name"); then kill -KILL "$pid" 2>/dev/null || true; fi
  done
}
