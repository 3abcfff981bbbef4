# SPDX-License-Identifier: Apache-2.0
"""Variables of the manual pages of Slurm 22.05, each with a value that is legal but not meant for the job: a run must train on the same
ranks, with the same bytes, and commands must give the right answers, whatever shell they are called in.

    python3 tests/cluster/environment.py build/bin/distdl [NAME ...]

tries one variable after another (all, or those named) on a cluster of its own, and prints a line for each. cluster_jobs tries all at once.
"""
import json
import os
import sys
import time

import pocket

# What a site means, and distdl takes over on purpose: SLURM_CONF, SLURM_CLUSTERS, SLURM_JWT, SBATCH_ACCOUNT, SBATCH_PARTITION, SBATCH_QOS,
# SBATCH_RESERVATION, SBATCH_WCKEY. tests/slurm/allocation_test.cpp has them.
NUMBERS = """
SBATCH_CORE_SPEC SBATCH_CPUS_PER_GPU SBATCH_DEBUG SBATCH_DELAY_BOOT SBATCH_GPUS SBATCH_GPUS_PER_NODE SBATCH_GPUS_PER_TASK SBATCH_IGNORE_PBS
SBATCH_MEM_PER_CPU SBATCH_MEM_PER_GPU SBATCH_NO_KILL SBATCH_NO_REQUEUE SBATCH_OVERCOMMIT SBATCH_REQUEUE SBATCH_REQ_SWITCH SBATCH_SPREAD_JOB
SBATCH_THREADS_PER_CORE SBATCH_THREAD_SPEC SBATCH_TIMELIMIT SBATCH_USE_MIN_NODES SBATCH_WAIT SBATCH_WAIT4SWITCH SBATCH_WAIT_ALL_NODES
SCANCEL_BATCH SCANCEL_CTLD SCANCEL_FULL SCANCEL_HURRY SCANCEL_VERBOSE SCONTROL_ALL SCONTROL_FEDERATION SCONTROL_FUTURE SCONTROL_LOCAL
SCONTROL_SIBLING SINFO_ALL SINFO_FEDERATION SINFO_LOCAL SLURMD_DEBUG SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_ID
SLURM_ARRAY_TASK_MAX SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_STEP SLURM_BITSTR_LEN SLURM_CORE_SPEC SLURM_CPUS_ON_NODE SLURM_CPUS_PER_GPU
SLURM_CPUS_PER_TASK SLURM_DEBUG SLURM_DELAY_BOOT SLURM_DISABLE_STATUS SLURM_DIST_PLANESIZE SLURM_EXACT SLURM_EXCLUSIVE SLURM_EXIT_ERROR
SLURM_EXIT_IMMEDIATE SLURM_GPUS SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET SLURM_GPUS_PER_TASK SLURM_GTIDS SLURM_HET_SIZE
SLURM_IMMEDIATE SLURM_JOB_CPUS_PER_NODE SLURM_JOB_GPUS SLURM_JOB_NODES SLURM_JOB_NUM_NODES SLURM_KILL_BAD_EXIT SLURM_LABELIO SLURM_LOCALID
SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE SLURM_NNODES SLURM_NODEID SLURM_NO_KILL SLURM_NPROCS SLURM_NTASKS
SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_NODE SLURM_NTASKS_PER_SOCKET SLURM_OVERCOMMIT SLURM_OVERLAP
SLURM_PMI_KVS_NO_DUP_KEYS SLURM_PRIO_PROCESS SLURM_PROCID SLURM_REQ_SWITCH SLURM_RESTART_COUNT SLURM_RESV_PORTS SLURM_SHARDS_ON_NODE
SLURM_SPREAD_JOB SLURM_SRUN_COMM_PORT SLURM_SRUN_REDUCE_TASK_EXIT_MSG SLURM_STEPID SLURM_STEP_GPUS SLURM_STEP_ID
SLURM_STEP_KILLED_MSG_NODE_ID SLURM_STEP_LAUNCHER_PORT SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE
SLURM_TASKS_PER_NODE SLURM_TASK_PID SLURM_THREADS SLURM_THREADS_PER_CORE SLURM_THREAD_SPEC SLURM_TIMELIMIT SLURM_TOPO_LEN
SLURM_UNBUFFEREDIO SLURM_USE_MIN_NODES SLURM_VERSION SLURM_WAIT SLURM_WAIT4SWITCH SQUEUE_ALL SQUEUE_ARRAY SQUEUE_ARRAY_UNIQUE SQUEUE_FEDERATION SQUEUE_LOCAL
SQUEUE_PRIORITY SQUEUE_SIBLING SACCT_FEDERATION SACCT_LOCAL SRUN_CPUS_PER_TASK SRUN_DEBUG
""".split()
NAMES = """
SBATCH_ACCTG_FREQ=task=7 SBATCH_ARRAY_INX=1-3 SBATCH_BATCH=none SBATCH_CLUSTERS=other SBATCH_CONSTRAINT=none SBATCH_CONTAINER=/none
SBATCH_DISTRIBUTION=block SBATCH_ERROR=/dev/full SBATCH_EXCLUSIVE=user SBATCH_EXPORT=NONE SBATCH_GET_USER_ENV=10L SBATCH_GPU_BIND=closest
SBATCH_GPU_FREQ=low SBATCH_GRES=gpu:1 SBATCH_GRES_FLAGS=enforce-binding SBATCH_HINT=nomultithread SBATCH_INPUT=/none SBATCH_JOB_NAME=other
SBATCH_MEM_BIND=local SBATCH_MEM_BIND_LIST=0 SBATCH_MEM_BIND_PREFER=prefer SBATCH_MEM_BIND_TYPE=local
SBATCH_MEM_BIND_VERBOSE=verbose SBATCH_MEM_PER_NODE=1G SBATCH_NETWORK=none SBATCH_OPEN_MODE=truncate SBATCH_OUTPUT=/dev/full SBATCH_POWER=level
SBATCH_PROFILE=All SBATCH_SIGNAL=KILL@65535 SCANCEL_ACCOUNT=other SCANCEL_INTERACTIVE= SCANCEL_NAME=other SCANCEL_PARTITION=urgent
SCANCEL_QOS=other SCANCEL_STATE=PENDING SCANCEL_USER=nobody SCANCEL_WCKEY=other SINFO_FORMAT=%P SINFO_PARTITION=urgent SINFO_SORT=-N
SLURMD_NODENAME=n9 SLURM_ACCOUNT=other SLURM_ACCTG_FREQ=task=7 SLURM_BCAST=/none SLURM_BCAST_EXCLUDE=/none SLURM_BURST_BUFFER=none
SLURM_CLUSTER_NAME=other SLURM_COMPRESS=lz4 SLURM_CONSTRAINT=none SLURM_CONTAINER=/none SLURM_CONF_OUT=/none SLURM_CPU_BIND=map_cpu:0
SLURM_CPU_BIND_LIST=0x1 SLURM_CPU_BIND_TYPE=mask_cpu SLURM_CPU_BIND_VERBOSE=verbose SLURM_CPU_FREQ_REQ=low SLURM_DEBUG_FLAGS=Steps
SLURM_DEPENDENCY=singleton SLURM_DISTRIBUTION=plane=3 SLURM_EPILOG=/bin/false SLURM_EXPORT_ENV=NONE SLURM_GPU_BIND=closest SLURM_GPU_FREQ=low
SLURM_GRES=gpu:1 SLURM_GRES_FLAGS=enforce-binding SLURM_HINT=nomultithread SLURM_HOSTFILE=/none SLURM_JOBID=999999 SLURM_JOB_ACCOUNT=other
SLURM_JOB_DEPENDENCY=other SLURM_JOB_ID=999999 SLURM_JOB_NAME=other SLURM_JOB_NODELIST=n9 SLURM_JOB_PARTITION=other SLURM_JOB_QOS=other
SLURM_JOB_RESERVATION=other SLURM_LAUNCH_NODE_IPADDR=192.0.2.1 SLURM_MEM_BIND=local SLURM_MEM_BIND_LIST=0 SLURM_MEM_BIND_PREFER=prefer
SLURM_MEM_BIND_SORT=sort SLURM_MEM_BIND_TYPE=local SLURM_MEM_BIND_VERBOSE=verbose SLURM_MPI_TYPE=none SLURM_NETWORK=none SLURM_NODELIST=n9
SLURM_NODE_ALIASES=other SLURM_OPEN_MODE=truncate SLURM_PARTITION=urgent SLURM_POWER=level SLURM_PROFILE=All SLURM_PROLOG=/bin/false
SLURM_QOS=other SLURM_REMOTE_CWD=/none SLURM_RESERVATION=other SLURM_SEND_LIBS=yes SLURM_SIGNAL=KILL@65535 SLURM_SRUN_COMM_HOST=192.0.2.1
SLURM_STDERRMODE=/dev/full SLURM_STDINMODE=none SLURM_STDOUTMODE=/dev/full SLURM_STEP_GRES=gpu:1 SLURM_STEP_NODELIST=n9 SLURM_SUBMIT_DIR=/none
SLURM_SUBMIT_HOST=other SLURM_TASK_EPILOG=/bin/false SLURM_TASK_PROLOG=/bin/false SLURM_TEST_EXEC=yes SLURM_TIME_FORMAT=relative
SLURM_TOPOLOGY_ADDR=s9.n9 SLURM_TOPOLOGY_ADDR_PATTERN=switch.node SLURM_UMASK=0777 SLURM_WCKEY=other SLURM_WORKING_CLUSTER=other:192.0.2.1:1:9728:109
SLURM_WORKING_DIR=/none SQUEUE_ACCOUNT=other SQUEUE_FORMAT=%P SQUEUE_FORMAT2=account SQUEUE_LICENSES=other SQUEUE_NAMES=other
SQUEUE_PARTITION=urgent SQUEUE_QOS=other SQUEUE_SORT=-i SQUEUE_STATES=COMPLETED SQUEUE_USERS=nobody SACCT_FORMAT=user SRUN_CONTAINER=/none
SRUN_EXPORT_ENV=NONE
""".split()
VARIABLES = {**dict.fromkeys(NUMBERS, "1"), **dict(each.split("=", 1) for each in NAMES)}
# sbatch itself obeys them, so that they do concern a job that sbatch is called for.
OF_SBATCH = {"SLURM_UMASK", "SLURM_WORKING_CLUSTER", "SLURM_HINT", "SLURM_EXIT_ERROR", "SLURM_HOSTFILE"}
STEPS = 200


