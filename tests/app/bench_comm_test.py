# SPDX-License-Identifier: Apache-2.0
"""distdl bench comm and distdl doctor --fabric, with ranks on this machine. Other libraries are not needed."""
import json
import unittest
import xml.etree.ElementTree

from program import ProgramTest

BENCH = ["bench", "comm", "--local", "-n", "2", "--rounds", "2", "--seconds", "0.005"]
OPERATIONS = ["barrier", "broadcast", "reduce", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "gather", "scatter",
              "send_receive"]


class CommTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.variables = {"XDG_CACHE_HOME": str(self.cache)}

    def read(self, *words):
        return json.loads(self.succeed(*words, "--json", variables=self.variables))

    def costs(self):
        files = list((self.cache / "distdl").glob("costs-*.json"))
        self.assertEqual(len(files), 1)
        return files[0]


class BenchComm(CommTest):
    def test_tells_times_and_bandwidths(self):
        report = self.read(*BENCH, "--sizes", "8:64K:8", "--plot", self.folder / "plot.svg")
        self.assertEqual((report["ranks"], report["nodes"], report["type"]), (2, 1, "float32"))
        self.assertEqual([point["bytes"] for point in report["points"]], [8, 64, 512, 4096, 32768])
        for point in report["points"]:
            self.assertTrue(point["correct"])
            ours = point["distdl"]
            self.assertLessEqual(ours["best_s"], ours["median_s"])
            self.assertLessEqual(ours["median_s"], ours["worst_s"])
            self.assertEqual(len(ours["rounds_s"]), 2)
            self.assertAlmostEqual(ours["algorithm_bandwidth"] * ours["median_s"] / point["bytes"], 1)
            self.assertAlmostEqual(ours["bus_bandwidth"], ours["algorithm_bandwidth"])  # of two ranks
            self.assertGreater(ours["fraction_of_limit"], 0)
            self.assertTrue(ours["algorithm"])
        drawing = xml.etree.ElementTree.parse(self.folder / "plot.svg").getroot()
        self.assertTrue(drawing.tag.endswith("svg"))
        names = {title.text for title in drawing.iter("{http://www.w3.org/2000/svg}title")}
        self.assertEqual(names, {"distdl", "measured limit"})

    def test_nothing_is_faster_than_the_limit(self):
        point = self.read("bench", "comm", "--local", "-n", "2", "--rounds", "5", "--seconds", "0.05", "--sizes", "8M")["points"][0]
        self.assertLess(point["distdl"]["fraction_of_limit"], 2)  # noise of a busy machine
        self.assertGreater(point["distdl"]["fraction_of_limit"], 0)
        self.assertGreater(point["distdl"]["limit_s"], 1e-6)

    def test_measures_every_operation_on_three_ranks(self):
        words = ["bench", "comm", "--local", "-n", "3", "--rounds", "1", "--seconds", "0.005", "--op", ",".join(OPERATIONS)]
        report = self.read(*words, "--sizes", "24,1000")
        self.assertEqual([point["operation"] for point in report["points"]],
                         ["barrier"] + [name for name in OPERATIONS[1:] for _ in range(2)])

    def test_measures_every_type(self):
        for kind in ("float64", "float16", "bfloat16", "int32", "int64"):
            report = self.read(*BENCH, "--sizes", "4K", "--type", kind)
            self.assertEqual((report["type"], report["points"][0]["bytes"]), (kind, 4096))

    def test_prints_a_table(self):
        out = self.succeed(*BENCH, "--sizes", "1K", "--op", "all_gather", variables=self.variables)
        self.assertRegex(out, r"2 ranks on 1 node")
        self.assertRegex(out, r"(?m)^all_gather +1 KiB +[\d.]+ [um]?s .* \d+% +\w+ *$")

    def test_takes_a_given_algorithm(self):
        report = self.read(*BENCH, "--sizes", "64K", "--algorithm", "pairwise", "--segment", "1000")
        self.assertEqual((report["points"][0]["distdl"]["algorithm"], report["points"][0]["distdl"]["segment"]),
                         ("pairwise", 1000))

    def test_says_which_peers_are_absent(self):
        self.variables["PATH"] = str(self.folder)  # no MPI there
        code, out, err = self.distdl(*BENCH, "--sizes", "8", "--peers", "openmpi", variables=self.variables)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"openmpi is left out: .*not installed")
        self.assertNotIn("openmpi", out)

    def test_mistakes_are_answered_before_a_rank_starts(self):
        for words, hint in ((["--sizes", "1Q"], "64K"), (["--sizes", "8:4"], "empty range"), (["--op", "sum"], "all_reduce"),
                            (["--sizes", ""], "size"), (["--peers", "nccl"], "gloo")):
            self.fails(64, [hint], *BENCH, *words)
        for words, hint in ((["--type", "byte"], "byte"), (["--algorithm", "fast"], "ring"),
                            (["--algorithm", "dissemination", "--sizes", "8"], "dissemination")):
            self.fails(78, [hint], *BENCH, *words)


class Tune(CommTest):
    def test_measures_costs_and_keeps_them(self):
        out = self.succeed("bench", "comm", "--local", "-n", "2", "--tune", variables=self.variables)
        self.assertRegex(out, r"within_latency +[\d.]+ us")
        document = json.loads(self.costs().read_text())
        self.assertIn(str(self.costs()), out)
        self.assertTrue(all(cost["value"] > 0 for cost in document["costs"].values()))
        self.assertGreater(document["costs"]["within_bandwidth"]["value"], 1e7)
        self.assertLess(document["costs"]["within_latency"]["value"], 1e-2)

    def test_choices_follow_the_costs(self):
        def chosen(**changes):
            document = json.loads(self.costs().read_text())
            for name, value in changes.items():
                document["costs"][name]["value"] = value
            self.costs().write_text(json.dumps(document))
            return self.read(*BENCH, "--sizes", "512")["points"][0]["distdl"]["algorithm"]
        self.succeed("bench", "comm", "--local", "-n", "2", "--tune", variables=self.variables)
        self.assertEqual(chosen(signal=1e-7, share=1e12, step=1e-9), "shared_short")
        self.assertEqual(chosen(share=1e3), "shared_direct")

    def test_warns_of_a_damaged_file_and_goes_on(self):
        self.succeed("bench", "comm", "--local", "-n", "2", "--tune", variables=self.variables)
        self.costs().write_text("{")
        code, _, err = self.distdl(*BENCH, "--sizes", "8", variables=self.variables)
        self.assertEqual(code, 0)
        self.assertEqual(err.count(str(self.costs())), 1, err)


class Fabric(CommTest):
    def test_measures_all_pairs(self):
        code, out, err = self.distdl("doctor", "--fabric", "--local", "-n", "2", "--json")
        self.assertEqual(code, 0, out + err)  # one link has no others to be slower than
        links = json.loads(out)["links"]
        self.assertEqual([link["ranks"] for link in links], [[0, 1]])
        self.assertTrue(all(link["latency_s"] > 0 and link["bytes_per_s_4m"] > 1e6 for link in links))
        code, out, _ = self.distdl("doctor", "--fabric", "--local", "-n", "3")
        self.assertIn(code, (0, 78))  # on a busy machine one may well be slow
        self.assertEqual(out.count(" node "), 3)
        self.assertEqual(code == 78, "SLOW" in out)

    def test_needs_several_ranks(self):
        self.fails(64, ["--local"], "doctor", "--fabric")


if __name__ == "__main__":
    unittest.main(verbosity=2)
