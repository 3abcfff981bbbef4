# SPDX-License-Identifier: Apache-2.0
"""What a person sees of "distdl watch" in a terminal, and what is left of it there afterwards."""
import codecs
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from program import DISTDL, PATIENCE, ProgramTest


class Screen:
    """A terminal that knows what distdl sends: moves to a line, clearing, the other screen, the cursor."""

    def __init__(self, columns, rows):
        self.main, self.other = [""] * rows, None
        self.columns, self.rest, self.row, self.log = columns, "", 0, ""
        self.cursor, self.wraps, self.is_old = True, True, False

    @property
    def lines(self):
        return self.main if self.other is None else self.other

    def resize(self, columns, rows):
        self.columns, self.is_old, self.row = columns, True, 0  # the line of before may not be there any more
        self.main = [""] * rows
        self.other = None if self.other is None else [""] * rows

    def feed(self, text):
        self.log += text
        text = self.rest + text
        cut = text.rfind("\033")
        incomplete = cut >= 0 and not re.match(r"\033\[\??[\d;]*[A-Za-z]", text[cut:])
        self.rest, text = (text[cut:], text[:cut]) if incomplete else ("", text)
        for number, final, plain in re.findall(r"\033\[(\??[\d;]*)([A-Za-z])|([^\033]+)", text):
            if plain:
                self.lines[self.row] += plain if self.other is not None else ""
            elif final in "hl" and number.startswith("?"):
                self.set(number, final == "h")
            elif final == "H":
                self.row = min(int(number.split(";")[0] or 1), len(self.lines)) - 1
            elif (number, final) == ("2", "J"):
                self.lines[:] = [""] * len(self.lines)
                self.is_old = False
            elif (number, final) == ("2", "K"):
                self.lines[self.row] = ""
            elif final not in "mK":
                raise AssertionError(f"unknown: {number}{final}")

    def set(self, number, on):
        if number == "?1049":
            self.other = [""] * len(self.main) if on else None
        elif number == "?25":
            self.cursor = on
        elif number == "?7":
            self.wraps = on

    def text(self):
        for line in self.lines:
            assert self.is_old or len(line) <= self.columns, line  # of the size before, the rest of a screen may still come
        return "\n".join(self.lines)


