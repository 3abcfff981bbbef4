# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Slurm on the machines of a pocket cluster: its configuration, its munge, the state of its nodes.

# write_slurm_conf CPUS MEMORY SLURMD_TIMEOUT KILL_WAIT
# Short waits everywhere, so that a test sees in seconds what takes a site minutes; the comments name Slurm's defaults.
write_slurm_conf() {
  local cpus=$1 memory=$2 slurmd_timeout=$3 kill_wait=$4 machine
  cat >"$SLURM_CONF" <<CONF
ClusterName=$POCKET_NAME
SlurmctldHost=ctl($(address_of ctl))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# cred_expire: a job that lost a node is held back for this long + 1 s before it starts again (default 120).
AuthInfo=socket=$POCKET_DIR/munge/socket,cred_expire=${POCKET_CRED_EXPIRE:-5}
MailProg=/bin/true

SlurmctldPidFile=$POCKET_DIR/run/slurmctld.pid
SlurmdPidFile=$POCKET_DIR/run/slurmd.%n.pid
StateSaveLocation=$POCKET_DIR/state
SlurmdSpoolDir=$POCKET_DIR/spool/%n
SlurmctldLogFile=$POCKET_DIR/log/slurmctld.log
SlurmdLogFile=$POCKET_DIR/log/slurmd.%n.log

# A silent node is DOWN after SlurmdTimeout (default 300); one that comes back is used again at once.
SlurmdTimeout=$slurmd_timeout
MessageTimeout=5
ReturnToService=2
# From SIGTERM to SIGKILL (default 30).
KillWait=$kill_wait

MpiDefault=pmix
# No control groups, see cgroup.conf beside this file.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none

SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1

# config_overrides: the nodes may claim more processors and memory than this machine has.
SlurmdParameters=config_overrides
$(for machine in $(machines); do
    [[ $machine == ctl ]] || echo "NodeName=$machine NodeAddr=$(address_of "$machine") CPUs=$cpus RealMemory=$memory"
  done)
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
CONF
  # The nodes' /sys has no control groups, so that nothing of the host's is touched. Slurm wants a plugin named nevertheless: old
  # ones know no "disabled", and new ones have no v1.
  echo "CgroupPlugin=$([[ -n $(find_plugin cgroup_v1.so) ]] && echo cgroup/v1 || echo disabled)" >"$POCKET_DIR/cgroup.conf"
}

# All plugins but those for PMIx, as links.
hide_pmix() {
  local folder plugin
  folder=$(dirname "$(find_plugin mpi_pmi2.so)")
  mkdir "$POCKET_DIR/plugins"
  for plugin in "$folder"/*.so; do
    [[ $plugin == */mpi_pmix* ]] || ln -s "$plugin" "$POCKET_DIR/plugins/"
  done
  sed -i 's/^MpiDefault=.*/MpiDefault=none/' "$SLURM_CONF"
  echo "PluginDir=$POCKET_DIR/plugins" >>"$SLURM_CONF"
}

# The nodes' own /etc/hosts: every machine by name, then what the host's file says.
write_hosts() {
  local machine
  {
    echo "127.0.0.1 localhost"
    for machine in $(machines); do echo "$(address_of "$machine") $machine"; done
    echo "$(address_of host) $(uname -n)"
    cat /etc/hosts 2>/dev/null || true
  } >"$POCKET_DIR/hosts"
}

start_munged() {
  local folder=$POCKET_DIR/munge
  mkdir -m 755 "$folder" # clients of any user reach the socket
  (umask 077 && head -c 1024 /dev/urandom >"$POCKET_DIR/secret/munge.key")
  spawn munged munged --foreground --key-file="$POCKET_DIR/secret/munge.key" --seed-file="$POCKET_DIR/secret/munge.seed" \
    --socket="$folder/socket" --pid-file="$folder/munged.pid"
  wait_until 5 "munged's socket" test -S "$folder/socket"
}

# slurm_states: lines "n1 idle", as Slurm sees it: a * marks a node that does not answer. Empty without a controller.
slurm_states() { timeout 5 sinfo -h -N -p batch -o '%N %T' 2>/dev/null || true; }

all_idle() { (($(slurm_states | grep -c ' idle$') == $1)); }

# field NAME LINE: the value of NAME=value in a line that scontrol wrote.
field() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" <<<"$2"; }

# When the slurmd that is registered for NODE was started, in s; 0 where there is none.
slurmd_start_time() {
  local line
  line=$(timeout 5 scontrol show node "$1" -o 2>/dev/null) || line=''
  date -d "$(field SlurmdStartTime "$line")" +%s 2>/dev/null || echo 0
}

second_is_over() { (($(date +%s) > $1)); }

# is_usable NODE TIME: a slurmd that was started after TIME has registered, and Slurm would give NODE work.
is_usable() {
  local line
  (($(slurmd_start_time "$1") > $2)) || return 1
  line=$(timeout 5 scontrol show node "$1" -o 2>/dev/null) || return 1
  case $(field State "$line") in
    *DRAIN*) scontrol update nodename="$1" state=resume 2>/dev/null; return 1 ;;
    *DOWN* | *NOT_RESPONDING* | *UNKNOWN* | *'*'*) return 1 ;;
  esac
}
