# SPDX-License-Identifier: Apache-2.0
"""submit, status, log, cancel, requeue and ls, with stand-ins for Slurm's commands; tests/cluster has a real one."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from program import DISTDL, ENDLESS, PATIENCE, ProgramTest, wait_until

COMMANDS = {
    # Notes its words and the script, and hands out the next number as the job's id.
    "sbatch": 'for word; do printf "%s\\n" "$word" >> sbatch.words; done; n=$(($(cat number 2>/dev/null || echo 100) + 1))\n'
              '[ "$n" -le "$(cat most 2>/dev/null || echo 999)" ] || { echo "sbatch: error: too many jobs" >&2; exit 1; }\n'
              'echo $n > number; cat > script.$n; echo "$n"',
    "squeue": 'echo x >> squeue.asked; cat jobs 2>/dev/null; true',
    "scancel": 'echo "$*" >> scancel.words',
    # Knows the jobs that squeue knows, and their scripts.
    "scontrol": 'echo "$*" >> scontrol.words; row=$(grep "^$3|" jobs 2>/dev/null)\n'
                'case "$1 $2 ${row:+known}" in "write batch_script known") exec cat script.$3;;\n'
                '"show job known") echo "JobId=$3 UserId=$(id -un)($(id -u)) JobState=$(echo "$row" | cut -d"|" -f2)"; exit;; esac\n'
                'echo "Invalid job id specified" >&2; exit 1',
    "sinfo": 'case $* in *--partition=small*) echo 200 small;; *) printf "200 small\\n4096 batch*\\n16 batch*\\n";; esac',
    "srun": 'printf "MPI plugin types are...\\n\\tnone\\n\\tpmix\\n"',
}


class JobsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()
        (self.folder / "bin").mkdir()
        for name, text in COMMANDS.items():
            file = self.folder / "bin" / name
            file.write_text(f"#!/bin/sh\ncd {self.folder}\n{text}\n")
            file.chmod(0o755)

    def start(self, *words, variables=None, **how):
        own = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "SLURM_JOB_ID": ""}
        return super().start(*words, variables={**own, **(variables or {})}, **how)

    def submit(self, *words):
        """The scratch folder lies where nodes have a folder of their own: hence --force."""
        return self.succeed("submit", "job.toml", "--force", *words)

    def status(self, run="run"):
        return json.loads(self.succeed("status", run, "--json"))

    def outside_of_tmp(self):
        folder = tempfile.mkdtemp(prefix="distdl-jobs-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def words(self, name):
        file = self.folder / f"{name}.words"
        return file.read_text().splitlines() if file.exists() else []

    def jobs(self, *rows):
        (self.folder / "jobs").write_text("".join(f"{row}|None|N/A|N/A||{row.split('|')[0]}\n" for row in rows))


class Submit(JobsTest):
    def test_writes_a_script_and_submits_it(self):
        out = self.submit("--set", "train.epochs=3", "--nodes=2", "-t", "10", "--comment=it's")
        self.assertRegex(out, r"\Asubmitted job 101: model mlp with \d+ parameters, .*\nrun [0-9a-f]{12} in run; see ")
        script = (self.folder / "run" / "job.sbatch").read_text()
        for line in ("#SBATCH --nodes=2", "#SBATCH --time=10", "#SBATCH --comment='it'\\''s'", "#SBATCH --output=run/slurm-%j.log",
                     "#SBATCH --requeue", "#SBATCH --open-mode=append", f"#SBATCH --chdir={os.path.realpath(self.folder)}",
                     "set -- job.toml --set train.epochs=3", 'distdl=${DISTDL:-distdl}'):
            self.assertIn(line + "\n", script)
        self.assertEqual(script, (self.folder / "script.101").read_text(), "what sbatch got")
        self.jobs("101|PENDING")
        seen = self.status("101")
        self.assertEqual(("queued", "101", True), (seen["state"], seen["job"], seen["live"]))
        self.assertEqual(seen["run"], self.status(seen["run"][:6])["run"])
        self.assertEqual(seen["run"], self.status("job.toml")["run"])

    def test_two_at_once_get_their_own_scripts(self):
        sbatch = self.folder / "bin/sbatch"
        first, rest = sbatch.read_text().split("\n", 1)
        again = f"[ -e {self.folder}/second ] || {{ cd {self.folder}; touch second; {DISTDL} submit job.toml --force --comment=second; }} >&2"
        sbatch.write_text(f"{first}\n{again}\n{rest}")
        (self.folder / "run").mkdir()
        unfinished = self.folder / "run/.job.sbatch.new"
        unfinished.write_text("of another command")
        self.submit("--comment=first")
        self.assertIn("--comment=second\n", (self.folder / "script.101").read_text())
        self.assertIn("--comment=first\n", (self.folder / "script.102").read_text())
        self.assertEqual("of another command", unfinished.read_text())
        self.assertEqual([unfinished], list((self.folder / "run").glob(".*")), "nothing is left behind")

    def test_names_the_job_if_stdout_is_full(self):
        for words, number in ((("submit", "job.toml", "--force"), 101), (("submit", "job.toml", "--force", "--json"), 102), (("requeue", "run"), 103)):
            with self.subTest(words=words):
                with open("/dev/full", "wb") as full:
                    done = self.start(*words, output=full)
                    self.assertEqual(74, done.wait(PATIENCE))
                self.assertIn("No space left", self.says_once([f"Slurm has accepted job {number}, "], done.stderr_file.read_text()))
            self.jobs(f"{number}|FAILED")

    def test_one_job_at_a_time(self):
        where = self.outside_of_tmp()
        words = ["submit", "job.toml", "--set", f"run.dir={where}", "--nodes=1"]
        self.succeed(*words)
        self.jobs("101|RUNNING")
        self.fails(73, [f'the run "{where}" is queued already (job 101)', "--force"], *words)
        self.succeed(*words, "--force")
        self.jobs("101|FAILED", "102|CANCELLED")
        self.succeed(*words)

    def test_asks_slurm_once(self):
        self.submit()
        self.jobs("101|PENDING")
        for words in (["status", "run"], ["ls"], ["status", "101", "--goodput"]):
            (self.folder / "squeue.asked").unlink(missing_ok=True)
            self.succeed(*words)
            self.assertEqual("x\n", (self.folder / "squeue.asked").read_text(), words)
        self.assertIn(self.words("scontrol"), ([], ["--version"]), "which asks no controller")

    def test_a_dry_run_prints_the_script_and_changes_nothing(self):
        out = self.succeed("submit", "job.toml", "--dry-run", "--force", "-N2", "--chain", "4", "--set", "slurm.partition=gpu")
        for line in ("#SBATCH --partition=gpu", "#SBATCH --dependency=singleton", "#SBATCH --no-requeue",
                     "set -- job.toml --set slurm.partition=gpu --set run.requeue=false"):
            self.assertIn(line + "\n", out)
        self.assertRegex(out, r"\n#SBATCH --job-name=distdl-[0-9a-f]{12}\n")
        self.assertRegex(out, r"\nexport DISTDL_CHAIN=[0-9a-f]{12}\n")
        self.assertFalse((self.folder / "run").exists())
        self.assertEqual([], self.words("sbatch"))
        printed = json.loads(self.succeed("submit", "job.toml", "--dry-run", "--force", "--json"))
        self.assertTrue(printed["script"].startswith("#!/bin/bash\n"))

    def test_what_cannot_run_is_not_submitted(self):
        (self.folder / "text").write_text("to be or not to be, " * 100)
        self.succeed("data", "import", "text", "text", "text.h5")
        gpt = ["job.toml", "--nodes=4"]
        for setting in ("data.train=text.h5", "model.name=gpt", "model.context=16", "model.width=16", "model.layers=1", "model.heads=4", "parallel.microbatches=12"):
            gpt += ["--set", setting]
        gpt.append("--set")
        for code, about, *words in (
                (78, ["train.epochs"], "job.toml", "--set", "train.epochs=0"),
                (3, ['cannot open data set "none.h5"'], "job.toml", "--set", "data.train=none.h5"),
                (78, ["64 ranks, but only 6 microbatches"], "job.toml", "--nodes=64"),
                (78, ["64 ranks, but only 6 microbatches"], "job.toml", "--nodes=2-64"),
                (78, ["3 ranks do not divide into pipelines of 2", "the nearest possible number is 1"], "job.toml", "--nodes=3", "--set", "parallel.pipeline_ranks=2"),
                (78, ["at most 2 stages", "start 12 ranks with parallel.pipeline_ranks = 2"], "job.toml", "--nodes=99", "--set", "parallel.pipeline_ranks=99"),
                (78, ["the nearest possible number is parallel.interleave = "], "job.toml", "--nodes=2", "--set", "parallel.pipeline_ranks=2", "--set", "parallel.schedule=interleaved", "--set", "parallel.interleave=99"),
                (78, ["parallel.stage_layers is [1, 99]", "the nearest possible choice is [1, "], "job.toml", "--nodes=2", "--set", "parallel.pipeline_ranks=2", "--set", "parallel.stage_layers=[1,99]"),
                (78, ["parallel.tensor_shards is 3", "the nearest number that divides all layers is 2"], *gpt, "parallel.tensor_shards=3"),
                (78, ["4 ranks do not divide into tensor groups of 3", "the nearest possible number is 4"], *gpt, "parallel.tensor_shards=4", "--set", "parallel.tensor_ranks=3"),
                (78, ["parallel.context_chunks is 5", "the nearest number that does is 4"], *gpt, "parallel.context_chunks=5"),
                (78, ["4 ranks do not divide into context groups of 3", "the nearest possible number is 4"], *gpt, "parallel.context_chunks=4", "--set", "parallel.context_ranks=3"),
                (78, ["16 ranks, but only 6 microbatches"], "job.toml", "--nodes=2-4", "--ntasks-per-node=2", "--set", "run.most_nodes=8"),
                (78, ["run.spares is 2, but the job has 2 nodes"], "job.toml", "--nodes=2", "--set", "run.spares=2"),
                (64, ['there is no job file "8"', "--nodes=8"], "--nodes", "8", "job.toml"),
                (64, ['"--nodes" lacks its value'], "job.toml", "--nodes"),
                (64, ["no option --array"], "job.toml", "--array=1-3"),
                (64, ["needs a job file", "as in: distdl submit job.toml --nodes=8"],),
                (64, ["--lint takes the script alone"], "job.toml", "--lint", "x")):
            with self.subTest(words=words):
                self.fails(code, about, "submit", *words)
        self.assertEqual([], self.words("sbatch"))
        self.assertFalse((self.folder / "run").exists())
        self.submit("--nodes=2-4", "--set", "run.most_nodes=8", "--set", "run.recovery=relaunch")  # nobody can join

    def test_a_run_folder_whose_log_sbatch_cannot_name_is_refused(self):
        for folder in ("a\\b", "a\nb", "a\x1bb", "x" * 300):
            with self.subTest(folder=folder):
                self.fails(78, ["run.dir"], "submit", "job.toml", "--force", "--set", f"run.dir={json.dumps(folder)}")
        self.assertEqual([], self.words("sbatch"))
        for folder in (" a b ", "50%j", "it's \"quoted\"", "~"):
            with self.subTest(folder=folder):
                self.submit("--set", f"run.dir={json.dumps(folder)}")
        self.assertIn("50%%j/slurm-%j.log", (self.folder / "script.102").read_text())

    def test_a_refused_submission_leaves_a_run_as_it_was(self):
        self.succeed(*self.run_local(1, "--set", "train.epochs=1"))

        def files():
            return {file: file.read_bytes() for file in (self.folder / "run").rglob("*") if file.is_file()}
        told = files()
        for words in (["--nodes=64"], ["--nodes=3", "--set", "parallel.pipeline_ranks=2"], ["--nodes=2", "--mem=1M"]):
            self.assertEqual(self.distdl("submit", "job.toml", *words)[0], 78, words)
            self.assertEqual(files(), told, words)
        self.assertRegex(self.succeed("status", "run"), "(?m)^state +finished: ")

    def test_a_model_that_is_too_large_for_the_nodes_is_not_submitted(self):
        wide = ["submit", "job.toml", "--set", f"run.dir={self.outside_of_tmp()}", "--set", "model.hidden=[4000,4000]", "--nodes=2"]
        fits_nowhere = [*wide, "--set", "model.hidden=[30000,30000]"]
        for code, about, *words in (
                (0, []),
                (0, [], "--mem=0"),
                (0, [], "--nodes=17", "--ntasks=18", "--set", "parallel.strategy=auto"),  # three stages of 6 replicas, not 34 ranks
                (78, ["a node with 0.2 GiB", "2x1x1 replicas needs the least", "the nearest choice is"], "--partition=small"),
                (78, ["a node with 0.1 GiB"], "--mem=100M"),
                (78, ["a node with 0.1 GiB"], "--mem-per-cpu=50M", "--cpus-per-task=2", "--set", "slurm.exclusive=false"),
                (78, ["a node with 0.1 GiB", "the nearest choice is"], "--mem=100M", "--set", "parallel.strategy=auto"),
                (0, [], "--mem=100M", "--gpus-per-node=1"),
                (0, [], "--mem=100M", "--force")):
            with self.subTest(words=words):
                got, _, err = self.distdl(*wide, "--dry-run", *words)
                self.assertEqual(got, code, err)
                for text in about:
                    self.assertIn(text, err)
                self.assertEqual("error: memory-too-small: none of" in err, bool(about) or "--force" in words, err)
        got, _, err = self.distdl(*fits_nowhere)
        self.assertEqual(got, 78, err)
        self.assertIn("none of 2 products fits a node with 4.0 GiB", err)  # not the 16 MiB of another node
        self.assertEqual([], self.words("sbatch"))

    def test_a_chain_is_as_long_as_slurm_allows(self):
        (self.folder / "most").write_text("102")
        code, out, err = self.distdl("submit", "job.toml", "--force", "--chain", "4", "--json")
        self.assertEqual(0, code, err)
        self.assertEqual(["101", "102"], json.loads(out)["jobs"])
        self.assertIn("too many jobs; the chain has 2 jobs instead of 4", err.replace('"', ""))
        rows = [(row["job"], row["link"], row["links"]) for row in self.rows("journal.jsonl")]
        self.assertEqual([("101", 1, 4), ("102", 2, 4)], rows)
        self.fails(71, ["too many jobs"], "submit", "job.toml", "--force", "--set", "run.dir=other")

    def test_lints_a_script_of_the_user(self):
        (self.folder / "own.sbatch").write_text("#!/bin/bash\n#SBATCH --signal=B:USR1@60\nsrun --mpi=pmi2 train --rank $SLURM_PROCID\n")
        code, out, err = self.distdl("submit", "--lint", "own.sbatch")
        self.assertEqual((78, ""), (code, err))
        found = sorted(line.split(": ")[2] for line in out.splitlines())
        self.assertEqual(["log-truncated", "mpi-unavailable", "rank-in-batch-shell", "signal-in-foreground"], found)
        self.assertIn("own.sbatch:3: error: mpi-unavailable: srun here has no --mpi=pmi2; it has none, pmix\n", out)
        code, out, _ = self.distdl("submit", "--lint", "own.sbatch", "--json")
        self.assertEqual((78, found), (code, sorted(each["rule"] for each in json.loads(out))))
        (self.folder / "own.sbatch").write_text("#!/bin/bash\n#SBATCH --no-requeue --signal=B:USR1@60\ndistdl join run\n")
        _, out, _ = self.distdl("submit", "--lint", "own.sbatch")
        self.assertIn("own.sbatch:3: error: signal-in-foreground: ", out)
        (self.folder / "good.sbatch").write_text("#!/bin/bash\n#SBATCH --no-requeue\n")
        self.assertEqual("good.sbatch: ok\n", self.succeed("submit", "--lint", "good.sbatch"))
        self.fails(3, ['cannot open the script "none"'], "submit", "--lint", "none")


class LocalRun(JobsTest):
    def begin(self, *words):
        before = len(self.rows("metrics.jsonl"))
        run = self.start(*self.run_local(2, *ENDLESS, *words))
        wait_until(lambda: len(self.rows("metrics.jsonl")) > before + 5, "some steps")
        return run

    def check_wall_seconds(self, began):
        """From the first row on, which the run that was begun then has written, until they are asked for. The status."""
        first, asked = self.rows("journal.jsonl")[0]["time"], time.time()
        seen = self.status()
        self.assertGreater(seen["ledger"]["wall_seconds"], asked - first - 1)
        self.assertLess(seen["ledger"]["wall_seconds"], time.time() - began + 1)
        return seen

    def test_is_followed_without_slurm(self):
        began = time.time()
        run = self.begin()
        seen = self.check_wall_seconds(began)
        self.assertEqual(("training", True, "", 2), (seen["state"], seen["live"], seen["job"], seen["ranks"]))
        self.assertIn(f"process {run.pid} on", self.succeed("status", "run"))
        self.assertIn("saves and stops", self.succeed("cancel", "run"))
        self.assertEqual(75, self.finish(run, 20)[0])
        self.assertEqual("stopped", self.status()["state"])
        self.fails(64, ["there is nothing to cancel"], "cancel", "run")
        run = self.begin()
        run.send_signal(signal.SIGKILL)
        self.finish(run)
        wait_until(lambda: self.status()["state"] == "lost", "that nobody works on it")

    def test_a_forged_lock_ends_nothing_else(self):
        run = self.begin()
        other = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(lambda: (other.kill(), other.wait()))
        second = self.folder / "second"
        second.mkdir()
        shutil.copy(self.folder / "run" / "journal.jsonl", second)
        true = (self.folder / "run" / "LOCK").read_text()
        for pid, why in ((run.pid, "does not work on this run folder"), (other.pid, "does not run distdl")):
            started = (pathlib.Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
            (second / "LOCK").write_text(re.sub(r"(?m)^pid=.*\nstarted=.*$", f"pid={pid}\nstarted={started}", true))
            self.fails(74, [f"process {pid}, which ", why, "it got no signal"], "cancel", "second")
        self.refuses_other_locks(second)
        self.assertEqual([None, None], [run.poll(), other.poll()])
        self.assertIn("saves and stops", self.succeed("cancel", "run"))
        self.assertEqual(75, self.finish(run, 20)[0])

    def test_launches_behind_a_link_are_left_alone(self):
        project = self.folder / "project" / "code"
        project.mkdir(parents=True)
        (project / "launch.json").write_text("{}")
        (self.folder / "run").mkdir()
        (self.folder / "run" / "launches").symlink_to(project.parent)
        self.fails(74, ['launches" is a link, but a folder was expected: remove it'], *self.run_local(1))
        self.assertEqual(["launch.json"], [file.name for file in project.iterdir()])
        self.assertEqual(["code"], [file.name for file in project.parent.iterdir()])

    def refuses_other_locks(self, run):
        if os.geteuid() == 0:
            os.chown(run / "LOCK", 65534, 65534)
            self.fails(74, ['LOCK" belongs to user 65534, but the run folder to user 0'], "cancel", run.name)
        (run / "LOCK").unlink()
        (run / "LOCK").symlink_to(self.folder / "run" / "LOCK")
        self.fails(74, ['LOCK" is a link'], "cancel", run.name)
        (run / "LOCK").unlink()
        os.mkfifo(run / "LOCK")
        self.fails(74, ['LOCK" is a FIFO'], "cancel", run.name)

    def test_saves_and_ends_when_files_ask_for_it(self):
        run = self.begin("--set", "checkpoint.every=0")
        (self.folder / "run" / "SAVE").touch()
        self.wait_for_checkpoint()
        self.assertFalse((self.folder / "run" / "SAVE").exists())
        self.succeed("cancel", "--after-save")
        code, _, err = self.finish(run, 20)
        self.assertEqual(76, code, err)
        self.assertIn("stopped for good, as a user asked for it with everything saved", err)
        self.assertEqual(["the file STOP"], [row["reason"] for row in self.rows("journal.jsonl") if row["event"] == "stopped"])
        self.assertEqual("ended", self.status()["state"])
        self.assertEqual([75, 76], [row["code"] for row in self.rows("journal.jsonl") if "code" in row])
        (self.folder / "run" / "STOP").touch()
        code, _, err = self.distdl(*self.run_local(2, *ENDLESS))
        self.assertEqual((76, 1), (code, len([row for row in self.rows("journal.jsonl") if row["event"] == "launch"])), err)
        self.assertFalse((self.folder / "run" / "STOP").exists(), "it was acted on")

    def test_has_a_ledger_of_its_restarts(self):
        began = time.time()
        run = self.begin("--set", "run.relaunches=3")
        os.kill(self.ranks_of(run)[1], signal.SIGKILL)
        wait_until(lambda: len([row for row in self.rows("journal.jsonl") if row["event"] == "started"]) == 2, "a relaunch")
        wait_until(lambda: self.status()["step"], "steps")
        seen = self.check_wall_seconds(began)
        self.assertEqual(1, len(seen["restarts"]))
        self.assertRegex(seen["restarts"][0]["cause"], "peer lost|killed by SIGKILL")
        ledger = seen["ledger"]
        self.assertAlmostEqual(ledger["wall_seconds"], sum(ledger["seconds"].values()), places=3)
        self.assertGreater(ledger["seconds"]["lost work"], 0)
        self.assertGreater(ledger["seconds"]["recover"], 0)
        self.assertEqual(0, ledger["seconds"]["queued"])
        self.assertIn("goodput", self.succeed("status", "--goodput"))
        run.send_signal(signal.SIGTERM)
        self.finish(run, 20)

    def test_logs_come_as_one(self):
        self.succeed(*self.run_local(2, "--set", "log.level=debug"))
        (self.folder / "run" / "logs" / "other.log").write_text("2000-01-01T00:00:00.000000 error host=other rank=7 first\n")
        lines = self.succeed("log", "run").splitlines()
        self.assertEqual("2000-01-01T00:00:00.000000 error host=other rank=7 first", lines[0])
        self.assertGreater(len(lines), 20)
        self.assertEqual(lines[-3:], self.succeed("log", "run", "-n", "3").splitlines())
        self.assertEqual(lines[:1], self.succeed("log", "run", "--level", "error").splitlines())
        self.assertEqual(lines[:1], self.succeed("log", "run", "--host", "other").splitlines())
        self.assertEqual(lines, self.succeed("log", "-f", "run").splitlines())  # the run has ended

    def test_logs_of_any_length_take_little_memory(self):
        self.succeed(*self.run_local(1))
        line = "2000-01-01T00:00:00.{:06} info host=other rank=7 " + "x" * 80 + "\n"
        text = "".join(line.format(number) for number in range(1000)) * 400  # 50 MB
        for host in ("one", "other"):
            (self.folder / "run/logs" / f"{host}.log").write_text(text)
        process = self.start("log", "run", output=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        self.assertLess(usage.ru_maxrss, 150 << 10, "KiB")

    def test_following_a_log_ends_with_its_reader(self):
        run = self.start(*self.run_local(1, *ENDLESS))
        wait_until(lambda: self.rows("metrics.jsonl"), "a run that trains")
        process = self.start("log", "-f", "run")
        process.stdout.readline()
        process.stdout = process.stdout.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(process.stderr_file.read_text(), "")
        self.assertIsNone(run.poll())

    @unittest.skipIf(os.geteuid() != 0, "only root can run distdl as another user")
    def test_another_user_without_rights_is_told_so(self):
        self.folder.chmod(0o755)
        self.succeed(*self.run_local(1))
        nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        if subprocess.run([DISTDL, "version"], capture_output=True, check=False, **nobody).returncode != 0:
            self.skipTest("nobody may not run this distdl")
        commands = [["log", "run"], ["watch", "run"], ["why", "run"], ["status", "run"], ["ls", "run"], ["compare", "run", "run"],
                    ["trace", "run"], ["metrics", "export", "run", "--to", "tensorboard"], ["cancel", "run"], ["requeue", "run"], ["report", "run"]]
        for name, mode in (("run", 0o700), ("run/journal.jsonl", 0o600), ("run/logs", 0o700), ("run/metrics.jsonl", 0o600)):
            file = self.folder / name
            before = file.stat().st_mode
            file.chmod(mode)
            for words in commands:
                with self.subTest(name=name, words=words):
                    self.fails(74, [name, "Permission denied"], *words, **nobody)
            file.chmod(before)
        (self.folder / "run/checkpoints").chmod(0o700)
        for words in (["checkpoint", "ls", "run"], ["checkpoint", "verify", "run"], ["checkpoint", "digest", "run"]):
            with self.subTest(words=words):
                self.fails(74, ["run/checkpoints", "Permission denied"], *words, **nobody)

    def test_runs_are_listed(self):
        self.assertIn("no such runs are known", self.succeed("ls"))
        self.succeed(*self.run_local(1))
        self.succeed(*self.run_local(1, "--set", "run.dir=second"))
        listed = json.loads(self.succeed("ls", "--json"))
        self.assertEqual((2, 2, ["finished", "finished"]), (listed["ended"], listed["finished"], [each["state"] for each in listed["runs"]]))
        self.assertIn("2 of 2 runs that have ended finished (100%)", self.succeed("ls"))
        self.assertEqual(1, len(json.loads(self.succeed("ls", "second", "--json"))["runs"]))
        (self.folder / "sweep.toml").write_text("of = 'another program'\n")  # beside runs, and no sweep
        shown = self.succeed("ls")
        self.assertRegex(shown, r"(?m)^RUN +STATE +JOB +STEP +RESTARTS +VALIDATION +LAST SIGN +FOLDER$")
        self.assertRegex(shown, r"(?m)^[0-9a-f]{12} +finished +- +\d+/\d+ +0 +[\d.]+ [\d.]+% +\d+ s ago +second$")
        self.assertNotIn("sweep", shown)
        self.assertRegex(self.succeed("ls", "-n", "1"), r"(?s) second\n.*1 older run is not shown; \"distdl ls -n 0\" lists all\n$")
        self.assertEqual(2, len(self.succeed("ls", "--state", "training,finished", "-n", "0").splitlines()) - 2)
        self.assertIn("no such runs", self.succeed("ls", "--state", "training"))
        self.assertIn("second", self.succeed("ls", "--here"))
        (self.folder / "elsewhere").mkdir()
        self.assertIn("no such runs", self.distdl("ls", "--here", cwd=self.folder / "elsewhere")[1])
        (self.folder / "second").rename(self.folder / "third")
        self.assertEqual(1, len(json.loads(self.succeed("ls", "--json"))["runs"]))
        self.succeed("ls", "third")
        self.assertEqual(2, len(list((self.folder / "state/distdl/runs").iterdir())))
        self.succeed("ls", "--prune")
        self.assertEqual(1, len(list((self.folder / "state/distdl/runs").iterdir())))

    def test_a_run_that_is_not_there(self):
        for words in (["status", "none"], ["log", "123"], ["cancel", "."], ["requeue"]):
            self.fails(3, ["name a run by its folder, its job file, its id, or the id of one of its jobs"], *words)
        for words in (["join", ""], ["status", ""], ["submit", "--join", ""], ["ls", ""]):
            self.fails(64, ["the name of a run is empty"], *words)

    def test_a_run_that_cannot_be_read(self):
        (self.folder / "loop").symlink_to("loop")
        self.fails(74, ['cannot look at "loop"'], "join", "loop")
        (self.folder / "run").mkdir()
        (self.folder / "run/journal.jsonl").symlink_to("journal.jsonl")
        self.fails(74, ['cannot look at "run/journal.jsonl"'], "join")


class Join(JobsTest):
    def launch(self, version):
        """What the agents of a launch on two nodes leave in the run folder."""
        folder = self.folder / "run/launches/ab12"
        folder.mkdir(parents=True, exist_ok=True)
        agents = [{"host": host, "address": "127.0.0.1 9", "nonce": ""} for host in ("n1", "n2")]
        (folder / "launch.json").write_text(json.dumps({
            "id": "ab12", "version": version, "job": "another one", "arguments": ["job.toml"], "more": [], "folder": str(self.folder),
            "ranks": 2, "min_nodes": 1, "variables": {}, "agents": agents, "secret": "x"}))
        (folder / "1.json").write_text(json.dumps({
            "generation": 1, "members": [0], "spares": [], "cause": "", "origin": {"kind": 0}, "crashed_after": -1, "progress": -1,
            "failures": 0, "losses": 0, "node_failures": [], "wrong": [], "newcomers": []}))

    def journal(self, *rows):
        with open(self.folder / "run/journal.jsonl", "a", encoding="utf-8") as journal:
            for row in rows:
                print(json.dumps({"time": 1, **row}), file=journal)

    def test_a_damaged_record_is_named(self):
        self.submit()
        self.jobs("101|RUNNING")
        self.launch(json.loads(self.succeed("version", "--json"))["version"])
        self.journal({"event": "launch", "id": "ab12"})
        record = self.folder / "run/launches/ab12/launch.json"
        record.write_text("{")
        self.fails(2, ['run/launches/ab12/launch.json" is damaged'], "submit", "--join", "run")
        record.unlink()
        record.symlink_to(record)
        self.fails(74, ['run/launches/ab12/launch.json" is a link'], "submit", "--join", "run")

    def test_only_a_run_that_goes_on_with_the_same_job_file_can_be_joined(self):
        self.submit()
        self.jobs("101|PENDING")
        self.fails(64, ['the run "', "is queued: only a run that is running can be joined"], "submit", "--join", "run")
        self.jobs("101|RUNNING")
        self.fails(64, ["has no agents that could be joined"], "submit", "--join", "run")
        for words in (["job.toml"], ["--set", "train.epochs=2"], ["--lint", "x"], ["-p", "gpu"]):
            self.fails(64, ["--join takes no job file", "--partition=gpu"], "submit", "--join", "run", *words)
        self.fails(64, ["this is not a Slurm job", "distdl submit --join RUN"], "join", "run")
        self.fails(3, ['there is no run "none"'], "submit", "--join", "none")
        self.launch("0.0.1")
        self.journal({"event": "launch", "id": "ab12"})
        self.fails(78, ["the run was started by distdl 0.0.1"], "submit", "--join", "run")
        self.journal({"event": "launch"})
        self.fails(78, ["the run was started by an older distdl"], "submit", "--join", "run")
        self.launch(json.loads(self.succeed("version", "--json"))["version"])
        for row in ({"event": "launch", "id": "cd34"}, {"event": "job_started", "job": "101"}):  # ab12 is of a start that was killed
            self.journal({"event": "launch", "id": "ab12"}, row)
            self.fails(64, ["has no agents that could be joined"], "submit", "--join", "run")
        self.journal({"event": "launch", "id": "ab12"})
        self.fails(78, ['the job file "job.toml" is not what it was when the run was launched'], "submit", "--join", "run")
        self.jobs("101|COMPLETED")
        self.fails(64, ["only a run that is running can be joined"], "submit", "--join", "run")
        self.assertFalse((self.folder / "run/join.sbatch").exists())


class RequeueAndCancel(JobsTest):
    def test_jobs_of_a_run(self):
        self.submit("--chain", "2")
        self.jobs("101|RUNNING", "102|PENDING")
        self.assertIn("job 101 saves, and goes back to the queue", self.succeed("requeue", "run"))
        self.assertEqual("cancelled: 102, 101\n", self.succeed("cancel", "101"))
        self.assertEqual("--batch --signal=USR1 101", self.words("scancel")[0])
        self.assertEqual(["102", "101"], [line.split()[-1] for line in self.words("scancel")[1:]])

    def test_a_job_that_is_none_of_the_run_is_left_alone(self):
        self.submit()
        for number, script in ((998, "#!/bin/sh\nsleep 1000\n"), (999, "#!/bin/sh\n# Run folder: /elsewhere/run\ndistdl run job.toml\n")):
            (self.folder / f"script.{number}").write_text(script)
            with open(self.folder / "run" / "journal.jsonl", "a") as journal:
                journal.write(json.dumps({"event": "job_started", "time": time.time(), "job": str(number)}) + "\n")
            self.jobs(f"{number}|RUNNING", "101|PENDING")
            for words in (["requeue", "run"], ["requeue", "--now", "run"], ["cancel", "run"]):
                with self.subTest(words=words, job=number):
                    code, out, err = self.distdl(*words)
                    self.assertEqual((74, out), (code, "cancelled: 101\n" if words[0] == "cancel" else ""), err)
                    self.says_once([f"job {number}, ", "is none of this run", "it is left alone"], err)
            self.assertEqual({"101"}, {line.split()[-1] for line in self.words("scancel")})
        self.assertEqual([], [line for line in self.words("scontrol") if line.startswith("requeue")])

    def test_a_script_that_others_may_have_written_is_not_submitted(self):
        self.submit()
        self.jobs("101|TIMEOUT")
        script = self.folder / "run" / "job.sbatch"
        script.chmod(0o664)
        self.fails(74, ['job.sbatch" belongs to user', "mode 664", "submit it by hand"], "requeue", "run")
        if os.geteuid() == 0:
            script.chmod(0o644)
            os.chown(script, 65534, 65534)
            self.fails(74, ['job.sbatch" belongs to user 65534'], "requeue", "run")
        self.assertFalse((self.folder / "script.102").exists())

    def test_a_job_that_has_ended_is_submitted_again(self):
        self.submit()
        self.jobs("101|TIMEOUT")
        self.assertEqual("submitted again as job 102\n", self.succeed("requeue", "run"))
        self.assertIn(f"--chdir={os.path.realpath(self.folder)}", self.words("sbatch"))
        self.jobs("102|PENDING")
        self.fails(64, ["is queued: there is nothing to requeue"], "requeue", "run")


class Chain(JobsTest):
    """What a job of a chain does at its end, with an srun that ends at once with some code."""

    def setUp(self):
        super().setUp()
        self.submit("--chain", "4")
        self.jobs(*(f"{number}|RUNNING" for number in range(101, 105)))
        self.chain = self.rows("journal.jsonl")[0]["chain"]

    def work(self, job, code):
        (self.folder / "bin" / "srun").write_text(f"#!/bin/sh\nexit {code}\n")
        (self.folder / "bin" / "scontrol").write_text(f'#!/bin/sh\n[ "$1" != write ] || exec cat "{self.folder}/script.$3"\n'
                                                       'echo "JobId=$3 JobState=RUNNING NumNodes=1"\n')
        done, _, err = self.distdl("run", "job.toml", "--set", "run.requeue=false", "--set", "run.relaunches=0",
                                   variables={"SLURM_JOB_ID": job, "DISTDL_CHAIN": self.chain, "SLURM_JOB_END_TIME": "1900000000"})
        return done, err

    def cancelled(self):
        return [line.split()[-1] for line in self.words("scancel")]

    def test_ends_with_what_running_again_would_not_help(self):
        self.assertEqual(78, self.work("101", 78)[0])
        self.assertEqual(["102", "103", "104"], self.cancelled())
        done, err = self.work("102", 69)  # Slurm could not be told in time
        self.assertEqual(0, done)
        self.assertIn("an earlier job of this chain has ended the run", err)

    def test_goes_on_after_a_stop_and_after_a_crash_but_not_after_two(self):
        self.assertEqual(75, self.work("101", 75)[0])
        self.assertEqual(70, self.work("102", 70)[0])
        self.assertEqual([], self.cancelled())
        self.assertEqual(137, self.work("103", 137)[0])
        self.assertEqual(["104"], self.cancelled())

    def test_a_stop_file_ends_it(self):
        (self.folder / "run" / "STOP").touch()
        self.assertEqual(76, self.work("101", 0)[0])
        self.assertEqual(["102", "103", "104"], self.cancelled())
        self.assertFalse((self.folder / "run" / "STOP").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
