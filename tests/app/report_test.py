# SPDX-License-Identifier: Apache-2.0
"""What "distdl report" writes about real runs, and what a browser makes of it."""
import json
import re
import unittest

from browser import CHROMIUM, Browser
from program import SLOW, ProgramTest, signal

OTHER = "other<img src=x onerror=hacked=1>"


def data_in(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def setUpModule():
    """A run that was stopped and went on, a second one, and their report."""
    global made, shown, page
    made = ProgramTest()
    made.setUp()
    unittest.addModuleCleanup(made.doCleanups)
    made.make_set()
    keys = [*SLOW, "--set", "train.epochs=12"]
    first = made.start(*made.run_local(2, *keys))
    made.wait_for_checkpoint()
    first.send_signal(signal.SIGTERM)
    assert made.finish(first)[0] == 75
    made.succeed(*made.run_local(2, *keys))
    made.succeed(*made.run_local(1, "--set", f"run.dir={OTHER}", "--set", "train.epochs=2"))
    shown = made.succeed("report", "run", OTHER, "-o", "both.html")
    page = (made.folder / "both.html").read_text()


class Report(ProgramTest):
    def setUp(self):
        self.folder = made.folder

    def test_tells_what_the_other_commands_tell(self):
        data = data_in(page)
        self.assertRegex(shown, r"^both.html: 2 runs, \d\.\d MiB")
        run, other = data["runs"]
        status = json.loads(self.succeed("status", "run", "--goodput", "--json"))
        self.assertEqual([each["cause"] for each in run["status"]["restarts"]], [each["cause"] for each in status["restarts"]])
        self.assertIn("signal SIGTERM", run["status"]["restarts"][0]["cause"])
        for bucket in data["buckets"]:
            self.assertAlmostEqual(run["ledger"]["seconds"][bucket["name"]], status["ledger"]["seconds"][bucket["name"]], 3)
        self.assertAlmostEqual(sum(run["ledger"]["seconds"].values()), run["ledger"]["wall_seconds"], delta=0.01 * run["ledger"]["wall_seconds"])
        compared = json.loads(self.succeed("compare", "run", OTHER, "--json"))
        self.assertEqual(data["differences"], compared["job"])
        self.assertEqual(run["job"], (self.folder / "run" / "job.toml").read_text())
        environment = dict(run["environment"])
        self.assertEqual(environment["distdl"], json.loads(self.succeed("version", "--json"))["version"])
        self.assertRegex(environment["digest of the data set"], r"^\w+")
        self.assertEqual(other["name"], OTHER)

    def test_wrong_names_are_errors(self):
        self.fails(3, ["nothing"], "report", "nothing", "-o", "x.html")
        self.fails(74, ["run", "a regular file"], "report", "run", "-o", "run")
        self.fails(74, ["missing"], "report", "run", "-o", "missing/x.html")

    def test_the_newest_run_is_the_default(self):
        self.assertRegex(self.succeed("report"), r"^report.html: 1 run,")
        self.assertTrue((self.folder / "report.html").exists())


@unittest.skipUnless(CHROMIUM, "chromium is not installed")
class InABrowser(ProgramTest):
    """With the plotting library, if distdl was built with one, and without."""

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.folder = made.folder

    def show(self, text):
        file = self.folder / "shown.html"
        file.write_text(text)
        self.browser.problems, self.browser.requests = [], []
        self.browser.be_dark(False)
        self.browser.open(file)
        return file

    def is_clean(self, file):
        self.assertEqual(self.browser.problems, [])
        self.assertEqual(self.browser.requests, [f"file://{file}"], "no request leaves the file")
        self.assertEqual(self.browser.value("typeof hacked"), "undefined")
        self.assertEqual(self.browser.value("document.images.length"), 0)

    def zooms(self):
        """A drag in the first chart, and a double click: all charts follow."""
        def steps():
            return [self.browser.value(f"document.querySelectorAll('.controls input')[{i}].value") for i in (0, 1)]
        place = "document.querySelector('.plot').getBoundingClientRect()"
        self.browser.value("document.querySelector('.plot').scrollIntoView()")
        left, right, y = (self.browser.value(f"{place}.{what}") for what in ("left", "right", "top"))
        before = self.look()
        self.browser.drag((left + 150, y + 60), (right - 60, y + 60))
        first, last = map(int, steps())
        self.assertLess(first, last)
        self.assertGreater(first, 0)
        zoomed = self.look()
        self.assertTrue(all(old != new for old, new in zip(before, zoomed)), "all charts were drawn anew")
        self.browser.double_click((left + right) / 2, y + 60)
        self.assertEqual(steps(), ["", ""])
        self.assertEqual(self.look(), before)

    def look(self):
        """How the charts of the curves that both runs have look."""
        return self.browser.value("[...document.querySelectorAll('.plot')].slice(0, 3)"
                                  ".map((plot) => plot.querySelector('canvas')?.toDataURL() ?? plot.innerHTML)")

    def test_shows_curves_and_tables(self):
        file = self.show(page)
        self.assertGreaterEqual(self.browser.value("document.querySelectorAll('.plot canvas, .plot svg').length"), 4)
        text = self.browser.value("document.body.innerText")
        for part in ("Where the time went", "Ranks", "signal SIGTERM", "train.epochs", "wall time", "distdl checkpoint digest", OTHER):
            self.assertIn(part, text)
        self.zooms()
        self.is_clean(file)

    def test_draws_by_itself_without_the_library(self):
        scripts = page.split("<script>")
        file = self.show("<script>".join([scripts[0], scripts[-1]]))
        self.assertGreaterEqual(self.browser.value("document.querySelectorAll('.plot svg').length"), 4)
        self.zooms()
        self.is_clean(file)

    def test_has_dark_colours(self):
        file = self.show(page)
        light, colour = self.look(), self.browser.value("getComputedStyle(document.body).backgroundColor")
        self.browser.be_dark(True)
        self.assertNotEqual(self.browser.value("getComputedStyle(document.body).backgroundColor"), colour)
        if self.browser.value("typeof Dygraph") != "undefined":
            self.assertNotEqual(self.look(), light)
        self.is_clean(file)

    def test_switches_and_numbers_change_the_charts(self):
        file = self.show(page)
        before = self.look()
        self.browser.value("document.querySelector('.chart input').click()")
        self.assertNotEqual(self.look()[0], before[0])
        self.browser.value("{ const mean = document.querySelectorAll('.controls input')[2]; mean.value = 9; mean.onchange(); }")
        self.assertNotEqual(self.look()[2], before[2])
        self.is_clean(file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
