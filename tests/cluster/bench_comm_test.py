# SPDX-License-Identifier: Apache-2.0
"""distdl bench comm and distdl doctor --fabric under srun on nodes of a real Slurm cluster, as a user sees them."""
import json
import os
import subprocess
import unittest
import xml.etree.ElementTree

import pocket

FOLDER = None
CLUSTER = None
QUICK = ["--rounds", "2", "--seconds", "0.01"]
USAGE, PEER_LOST, STORAGE, CONFIG = 64, 69, 74, 78  # docs/exit-codes.md


def setUpModule():
    global FOLDER, CLUSTER
    FOLDER = pocket.work_folder()
    CLUSTER = pocket.Cluster(3, FOLDER, name="bench")
    os.environ["XDG_CACHE_HOME"] = f"{FOLDER}/cache"


def srun(*words, nodes="n1,n2"):
    """(exit code, stdout, stderr without srun's own lines) of two ranks a node."""
    done = pocket.finished("srun", "--mpi=pmix", f"--nodelist={nodes}", f"--nodes={nodes.count(',') + 1}", "--ntasks-per-node=2",
                           pocket.DISTDL, *words)
    return done.returncode, done.stdout, "".join(line for line in done.stderr.splitlines(True) if not line.startswith("srun: "))


class Commands(unittest.TestCase):
    def succeed(self, *words, **how):
        code, out, err = srun(*words, **how)
        self.assertEqual((0, ""), (code, err), out)
        return out

    def read(self, *words, **how):
        return json.loads(self.succeed(*words, "--json", **how))

    def on(self, node, *words):
        return pocket.finished(pocket.TOOL, "exec", node, *words).returncode == 0


