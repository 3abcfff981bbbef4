#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Does sbatch/train.sbatch find distdl, hand its arguments on, and become it? A stand-in for distdl tells.
# Needs root and Slurm; exits 77 where it cannot run.
set -uo pipefail

repository=$(readlink -f "$(dirname "$0")/../..")
pocket=$repository/sbatch/pocket-cluster
unset POCKET_DIR DISTDL
export POCKET_NAME=train$$
# shellcheck source=tests/cluster/checks.bash
source "$(dirname "$0")/checks.bash"

"$pocket" check || exit 77
work=$(mktemp -d /var/tmp/train-sbatch-test.XXXXXX)
trap '"$pocket" down; rm -rf "$work"' EXIT
cd "$work" || exit 1

mkdir bin
cat >bin/distdl <<'END'
#!/usr/bin/env python3
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print(f"{sys.argv[0]}: {' '.join(sys.argv[1:])}", flush=True)
signal.sigwait([signal.SIGUSR1])
print(f"{sys.argv[0]} heard USR1")
sys.exit(3)
END
chmod +x bin/distdl
cp bin/distdl other

"$pocket" up 2 2>/dev/null || exit 1
eval "$("$pocket" env)"
submit() { sbatch --parsable "$repository/sbatch/train.sbatch" job.toml --set 'train.name=two words'; }
log_has() { grep -qxF "$2" "distdl-$1.log"; }
works_with() { # JOB PROGRAM
  within 10 log_has "$1" "$2: run job.toml --set train.name=two words" || { cat "distdl-$1.log"; return 1; }
}

job=$(PATH=$work/bin:$PATH submit)
check "distdl of PATH runs with the script's arguments" works_with "$job" "$work/bin/distdl"
check "the job has two nodes" prints 2 job_field "$job" NumNodes
scancel --batch --signal=USR1 "$job"
check "a signal to the script reaches distdl itself" within 5 log_has "$job" "$work/bin/distdl heard USR1"
check "the job ends with distdl's exit code" within 10 prints 3:0 job_field "$job" ExitCode

job=$(DISTDL=$work/other submit)
check "DISTDL names another program" works_with "$job" "$work/other"
scancel "$job"

module() { PATH=$PATH:$work/bin; }
export -f module
export work
job=$(submit)
check "where it is not in PATH, the module distdl is loaded" works_with "$job" "$work/bin/distdl"
scancel "$job"

unset -f module
job=$(submit)
check "without distdl the job fails" within 10 job_is "$job" FAILED
check "and says what is missing" grep -q 'distdl: not found' "distdl-$job.log"

conclude