class Shell:
    """A shell with such variables: what distdl and sbatch say in it."""

    def __init__(self, folder, variables):
        self.folder = folder
        self.variables = variables

    def call(self, *command, code=0):
        done = pocket.subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **self.variables})
        if done.returncode != code:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def distdl(self, *words, code=0):
        return self.call(pocket.DISTDL, *words, code=code)

    def status(self, run):
        return json.loads(self.distdl("status", run.folder, "--json"))

    def settings(self, name, steps=STEPS):
        return ["--set", f"data.train={self.folder}/shapes.h5", "--set", f"run.dir={self.folder}/{name}", "--set", f"train.steps={steps}",
                "--set", "kernels.threads=1", "--set", "checkpoint.every=0"]

    def submit(self, name, *words, steps=STEPS):
        """distdl submit; the run and its job."""
        said = json.loads(self.distdl("submit", f"{pocket.REPOSITORY}/examples/lenet.toml", "--json", *words, *self.settings(name, steps)))
        return pocket.Run(f"{self.folder}/{name}"), pocket.Job(said["job"], f"{self.folder}/{name}")

    def sbatch(self, name, *options):
        """sbatch train.sbatch by hand."""
        number = self.call("sbatch", "--parsable", f"--output={self.folder}/slurm-%j.log", *options, f"{pocket.REPOSITORY}/sbatch/train.sbatch",
                           f"{pocket.REPOSITORY}/examples/lenet.toml", *self.settings(name)).strip()
        return pocket.Run(f"{self.folder}/{name}"), pocket.Job(number, self.folder)


