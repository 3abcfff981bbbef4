#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Does sbatch/train.sbatch find distdl, hand its arguments and signals on, end with its code, start it again when it is killed, and
# outside of a job submit only what can start? A stand-in for distdl tells.
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
if "--check" in sys.argv:
    print(" ".join(sys.argv[1:]))
    sys.exit(78 if "bad.toml" in sys.argv else 0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
print(f"{sys.argv[0]}: {' '.join(sys.argv[1:])}", flush=True)
number = signal.sigwait([signal.SIGUSR1, signal.SIGUSR2])
print(f"{sys.argv[0]} heard {number.name[3:]}")
if signal.sigtimedwait([signal.SIGUSR1], 0.6):  # the script tells it every 2 s
    sys.exit("told again at once")
sys.exit(3 if number == signal.SIGUSR1 else 137)
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
check "a signal to the script reaches distdl" within 5 log_has "$job" "$work/bin/distdl heard USR1"
check "the job ends with distdl's exit code" within 10 prints 3:0 job_field "$job" ExitCode

started() { prints "$2" grep -cxF "$work/bin/distdl: run job.toml --set train.name=two words" "distdl-$1.log"; }
supervisor() { pgrep -f "^[^ ]*python3 $work/bin/distdl run job.toml"; }
kill_it() { kill -KILL "$(supervisor)"; }
job=$(POSIXLY_CORRECT=1 PATH=$work/bin:$PATH submit)
check "another job runs" works_with "$job" "$work/bin/distdl"
check "distdl is killed" kill_it
check "distdl that is killed is started again" within 10 started "$job" 2
check "which the log tells" grep -q 'ended by signal 9; starting it again' "distdl-$job.log"
scancel --batch --signal=USR2 "$job"
check "a signal reaches the second one too" within 5 log_has "$job" "$work/bin/distdl heard USR2"
check "what distdl itself says of a killed rank ends the job" within 10 prints 137:0 job_field "$job" ExitCode
check "and does not start it again" started "$job" 2

job=$(DISTDL=$work/other submit)
check "DISTDL names another program" works_with "$job" "$work/other"
scancel --batch --signal=TERM "$job"
check "distdl that does not listen yet when it is told to stop is started again" within 10 prints 2 grep -c "other: run" "distdl-$job.log"
check "and told to stop again" within 10 prints 3:0 job_field "$job" ExitCode

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

# Outside of a job. No node is free meanwhile.
export DISTDL=$work/other SBATCH_PARTITION=urgent
submitted() { bash "$repository/sbatch/train.sbatch" "$@" 2>check.log; }
jobs() { squeue --noheader --states=all --format=%j; }
scontrol update nodename=n1,n2 state=drain reason=test
touch job.toml bad.toml
before=$(jobs)
ends_with() { [[ $1 == "$("${@:2}" >/dev/null 2>&1; echo $?)" ]] || return 1; }
check "a job that is found wrong is not submitted" ends_with 78 submitted --job-name=wrong bad.toml
check "which distdl says" grep -qxF "run --check bad.toml" check.log
check "nor is one without a job file" ends_with 64 submitted --job-name=wrong
check "nor one with an option in two words" ends_with 64 submitted --nodes 1 job.toml
check "which is explained" grep -q 'there is no file "1"; usage: .*--OPTION=VALUE' check.log
check "no job was made" prints "$before" jobs
job=$(submitted --parsable --job-name=right -N1 job.toml --set 'train.name=two words')
check "one that is right is checked" grep -qxF "run --check job.toml --set train.name=two words" check.log
check "and submitted with sbatch's options" prints right:1-1 echo "$(job_field "$job" JobName):$(job_field "$job" NumNodes)"
scontrol update nodename=n1,n2 state=resume
check "and runs with the other words" works_with "$job" "$work/other"
scancel "$job"

conclude
