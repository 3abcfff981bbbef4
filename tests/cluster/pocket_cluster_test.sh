#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Does sbatch/pocket-cluster do what its --help says? Needs root and Slurm; exits 77 where it cannot run.
# Prints "ok - ..." or "not ok - ..." for each check; fails when one failed.
set -uo pipefail

repository=$(readlink -f "$(dirname "$0")/../..")
pocket=$repository/sbatch/pocket-cluster
unset POCKET_DIR
export POCKET_NAME=test$$
state=/var/tmp/pocket-cluster/$POCKET_NAME
other=${POCKET_NAME}_b # the second cluster
# shellcheck source=tests/cluster/checks.bash
source "$(dirname "$0")/checks.bash"

# --- what a cluster could leave behind; only traces of this test's own clusters, for others may run beside it ------------------------

remember_traces() { cp "$state/subnet" "$work/subnet"; }
link_is_left() { # another cluster may have the subnet by now
  ip -o link | grep -F " pk-$(cat "$work/subnet")@" && ! grep -qxF "$(cat "$work/subnet")" /var/tmp/pocket-cluster/*/subnet 2>/dev/null
}
# All processes of a machine see its /etc/hosts. Numbers of namespaces tell nothing, for the kernel gives them to the next cluster.
is_of_cluster() { # PID
  grep -qa "/$POCKET_NAME/hosts" "/proc/$1/mountinfo" "/proc/$1/cmdline" || grep -qaz "^SLURM_CONF=.*/$POCKET_NAME/" "/proc/$1/environ"
} 2>/dev/null
nothing_is_left() {
  local left=0 pid
  [[ ! -e $state ]] || { echo "state folder"; left=1; }
  ! ip netns list | grep "^$POCKET_NAME-" || left=1
  ! grep -a "$POCKET_NAME" /proc/self/mountinfo || left=1
  ! link_is_left || left=1
  ! find /sys/fs/cgroup -name "*$POCKET_NAME*" 2>/dev/null | grep . || left=1
  for pid in /proc/[0-9]*; do
    pid=${pid#/proc/}
    [[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
    if is_of_cluster "$pid"; then
      [[ $(ps -o ppid= -p "$pid" | tr -d ' ') == "$BASHPID" ]] || { ps -o pid,ppid,stat,args -p "$pid"; left=1; }
    fi
  done
  return $left
}

cleanup() {
  "$pocket" down 2>/dev/null
  "$pocket" --name "$other" down 2>/dev/null
  rm -rf "$work"
}
use_cluster() { eval "$("$pocket" env)"; }

"$pocket" check || exit 77
work=$(mktemp -d /var/tmp/pocket-cluster-test.XXXXXX)
trap cleanup EXIT
cd "$repository" || exit 1

# --- one cluster --------------------------------------------------------------------------------------------------------------------

check "a cluster under /tmp is refused, as nodes would not see it" fails env POCKET_DIR=/tmp/pocket "$pocket" up 2
check "env of a cluster that is not up fails" fails "$pocket" env
check "up 2 ends when both nodes are idle" "$pocket" up 2
use_cluster
remember_traces
check "up of a cluster that is up is refused" fails "$pocket" up 2
check "PMIx starts a process on each node" prints $'n1\nn2' bash -c 'srun --mpi=pmix -N2 hostname | sort'
check "nodes see the repository" srun -N2 test -e "$pocket"

own_tmp() {
  "$pocket" exec n1 touch /tmp/mine /dev/shm/mine &&
    fails "$pocket" exec n2 test -e /tmp/mine && fails "$pocket" exec n2 test -e /dev/shm/mine &&
    fails test -e /tmp/mine && fails test -e /dev/shm/mine
}
check "each node has its own /tmp and /dev/shm" own_tmp
check "nodes have eth0 and lo, and no other device" prints 'eth0 lo' bash -c "'$pocket' exec n1 ls /sys/class/net | xargs"
check "nodes see only their own processes" prints 0 "$pocket" exec n2 pgrep -c slurmctld
reaches() { "$pocket" exec "$1" timeout 2 bash -c "exec 3<>/dev/tcp/$2/6818"; } # slurmd listens there
check "n1 reaches n2 by name" reaches n1 n2
check "exec passes the exit code on" prints 7 bash -c "'$pocket' exec n1 bash -c 'exit 7'; echo \$?"
check "status --json is JSON with both nodes idle" prints 2 bash -c "'$pocket' status --json | grep -c '\"slurm\": \"idle\", \"power\": \"on\", \"link\": \"up\"'"

no_zombies_in() { prints 0 "$pocket" exec "$1" bash -c 'ps -eo stat= | grep -c ^Z'; }
leaves_orphans() { # three generations; the last outlives the others, so that pid 1 inherits it
  "$pocket" exec n1 bash -c 'for i in 1 2 3; do (bash -c "sleep 0.3 &" &); done' && sleep 0.6 && no_zombies_in n1
}
check "a node reaps its orphans" leaves_orphans

# --- the network --------------------------------------------------------------------------------------------------------------------

"$pocket" cut n2
check "cut: n1 does not reach n2" fails reaches n1 n2
check "cut: status tells" prints down bash -c "'$pocket' status | awk '\$1 == \"n2\" { print \$5 }'"
"$pocket" mend n2
check "mend: n1 reaches n2 again" within 5 reaches n1 n2
"$pocket" cut n2 out
check "cut out: n2's packets vanish" fails reaches n2 n1
check "cut out: the link looks whole to n2, and status tells" prints no-out bash -c "'$pocket' status | awk '\$1 == \"n2\" { print \$5 }'"
"$pocket" mend n2
check "mend undoes it" within 5 reaches n2 n1

# How long 20 Mbit take from the first byte to the last, over srun's standard input and output. A busy machine may need several tries.
# shellcheck disable=SC2016  # expanded where it runs
stopwatch='head -c 1 >/dev/null; start=$EPOCHREALTIME; cat >/dev/null; awk -v a="$start" -v b="$EPOCHREALTIME" "BEGIN { print b - a }"'
send() { srun -w n1 head -c 2500000 /dev/zero | bash -c "$stopwatch"; }
receive() { head -c 2500000 /dev/zero | srun -w n1 bash -c "$stopwatch"; }
takes() { # LOW HIGH COMMAND...: it prints a time, in seconds, between the two
  local low=$1 high=$2
  shift 2
  awk -v low="$low" -v high="$high" -v took="$("$@")" 'BEGIN { print "took " took " s"; exit !(low <= took && took <= high) }'
}
check "a free link carries 20 Mbit in well under a second" within 10 takes 0.001 0.6 send
"$pocket" rate n1 20mbit
check "at 20mbit, n1 needs a second to send them" within 10 takes 0.8 2 send
check "at 20mbit, n1 needs a second to receive them" within 10 takes 0.8 2 receive
"$pocket" rate n1 none
check "rate none frees the link" within 10 takes 0.001 0.6 receive

# --- two clusters -------------------------------------------------------------------------------------------------------------------

checkout=$(mktemp -d /tmp/pocket-cluster-test.XXXXXX)
up_in() { (cd "$1" && "$pocket" --name "$other" up 1); }
check "a second cluster comes up beside the first" up_in "$checkout"
check "a folder under /tmp that it was started in stays visible" "$pocket" --name "$other" exec n1 test -d "$checkout"
check "jobs run on both at once" prints $'n1\nn1' bash -c "
  srun -N1 -w n1 hostname & SLURM_CONF=${state}_b/slurm.conf srun hostname; wait"
check "each has its own key" fails cmp -s "$state/secret/munge.key" "${state}_b/secret/munge.key"
check "each has its own subnet" fails cmp -s "$state/subnet" "${state}_b/subnet"
check "the second goes down" "$pocket" --name "$other" down
rmdir "$checkout"
check "the first does not notice" srun -N2 true

# --- preemption ---------------------------------------------------------------------------------------------------------------------

# On preemption only the steps are told. A script that then ended by itself would be taken for done, hence the requeue of its own.
# shellcheck disable=SC2016  # expanded in the job
batch=$(sbatch --parsable -N2 --exclusive -o "$work/batch.log" --wrap 'srun sleep 60; scontrol requeue $SLURM_JOB_ID; exit 75')
check "a batch job runs" within 10 "$pocket" exec n2 pgrep sleep
urgent=$(sbatch --parsable -N2 --exclusive -p urgent -o "$work/urgent.log" --wrap 'hostname')
check "an urgent job gets its nodes" within 20 job_is "$urgent" COMPLETED
check "the batch job was requeued" prints 1 job_field "$batch" Restarts
check "the batch job runs again" within 30 job_is "$batch" RUNNING
scancel "$batch"
within 10 job_is "$batch" CANCELLED
check "no zombies remain of the jobs" no_zombies_in n1

# --- the loss of a node -------------------------------------------------------------------------------------------------------------

lost=$(sbatch --parsable --no-kill -N2 --exclusive -o "$work/lost.log" --wrap 'srun --no-kill sleep 60')
check "a job runs on both nodes" within 10 "$pocket" exec n2 pgrep sleep
init_of() { pgrep -P "$(cut -d' ' -f1 "$state/run/$1")"; } # the host's pid of a machine's pid 1
"$pocket" exec n2 touch /tmp/old
inside=$(pgrep --ns "$(init_of n2)" --nslist pid .)
check "kill ends at once" timeout 5 "$pocket" kill n2
all_gone() { local pid; for pid in $inside; do ! kill -0 "$pid" || return 1; done; }
check "kill: every process of the node has vanished" all_gone
check "kill: exec says that the node is off" bash -c "'$pocket' exec n2 true 2>&1 | grep 'n2 is off'"
check "a killed node is cut off from the others" fails reaches n1 n2
scancel "$lost"
check "restart: Slurm uses the node again" "$pocket" restart n2
check "restart: a job runs there" prints n2 srun -w n2 hostname
check "restart: its /tmp is fresh" fails "$pocket" exec n2 test -e /tmp/old

# --- the end ------------------------------------------------------------------------------------------------------------------------

sbatch -N2 --exclusive -o "$work/last.log" --wrap 'setsid sleep 300 & srun sleep 300' >/dev/null
within 5 "$pocket" exec n1 pgrep sleep >/dev/null
remember_traces
check "down succeeds while a job runs" "$pocket" down
check "down leaves nothing" nothing_is_left
check "down of what is down succeeds" "$pocket" down

"$pocket" up 2 2>/dev/null
use_cluster
remember_traces
"$pocket" kill n1
kill -KILL "$(pgrep --ns "$(init_of ctl)" --nslist pid slurmctld)"
check "down succeeds with slurmctld killed and a node off" "$pocket" down
check "nothing is left of that either" nothing_is_left

# Interrupted in the middle: at several moments, as each leaves something else half done.
for delay in 0.05 0.15 0.25; do
  env --default-signal=INT "$pocket" up 2 2>/dev/null &
  up=$!
  sleep "$delay"
  kill -INT "$up"
  check "up interrupted after $delay s fails" fails wait "$up"
  check "and leaves nothing" within 5 nothing_is_left  # the kernel removes links of a namespace a moment after it
done

# Killed in the middle: nobody could clean up, down must.
"$pocket" up 2 2>/dev/null &
up=$!
sleep 0.2
remember_traces 2>/dev/null
kill -KILL "$up"
wait "$up" 2>/dev/null
check "down succeeds after up was killed" "$pocket" down
check "nothing is left of a killed up" nothing_is_left

# As after a reboot of the host: all processes are gone, the folder is not.
"$pocket" up 1 2>/dev/null
kill -KILL "$(init_of ctl)" "$(init_of n1)" "$(cut -d' ' -f1 "$state/run/munged")"
check "up replaces a cluster whose processes died" within 5 "$pocket" up 1
"$pocket" down
check "nothing is left of either" nothing_is_left

conclude