def require(condition, *explained):
    if not condition:
        raise AssertionError(" ".join(str(each) for each in explained))


def check_end(run, job, digest, ranks=2, restarts=0):
    job.wait("the run to finish", run.finished, 90)
    job.wait_state("COMPLETED", 30)
    require(run.digest() == digest, run.digest(), "is not", digest)
    found = {row["ranks"] for row in run.events("launch")}
    require(found == {ranks}, f"trained on {found} ranks instead of {ranks}\n", job.story())
    require(job.field("Restarts") == str(restarts), "restarts", job.field("Restarts"), job.story())


def check_commands(shell, name, digest):
    """submit, status, requeue, cancel in such a shell."""
    run, job = shell.submit(name, "--nodes=2", "--time=5")
    require(job.field("TimeLimit") == "00:05:00" and job.field("Partition") == "batch" and job.field("NumNodes") in ("2", "2-2"), job.story())
    job.wait("the first steps", lambda: run.step() > 3, 60)
    seen = shell.status(run)
    require((seen["state"], seen["job"], seen["restart"]) == ("training", job.number, 0), json.dumps(seen, indent=1))
    shell.distdl("submit", f"{pocket.REPOSITORY}/examples/lenet.toml", *shell.settings(name), code=73)  # the run is live
    shell.distdl("requeue", run.folder)
    check_end(run, job, digest, restarts=1)
    require(shell.status(run)["state"] == "finished", "status of a run that has finished")
    other, job = shell.submit(f"{name}-cancelled", "--nodes=2", "--time=5", steps=10**6)
    shell.distdl("cancel", other.folder)
    job.wait_state("CANCELLED", 30)


