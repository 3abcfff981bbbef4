# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What a pocket cluster needs of the host.

# Prints in one line what is missing; prints nothing if nothing is.
missing() {
  local program package wanted=()
  ((EUID == 0)) || { echo "must run as root"; return; }
  while read -r program package; do
    command -v "$program" >/dev/null || wanted+=("$program (Debian package $package)")
  done <<END
slurmctld slurmctld
slurmd slurmd
srun slurm-client
munged munge
ip iproute2
tc iproute2
ss iproute2
unshare util-linux
nsenter util-linux
setsid util-linux
flock util-linux
mount mount
hostname hostname
pgrep procps
END
  if [[ -z $without_pmix ]]; then
    [[ -n $(find_plugin mpi_pmix.so) ]] || wanted+=("Slurm's plugin mpi/pmix (Debian package slurm-wlm-basic-plugins)")
    [[ $(ldconfig -p) == *libpmix.so.2* ]] || wanted+=("libpmix.so.2 (Debian package libpmix2)")
  fi
  if ((${#wanted[@]})); then
    printf 'missing: %s' "${wanted[0]}"
    ((${#wanted[@]} == 1)) || printf ', %s' "${wanted[@]:1}"
    echo
    return
  fi
  unshare --net --uts --pid --ipc --mount --fork true 2>/dev/null || { echo "not permitted to make namespaces (needs CAP_SYS_ADMIN)"; return; }
  unshare --net bash -c 'ip link add test0 type bridge && ip link add test1 type veth peer name test2' 2>/dev/null ||
    echo "not permitted to make bridge and veth devices (needs CAP_NET_ADMIN, and a kernel with both)"
}

# Beside Slurm's own library, or where the usual prefixes keep plugins.
find_plugin() {
  local program
  program=$(command -v slurmctld) || return 0
  compgen -G "/usr/lib/*/slurm-wlm/$1" || compgen -G "${program%/*bin/*}/lib*/slurm/$1" || true
}
