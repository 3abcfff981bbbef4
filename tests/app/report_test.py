# SPDX-License-Identifier: Apache-2.0
"""What "distdl report" writes about real runs, and what a browser makes of it."""
import json
import os
import pathlib
import re
import time
import unittest

from browser import CHROMIUM, Browser
from program import SLOW, ProgramTest, signal

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = 600  # seconds: CTest's limit is what ends a run that hangs
OTHER = "other<img src=x onerror=hacked=1>"


def data_in(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def train_through_faults(test):
    """Three preemptions, and a killed rank after each of the first two, in each sixth of the run."""
    steps = 1200
    job = test.run_local(2, *SLOW, "--set", f"train.steps={steps}", "--set", "run.relaunches=2", "--set", "log.trace=5:9")

    def wait_for_part(run, number, file, event=None):
        """As long as the run goes on: on a busy machine that takes minutes."""
        while not any(row.get("event") == event and row["step"] >= number * steps // 6 for row in test.rows(file)):
            assert run.poll() is None, run.stderr_file.read_text()
            time.sleep(0.02)

    for number in (1, 3, 5):
        run = test.start(*job)
        if number > 1:
            wait_for_part(run, number - 1, "journal.jsonl", "checkpoint")  # from which few steps are done again
            os.kill(test.ranks_of(run)[1], signal.SIGKILL)
        wait_for_part(run, number, "metrics.jsonl")
        run.send_signal(signal.SIGTERM)
        code, _, err = test.finish(run, within=LONG)
        assert code == 75, err
    code, _, err = test.finish(test.start(*job), within=LONG)
    assert code == 0, err


def with_even_times(rows):
    """The rows of a run, by file, as if each of its steps took a second, and each of its starts with the steps that it repeats fifteen."""
    start, others = 15, 0.01
    merged = sorted((row["time"], name != "journal.jsonl", number) for name, of_file in rows.items() for number, row in enumerate(of_file))
    even, now, step = {name: list(of_file) for name, of_file in rows.items()}, merged[0][0], None
    for _, is_metrics, number in merged:
        name = "metrics.jsonl" if is_metrics else "journal.jsonl"
        row = rows[name][number]
        if row.get("event") == "started":
            now, step = now + max(others, start - row.get("steps_repeated", 0)), row.get("resumed_from", 0)
        elif is_metrics:
            now, step = now + row["step"] - step, row["step"]
        else:
            now += others
        even[name][number] = {**row, "time": now, "stall_seconds": 0}
    return even


def setUpModule():
    """A run that was preempted and lost ranks, a second one, and their report."""
    global made, shown, page
    made = ProgramTest()
    made.setUp()
    unittest.addModuleCleanup(made.doCleanups)
    made.make_set()
    train_through_faults(made)
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
        for mine, theirs in zip(run["ledger"]["causes"], status["ledger"]["causes"], strict=True):
            self.assertEqual((mine["cause_code"], mine["count"]), (theirs["cause_code"], theirs["count"]))
            self.assertAlmostEqual(mine["seconds"], theirs["seconds"], 3)
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

    def test_all_views_tell_the_story_of_the_journal(self):
        restarts, cause, stops = [], None, 0
        for row in self.rows("journal.jsonl"):
            if row["event"] == "started" and cause:
                restarts.append((*cause, row["resumed_from"], row["steps_repeated"]))
            if row["event"] == "stopped":
                cause, stops = (row["reason"], row["cause_code"]), stops + 1
            if row["event"] == "launch_ended" and row["code"] not in (0, 75):
                cause = (row["cause"], "signal")
        self.assertEqual([code for _, code, _, _ in restarts], ["stop_signal", "signal", "stop_signal", "signal", "stop_signal"])
        run = data_in(page)["runs"][0]
        self.assertEqual([tuple(each[key] for key in ("cause", "cause_code", "resumed_from", "steps_repeated"))
                          for each in run["status"]["restarts"]], restarts)
        timeline = [entry["text"] for entry in run["timeline"]]
        self.assertEqual(len([text for text in timeline if text.startswith("saved and stopped at step")]), stops)
        watched, goodput = self.succeed("watch", "--once", "run"), self.succeed("status", "run", "--verbose", "--goodput")
        for cause, code, step, again in restarts:
            self.assertTrue(any(text.startswith(f"training goes on from step {step}, 2 ranks") for text in timeline), timeline)
            for text in (watched, goodput):
                self.assertIn(f"{cause}; from step {step}, {again} steps again", text)
        lost = sum(each["lost_seconds"] for each in run["status"]["restarts"])
        self.assertAlmostEqual(lost, sum(each["seconds"] for each in run["ledger"]["causes"]), 6)
        self.assertLess(lost, run["ledger"]["wall_seconds"] * (1 - run["ledger"]["goodput"]))
        self.assertRegex(goodput, r"(?m)^stop_signal +[\d.]+ s +[\d.]+%  3 times, the last: signal SIGTERM$")
        self.assertRegex(goodput, r"(?m)^signal +[\d.]+ s +[\d.]+%  2 times, the last: rank [01] was killed by SIGKILL$")

    def time_left(self, rows, now):
        """What "distdl watch" tells at that moment, as a multiple of what was left: of the rows up to then, by a clock that makes days of its
        seconds, so that minutes tell moments apart."""
        end = next(row["time"] for row in rows["journal.jsonl"] if row["event"] == "finished")
        scale, base = 30 * 3600 / (end - now), time.time()
        for name, all_rows in rows.items():
            earlier = [{**row, "time": base + scale * (row["time"] - now), "stall_seconds": scale * row.get("stall_seconds", 0)}
                       for row in all_rows if row["time"] <= now]
            (self.folder / "earlier" / name).write_text("".join(json.dumps(row) + "\n" for row in earlier))
        told = re.search("(?m)^step .*, (.*) left", self.succeed("watch", "--once", "earlier"))[1]
        return sum(int(count) * {"d": 24, "h": 1, "min": 1 / 60}[unit] for count, unit in re.findall(r"(\d+) (d|h|min)", told)) / 30

    def test_the_time_left_after_half_of_the_run(self):
        """Within a tenth, at moments before and after faults. A machine that is busy now and then slows steps and starts, so the run's rows get the
        times of a machine on which each step and each start takes as long as the others; DISTDL_LONG=1 leaves them their own."""
        rows = {name: self.rows(name) for name in ("journal.jsonl", "metrics.jsonl")}
        if "DISTDL_LONG" not in os.environ:
            rows = with_even_times(rows)
        (self.folder / "earlier").mkdir()
        (self.folder / "earlier/LOCK").touch()
        moments = [max(row["time"] for row in rows["metrics.jsonl"] if row["step"] == step) for step in (600, 700, 790, 810, 900)]
        errors = [self.time_left(rows, now) - 1 for now in moments]
        print("errors of the time left:", ", ".join(f"{error:+.1%}" for error in errors))
        self.assertLess(max(map(abs, errors)), 0.1)

    def test_ten_questions_are_answered(self):
        """Those of docs/questions.md, each by its command, of the run with faults."""
        answers = {"distdl status run": "(?m)^state +finished(.*\n)+step +1200 of 1200(.*\n)+restarts +5",
                   "distdl status run --goodput": "(?m)^queued .*\n(.*\n)+stop_signal +[\\d.]+ s .* 3 times",
                   "distdl status run --verbose": "(?m)^compute .*FLOP(.*\n)+memory .*(.*\n)+collectives .*(.*\n)+restarts +5",
                   "distdl log run": "(?m) error host=\\S+ rank=0 .*rank 1",
                   "distdl trace run": "(?m)^Steps 5:9 on 2 ranks(.*\n)+Where the time goes",
                   "distdl compare run small": "(?m)^train.steps +1200 ",
                   "distdl checkpoint ls run": "(?m)^ *1200 ",
                   "distdl checkpoint verify run": "step-0*1200.*: ok"}
        os.symlink(OTHER, self.folder / "small")
        rows = [row.split("|")[2] for row in (ROOT / "docs/questions.md").read_text().splitlines() if row.startswith("|")]
        asked = re.findall("`(distdl [^`]*)`", "".join(rows))
        self.assertEqual((10, set(answers)), (len(rows) - 2, set(asked)))
        for command, answer in answers.items():
            with self.subTest(command=command):
                self.assertRegex(self.succeed(*command.split()[1:]), answer)

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

    def test_ranks_the_runs_of_a_sweep(self):
        """Three runs of one folder; of keys, one spans powers of ten, one has 0 among them, one is text."""
        data = data_in(page)
        data["runs"] = [{**data["runs"][0], "name": f"sweep/{name}"} for name in ("0000", "0001", "0002")]
        data["results"] = [{**row, "texts": 3 * row["texts"][:1]} for row in data["results"]]
        data["charts"] = [{**chart, "lines": [{**chart["lines"][0], "run": run} for run in range(3)]} for chart in data["charts"]]
        data["score"] = {"name": "accuracy", "is_larger_better": True, "values": [0.5, 0.875, None]}
        data["differences"] = [{"key": "optim.learning_rate", "values": ["0.0001", "0.012345678901", "0.1"]},
                               {"key": "optim.a_name_that_is_longer_than_its_room", "values": ["0", "0.0001", "0.01"]},
                               {"key": "optim.method", "values": ["adam", "sgd", None]}, {"key": "optim.momentum", "values": ["0.9", "0.95", "0.99"]}]
        body = json.dumps(data).replace("<", "\\u003c")
        file = self.show(re.sub(r'(id="data">).*?(</script>)', lambda found: found[1] + body + found[2], page, flags=re.S))
        text = self.browser.value("document.body.innerText")
        for part in ("3 runs in sweep", "The best of 3 runs: 0001, accuracy 0.875", "How the jobs differ"):
            self.assertIn(part, text)
        lines = self.browser.value("[...document.querySelectorAll('.parallel path.run')].map((line) => [line.classList.contains('best'), line.textContent])")
        self.assertEqual([best for best, _ in lines], [False, True], "a run without a result has no line; the best one lies above the others")
        self.assertIn("0001\naccuracy 0.875\noptim.learning_rate = 0.012345678901", lines[1][1])
        marks = self.browser.value("[...document.querySelectorAll('.parallel text')].map((text) => text.firstChild.textContent)")
        for mark in ("0.0001", "0.0123", "0.1", "logarithmic", "in order", "adam", "0.875", "0.5"):
            self.assertIn(mark, marks)
        self.fits()
        self.is_clean(file)

    def fits(self):
        """No text of a chart lies on another or leaves its chart, and nothing is wider than the window, of a telephone as of a desk."""
        self.addCleanup(self.browser.be_wide, 1280)
        for width in (420, 800, 1280, 1920):
            self.browser.be_wide(width)
            self.assertEqual(self.browser.overlaps(), [], f"{width} pixels")

    def test_no_text_lies_on_another(self):
        self.show(page)
        self.fits()
        self.browser.value("document.querySelector('.unit').style.marginTop = '-24px'")
        self.assertIn("overlap", " ".join(self.browser.overlaps()))
        scripts = page.split("<script>")
        self.show("<script>".join([scripts[0], scripts[-1]]))
        self.fits()

    def test_begins_with_the_verdict_and_smoothed_curves(self):
        self.show(page)
        order = self.browser.value("[...document.querySelectorAll('h1, .verdict, nav, h2')].slice(0, 4).map((node) => node.tagName)")
        self.assertEqual(order, ["H1", "P", "NAV", "H2"])
        self.assertEqual(self.browser.value("document.querySelector('h2').textContent"), "Curves by step")
        units = self.browser.value("[...document.querySelectorAll('.unit')].map((unit) => unit.textContent)")
        self.assertTrue(units and all(units), units)
        even = self.browser.value("[charts.smoothed([0, 1, 2, 3, 4], 3), charts.smoothed([1, null, 3], 3), charts.smoothed([5, 6], 1)]")
        self.assertEqual(even, [[0.5, 1, 2, 3, 3.5], [1, 2, 3], [5, 6]], "the mean does not lag, and is not made of what is no number")

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