class Watch(ProgramTest):
    def setUp(self):
        super().setUp()
        run = self.folder / "run"
        run.mkdir()
        now = time.time()
        (run / "journal.jsonl").write_text(f'{{"event":"started","time":{now - 100},"ranks":2,"total_steps":200}}\n'
                                           f'{{"event":"checkpoint","time":{now - 50},"step":50,"bytes":5000,"seconds":1}}\n')
        (run / "metrics.jsonl").write_text("".join(self.row(step, now - 100 + step) for step in range(1, 101)))

    @staticmethod
    def row(step, when):
        return f'{{"time":{when},"step":{step},"loss":{2 / step:.4f},"accuracy":0.5,"samples_per_s":480}}\n'

    def write_finished_run(self):
        """Whose screen is always the same, but for the time of now."""
        begin = 1600000000  # 2020-09-13 12:26:40 UTC
        run = self.folder / "run"
        (run / "journal.jsonl").write_text(
            f'{{"event":"started","time":{begin},"ranks":2,"total_steps":100}}\n'
            f'{{"event":"checkpoint","time":{begin + 50},"step":50,"bytes":5000,"seconds":1}}\n'
            f'{{"event":"finished","time":{begin + 100},"step":100}}\n')
        (run / "metrics.jsonl").write_text("".join(self.row(step, begin + step) for step in range(1, 101)))

    def sees_golden_screen(self, columns, rows):
        """DISTDL_WRITE_SCREENS=1 writes it anew."""
        file = pathlib.Path(__file__).parent / "watch" / f"terminal_{columns}x{rows}.txt"

        def shown():
            text = "\n".join(line.rstrip() for line in self.screen.lines) + "\n"
            text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<now>", text)
            return re.sub(r"\d+ (?:s|min|h \d+ min|d \d+ h) ago", "<time> ago", text)

        if "DISTDL_WRITE_SCREENS" in os.environ:
            self.see_text("finished at step 100", "q end")
            file.write_text(shown())
        golden = file.read_text()
        try:
            self.see(lambda: shown() == golden, "the golden screen")
        except AssertionError:
            self.assertEqual(shown(), golden, file)

    def open(self, *words, columns=80, rows=24, shell=False, locale="C.UTF-8"):
        """Starts distdl in a terminal, or a shell there."""
        self.leader, follower = pty.openpty()
        self.resize(columns, rows)
        self.screen = Screen(columns, rows)
        self.decoder = codecs.getincrementaldecoder("utf-8")("ignore")  # a read may end within a character
        command = ["bash", "--norc", "--noprofile", "-i"] if shell else [DISTDL, "watch", *words]
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": locale, "PS1": "ready> ", "DISTDL": str(DISTDL), "HISTFILE": "",
                       "TZ": "UTC", "XDG_STATE_HOME": str(self.folder / "state")}
        self.before = termios.tcgetattr(follower)
        self.process = subprocess.Popen(["setsid", "--ctty", "--wait", *command], cwd=self.folder, stdin=follower, stdout=follower,
                                        stderr=follower, start_new_session=True, env=environment)
        self.addCleanup(self.end, self.process)
        self.addCleanup(os.close, self.leader)
        self.follower = follower
        self.addCleanup(os.close, follower)

    def resize(self, columns, rows):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, within):
        """False if nothing was shown within so many seconds."""
        if not select.select([self.leader], [], [], within)[0]:
            return False
        self.screen.feed(self.decoder.decode(os.read(self.leader, 65536)))
        return True

    def see(self, condition, what):
        """Reads what is shown until the condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}:\n{self.screen.text()}\n{self.screen.log[-2000:]!r}")
            self.read(0.05)

    def see_text(self, *texts):
        self.see(lambda: all(text in self.screen.text() for text in texts), texts)

    def press(self, keys):
        os.write(self.leader, keys.encode())

    def is_raw(self):
        return not termios.tcgetattr(self.follower)[3] & (termios.ECHO | termios.ICANON)

    def sees_the_screen_of_before(self):
        self.see(lambda: self.screen.other is None and self.screen.cursor and self.screen.wraps, "the screen of before")

    def sees_that_all_is_as_before(self):
        self.sees_the_screen_of_before()
        self.assertEqual(termios.tcgetattr(self.follower), self.before)

    def ends_with(self, code):
        self.assertEqual(self.process.wait(PATIENCE), code)
        self.sees_that_all_is_as_before()

    def test_shows_a_run_and_what_comes_and_quits(self):
        self.open("run")
        self.see_text("step 100/200", "480 samples/s", "loss", "checkpoint  step 50", "q end", "training begins, 2 ranks")
        self.assertTrue(self.is_raw())
        self.assertFalse(self.screen.cursor)
        with open(self.folder / "run" / "metrics.jsonl", "a") as file:
            file.write(self.row(101, time.time()))
        self.see_text("step 101/200")
        self.assertIn("lost: no process holds the run folder", self.screen.text())
        (self.folder / "run" / "LOCK").touch()
        self.see_text("state       training, 2 ranks", "left, done at")
        self.resize(120, 40)
        self.screen.resize(120, 40)
        self.see(lambda: "q end" in self.screen.lines[39], "the keys in the last line")
        self.press("t")
        self.see(lambda: "── timeline" in self.screen.text() and "── nodes" not in self.screen.text(), "only the timeline")
        self.press("\033")
        self.see_text("── nodes")
        self.press("q")
        self.ends_with(0)

    def test_fills_a_terminal_of_any_size_also_after_it_has_changed(self):
        self.write_finished_run()
        self.open("run")
        self.sees_golden_screen(80, 24)
        for columns, rows in ((120, 40), (40, 12), (80, 24)):
            while self.read(0):  # of the size before
                pass
            self.screen.resize(columns, rows)
            self.resize(columns, rows)
            if (columns, rows) != (40, 12):
                self.sees_golden_screen(columns, rows)
                continue
            self.see(lambda: self.screen.lines[1] == "state       finished: all steps are don…", "lines that are cut")
            self.see(lambda: self.screen.lines[11].startswith("q end"), "the keys in the last line")
        self.press("q")
        self.ends_with(0)

    def test_stops_goes_on_and_gives_the_terminal_back_to_a_shell(self):
        self.open(shell=True)
        self.see(lambda: "ready> " in self.screen.log, "a prompt")
        self.press('"$DISTDL" watch run\n')
        self.see(lambda: self.screen.other is not None, "the other screen")
        self.see_text("step 100/200")
        self.press("\x1a")
        self.see(lambda: "Stopped" in self.screen.log and self.screen.log.rstrip().endswith("ready>"), "a prompt")
        self.sees_the_screen_of_before()  # the shell has its own modes at a prompt
        self.press("fg\n")
        self.see(lambda: self.screen.other is not None, "the other screen")
        self.see_text("step 100/200")
        self.press("\x03")
        self.see(lambda: self.screen.log.rstrip().endswith("ready>"), "a prompt")
        self.sees_the_screen_of_before()
        self.press("exit $?\n")
        self.assertEqual(self.process.wait(PATIENCE), 130)

    def test_gives_the_terminal_back_when_a_signal_ends_it(self):
        self.open("run")
        self.see_text("step 100/200")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.sees_that_all_is_as_before()

    def test_is_ascii_without_utf8(self):
        self.open("run", locale="C")
        self.see_text("step 100/200", "-- timeline", "q end")
        self.assertTrue(self.screen.log.isascii())
        self.press("q")
        self.ends_with(0)

    def test_shows_a_run_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        self.folder.chmod(0o755)
        for path in DISTDL.parents:
            if not path.stat().st_mode & 0o001:
                self.skipTest(f"another user cannot reach the program: {path}")
        other = {"user": 65534, "group": 65534, "extra_groups": []}
        self.assertIn("step        100 of 200 (50%)", self.succeed("watch", "--once", "run", **other))
        (self.folder / "run").chmod(0o700)
        self.fails(74, ["run", "Permission denied"], "watch", "run", **other)

    def test_shows_several_runs_and_opens_one(self):
        (self.folder / "done").mkdir()
        (self.folder / "done" / "journal.jsonl").write_text('{"event":"started","time":5,"ranks":1,"total_steps":9}\n{"event":"finished","time":9,"step":9}\n')
        self.open("run", "done")
        self.see_text("2 runs", "> run", "finished")
        self.press("\033[B\r")
        self.see_text("state       finished", "step 9/9", "finished at step 9")
        self.press("b")
        self.see_text("> done")
        self.press("q")
        self.ends_with(0)

    def test_is_plain_text_where_there_is_no_terminal(self):
        out = self.succeed("watch", "run")
        self.assertNotIn("\033", out)
        for text in ("step        100 of 200 (50%)", "speed       480 samples/s", "goodput     "):
            self.assertIn(text, out)
        self.open("--once", "run")
        self.see(lambda: "goodput     " in self.screen.log, "plain text")
        self.assertNotIn("\033", self.screen.log)
        self.ends_with(0)

    def test_names_a_run_that_is_not_there(self):
        self.fails(3, ["there is no run \"none\"", "distdl ls"], "watch", "run", "none")
        (self.folder / "empty").mkdir()
        self.fails(3, ["\"empty\" is of no run"], "watch", "empty")
        self.fails(64, ["--twice"], "watch", "run", "--twice")


if __name__ == "__main__":
    unittest.main(verbosity=2)
