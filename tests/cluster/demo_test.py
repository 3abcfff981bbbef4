# SPDX-License-Identifier: Apache-2.0
"""sbatch/demo tells its whole story, with Slurm and without, and leaves nothing behind, also when it is interrupted."""
import os
import re
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


class Demo:
    def __init__(self, *words):
        self.folder = os.path.join(pocket.work_folder(), "demo")
        self.output = self.folder + ".output"
        with open(self.output, "w") as output:
            self.process = subprocess.Popen([DEMO, "--distdl", pocket.DISTDL, "--dir", self.folder, *words], stdout=output,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.cluster = f"demo{self.process.pid}"

    def told(self):
        with open(self.output) as output:
            return output.read()

    def wait_to_tell(self, text, seconds):
        pocket.wait_for(f"the demo to tell \"{text}\"", lambda: text in self.told(), seconds, self.told)

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
        demo.wait_to_tell("started on 3 ranks", 60)
        os.killpg(demo.process.pid, signal.SIGINT)  # as a terminal does: to all of them
        self.assertEqual(130, demo.process.wait(30), demo.told())
        self.assertIn("interrupted", demo.told())
        self.assertEqual([], demo.leftovers())


pocket.main()
