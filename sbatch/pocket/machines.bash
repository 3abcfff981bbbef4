# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The machines of a pocket cluster: the controller "ctl" and the nodes "n1" .. "nN". Each is a network, UTS, PID, IPC and mount
# namespace. Its launcher stays on the host as the parent of the machine's pid 1, so that launcher and machine live and die together.

machines() {
  local count i
  count=$(cat "$POCKET_DIR/nodes" 2>/dev/null || echo 0)
  echo ctl
  for ((i = 1; i <= count; i++)); do echo "n$i"; done
}

# The host's pid of a machine's pid 1.
init_pid() {
  local launcher
  launcher=$(daemon_pid "$1") && pgrep -P "$launcher"
}

is_on() { runs "$1"; }

boot() {
  local machine=$1 daemon
  case $machine in
    ctl) daemon=(slurmctld -D) ;;
    *)
      rm -rf "$POCKET_DIR/spool/$machine"
      mkdir -m 700 "$POCKET_DIR/spool/$machine"
      daemon=(slurmd -D -c -b) # -b: tell the controller of a reboot, which ends what it thinks runs here
      ;;
  esac
  spawn "$machine" nsenter --net="/run/netns/$(netns "$machine")" \
    unshare --uts --pid --ipc --mount --propagation slave --fork --kill-child \
    "$POCKET_LIB/machine-init" "$machine" "$POCKET_DIR/hosts" "$(cat "$POCKET_DIR/shared")" "${daemon[@]}"
}

# power_off MACHINE...: as when the cord is pulled. The cable goes first, so that no peer hears a farewell from the dying kernel:
# connections to the machine fall silent and are not reset.
power_off() {
  local machine init
  for machine in "$@"; do
    if [[ -e /run/netns/$(netns switch) ]]; then on_switch link set "$machine" down 2>/dev/null || true; fi
  done
  for machine in "$@"; do
    if init=$(init_pid "$machine"); then
      kill -KILL "$init" 2>/dev/null || true # its launcher reaps it and ends
    else
      kill_daemons "$machine" # so early or late that there is only the launcher
    fi
  done
  for machine in "$@"; do
    wait_until 10 "the processes of $machine to vanish" not is_on "$machine"
    unplug "$machine"
    rm -f "$POCKET_DIR/run/$machine" "$POCKET_DIR/cut.$machine"
  done
}

# enter MACHINE COMMAND...: becomes COMMAND, run there, in the caller's folder where the machine sees it.
enter() {
  local machine=$1 init
  shift
  init=$(init_pid "$machine") || die "$machine is off"
  # shellcheck disable=SC2016  # expanded by the inner shell
  exec nsenter --target "$init" --net --uts --pid --ipc --mount \
    bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}