class BenchComm(Commands):
    def test_prints_one_table(self):
        out = self.succeed("bench", "comm", *QUICK, "--sizes", "8,64K,1M", "--op", "all_reduce,send_receive")
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^4 ranks on 2 nodes \(n1, n2\), float32; memory [\d.]+ GB/s per node at 1 MiB, network [\d.]+ GB/s")
        self.assertEqual(1, out.count("operation "), out)
        rows = [line.split()[0] for line in lines[3:]]
        self.assertEqual(["all_reduce"] * 3 + ["send_receive"] * 3, rows, out)

    def test_json_and_plot_are_of_rank_0(self):
        report = self.read("bench", "comm", *QUICK, "--sizes", "1K,4M", "--plot", "/tmp/plot.svg")
        self.assertEqual((4, 2, ["n1", "n1", "n2", "n2"]), (report["ranks"], report["nodes"], report["hosts"]))
        self.assertEqual([1024, 4 << 20], [point["bytes"] for point in report["points"]])
        for point in report["points"]:
            self.assertTrue(point["correct"] and point["distdl"]["algorithm"])
            self.assertTrue(0 < point["distdl"]["fraction_of_limit"] < 2, point)  # more ranks than cores: noise
        self.assertGreater(report["network_bytes_per_s"], 1e7)
        drawing = pocket.call(pocket.TOOL, "exec", "n1", "cat", "/tmp/plot.svg")  # each node has a /tmp of its own
        self.assertTrue(xml.etree.ElementTree.fromstring(drawing).tag.endswith("svg"))
        self.assertFalse(self.on("n2", "test", "-e", "/tmp/plot.svg"))

    def test_costs_are_kept_for_each_pair_of_hosts(self):
        def costs(name):
            with open(f"{FOLDER}/cache/distdl/costs-{name}.json") as file:
                return json.load(file)
        out = self.succeed("bench", "comm", "--tune")
        self.assertRegex(out, r"between_bandwidth +[\d.]+ GB/s")
        self.assertIn(f"{FOLDER}/cache/distdl/costs-n1+n2.json", out)
        self.succeed("bench", "comm", "--tune", nodes="n3")
        self.assertEqual(["n3"], costs("n3")["hosts"])
        document = costs("n1+n2")
        values = {name: cost["value"] for name, cost in document["costs"].items()}
        self.assertTrue(all(value > 0 for value in values.values()), values)
        self.assertTrue(all(values[name] < 1e13 for name in ("reduce", "copy", "share", "memory")), values)

        def chosen(nodes="n1,n2", **changes):
            for name, value in changes.items():
                document["costs"][name]["value"] = value
            with open(f"{FOLDER}/cache/distdl/costs-n1+n2.json", "w") as file:
                json.dump(document, file)
            return self.read("bench", "comm", *QUICK, "--sizes", "1M", nodes=nodes)["points"][0]["distdl"]["algorithm"]
        # Not those measured, which depend on what else runs here.
        far = {"between_bandwidth": 1e7, "between_latency": 1e-5, "between_overhead": 3e-6, "within_bandwidth": 1e10, "within_latency": 1e-6,
               "within_overhead": 3e-7, "step": 2e-8, "turn": 8e-6, "reduce": 2e10, "copy": 3e10, "share": 8e9, "memory": 3e10}
        self.assertEqual("hierarchical", chosen(**far, signal=1e-7))
        self.assertNotEqual("hierarchical", chosen(**far, signal=10))
        self.assertEqual("hierarchical", chosen(nodes="n1,n3"), "the costs of other hosts")

    def test_mistakes_are_said_once(self):
        for words, expected, hint in ((["--sizes", "1Q"], USAGE, "64K"), (["--sizes", "8", "--interface", "eth7"], CONFIG, "only eth0, lo"),
                                      (["--sizes", "8", "--algorithm", "shared_direct"], CONFIG, "shared_direct"),
                                      (["--sizes", "8", "--plot", f"{FOLDER}/none/x.svg"], STORAGE, "--plot")):
            code, _, err = srun("bench", "comm", *QUICK, *words)
            self.assertEqual(expected, code, err)
            self.assertEqual(1, err.count("\n"), err)
            self.assertIn(hint, err)

    def test_sys_of_another_network_namespace_is_explained(self):
        """Rank 0 sees the /sys of a namespace that has but lo."""
        meeting = ["env", "DISTDL_WORLD_SIZE=2", f"DISTDL_RENDEZVOUS={FOLDER}/meet", "DISTDL_LAUNCH_ID=sys"]
        bench = [pocket.DISTDL, "bench", "comm", *QUICK, "--sizes", "8"]
        foreign = ["unshare", "--mount", "sh", "-c", "unshare --net mount -t sysfs sysfs /sys && exec \"$@\"", "sh"]
        other = subprocess.Popen([pocket.TOOL, "exec", "n2", *meeting, "DISTDL_RANK=1", *bench], stderr=subprocess.PIPE, text=True)
        first = pocket.finished(pocket.TOOL, "exec", "n1", *foreign, *meeting, "DISTDL_RANK=0", *bench)
        other.communicate(timeout=60)
        self.assertEqual(PEER_LOST, first.returncode, first.stderr)
        for text in ("cannot connect to rank 1 (n2)", "/sys shows the network interfaces of another network namespace", "mount -t sysfs"):
            self.assertIn(text, first.stderr)
        self.assertNotIn("UCX  ERROR", first.stderr)


class Fabric(Commands):
    def test_all_pairs(self):
        report = self.read("doctor", "--fabric")
        self.assertEqual([([0, 1], "node"), ([2, 3], "node"), ([0, 2], "network")],
                         [(link["ranks"], link["class"]) for link in report["links"]])
        for link in report["links"]:
            self.assertTrue(0 < link["latency_s"] < 1 and link["bytes_per_s_4m"] > 1e6, link)

    def test_names_the_slow_host(self):
        CLUSTER.tool("rate", "n3", "50mbit")
        self.addCleanup(CLUSTER.tool, "rate", "n3", "none")
        code, out, err = srun("doctor", "--fabric", nodes="n1,n2,n3")
        self.assertEqual((CONFIG, ""), (code, err), out)
        self.assertIn("2 of 2 links of host n3 are slow", out)


pocket.main()
