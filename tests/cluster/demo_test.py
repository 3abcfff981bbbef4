# SPDX-License-Identifier: Apache-2.0
"""sbatch/demo tells its whole story, with Slurm and without, and leaves nothing behind, also when it is interrupted."""
import atexit
import glob
import os
import re
import shutil
import signal
import subprocess
import unittest

import pocket

DEMO = os.path.join(pocket.REPOSITORY, "sbatch/demo")


def traces(text):
    """Whatever there is on this machine with `text` in its name: processes, mounts, network namespaces, state of clusters."""
    found = [" ".join(words) for words in pocket.processes_with(text)]
    with open("/proc/self/mountinfo") as mounts:
        found += [line for line in mounts if text in line]
    for folder in ("/run/netns", "/var/tmp/pocket-cluster"):
        found += [f"{folder}/{name}" for name in (os.listdir(folder) if os.path.isdir(folder) else []) if text in name]
    return found


def plugins():
    """The folder of Slurm's plugins, as the pocket cluster finds it."""
    script = 'PATH=$PATH:/usr/sbin:/sbin; source "$0"; find_plugin mpi_pmi2.so'
    return os.path.dirname(pocket.call("bash", "-c", script, f"{pocket.REPOSITORY}/sbatch/pocket/check.bash").splitlines()[0])


def plugins_for_pmix():
    return glob.glob(f"{plugins()}/mpi_pmix*.so")


def hide_pmix():
    """Words before a command that sees a Slurm whose folder of plugins has none for PMIx; the machine keeps them."""
    rest = os.path.join(pocket.work_folder(), "plugins")
    shutil.copytree(plugins(), rest, symlinks=True, ignore=shutil.ignore_patterns("mpi_pmix*"))
    return ["unshare", "--mount", "--propagation", "slave", "bash", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', rest, plugins()]


class Demo:
    def __init__(self, *words, before=()):
        self.folder = os.path.join(pocket.work_folder(), "demo")
        self.output = self.folder + ".output"
        with open(self.output, "w") as output:
            self.process = subprocess.Popen([*before, DEMO, "--distdl", pocket.DISTDL, "--dir", self.folder, *words], stdout=output,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.cluster = f"demo{self.process.pid}"
        atexit.register(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def told(self):
        with open(self.output) as output:
            return output.read()

    def wait_to_tell(self, text, seconds):
        pocket.wait_for(f"the demo to tell \"{text}\"", lambda: self.process.poll() is not None or text in self.told(), seconds, self.told)
        assert text in self.told(), f"the demo ended with {self.process.returncode}\n{self.told()}"

    def wait_for_the_job(self):
        """Its ranks train: three of them, or two where the machine is so busy that the third node comes later."""
        started = re.compile(r"^== The job\n(.*\n)*? +started on [23] ranks", re.MULTILINE)
        pocket.wait_for("the demo's job to start", lambda: self.process.poll() is not None or started.search(self.told()), 60, self.told)
        assert started.search(self.told()), f"the demo ended with {self.process.returncode}\n{self.told()}"

    def leftovers(self):
        return [self.folder] * os.path.exists(self.folder) + traces(self.cluster) + traces(self.folder)

    def row(self, name):
        return re.search(rf"^   {name}  +(.*)$", self.told(), re.MULTILINE)[1]


class TheDemo(unittest.TestCase):
    def check_good_end(self, demo, interruptions):
        self.assertEqual(0, demo.process.wait(170), demo.told())
        self.assertIn("final checkpoint identical to an undisturbed run: yes", demo.told())
        self.assertEqual(str(interruptions), demo.row("interruptions"), demo.told())
        self.assertEqual([], demo.leftovers())
        print(f"{demo.row('accuracy')}, {demo.row('steps done twice')} steps done twice, {demo.row('time')}")

    def test_tells_its_story(self):
        demo = Demo("--samples", "6000")
        demo.wait_to_tell("A node loses power", 120)
        self.assertTrue(traces(demo.cluster), "this test sees what is there")
        self.assertEqual("--without-pmix" in demo.told(), not plugins_for_pmix(), demo.told())
        without_slurm = Demo("--local", "--samples", "3500")  # while Slurm waits for the node
        self.check_good_end(without_slurm, 2)
        self.assertNotIn("sbatch", without_slurm.told())
        self.assertIn("signal SIGTERM", without_slurm.told())
        self.check_good_end(demo, 2)
        self.assertIn("resumed from step", demo.told())
        self.assertIn("on 2 ranks", demo.told())
        self.assertGreaterEqual(float(demo.row("accuracy").split()[0]), 97, "on generated shapes, through sbatch")

    def test_ctrl_c_cleans_up(self):
        demo = Demo("--samples", "2500")
        demo.wait_for_the_job()
        os.killpg(demo.process.pid, signal.SIGINT)  # as a terminal does: to all of them
        self.assertEqual(130, demo.process.wait(30), demo.told())
        self.assertIn("interrupted", demo.told())
        self.assertEqual([], demo.leftovers())

    def test_slurm_without_pmix(self):
        demo = Demo("--samples", "2500", before=hide_pmix())
        demo.wait_for_the_job()
        self.assertIn(f"{demo.cluster} up --without-pmix 3", demo.told())
        log, = glob.glob(f"{demo.folder}/slurm-*.log")
        with open(log) as text:
            self.assertIn("srun here has no --mpi=pmix", text.read())
        demo.process.send_signal(signal.SIGTERM)
        self.assertEqual(130, demo.process.wait(30), demo.told())
        self.assertEqual([], demo.leftovers())


pocket.main(check=["--without-pmix"])