def check_batch_side(shell, name, digest):
    """sbatch hands on the variables: the batch script has those that Slurm does not replace."""
    check_end(*shell.sbatch(name, "--nodes=2", "--time=5"), digest)


def prepare(folder):
    """The digest of an undisturbed run."""
    if not os.path.exists(f"{folder}/shapes.h5"):
        pocket.call(pocket.DISTDL, "data", "make", "shapes", f"{folder}/shapes.h5", "--samples", "4000")
    run, job = Shell(folder, {}).submit("undisturbed", "--nodes=2", "--time=5")
    job.wait("the undisturbed run to finish", run.finished, 90)
    job.wait_state("COMPLETED", 30)
    return run.digest()


def check_all_at_once(folder, digest):
    check_commands(Shell(folder, VARIABLES), "hostile", digest)
    # What would not only be handed on, but obeyed by sbatch itself, is left out.
    check_batch_side(Shell(folder, {name: value for name, value in VARIABLES.items() if name.startswith("SLURM_") and name not in OF_SBATCH}),
                     "handed-on", digest)


def one_by_one():
    folder = pocket.work_folder()
    pocket.Cluster(2, folder, "variables")
    os.environ["DISTDL"] = pocket.DISTDL
    digest = prepare(folder)
    names = sys.argv[2:] or sorted(VARIABLES)
    failed = []
    for name in names:
        began, shell = time.monotonic(), Shell(folder, {name: VARIABLES[name]})
        try:
            check_commands(shell, name.lower(), digest)
            if name.startswith("SLURM_") and name not in OF_SBATCH:
                check_batch_side(shell, f"{name.lower()}-sbatch", digest)
            print(f"ok   {name}={VARIABLES[name]} {time.monotonic() - began:.0f} s", flush=True)
        except Exception as error:
            failed.append(name)
            print(f"FAIL {name}={VARIABLES[name]}: {error}", flush=True)
    print(f"{len(names) - len(failed)} of {len(names)} variables: same ranks, same bytes, right answers; failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(one_by_one())
