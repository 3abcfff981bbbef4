# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, freeze, or lose their folder to another run: the others end soon and say why, nothing is lost."""
import contextlib
import os
import pathlib
import signal
import socket
import struct
import time
import unittest

from program import ENDLESS, OTHERS_END, SLOW, ProgramTest, error_lines, wait_until


# Each layer is a bucket, and all messages go through the network.
OVERLAP = ["--set", "parallel.bucket_mib=1e-6", "--set", "comm.shared_memory_ranks=1"]


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def listening(pid):
    """Addresses and ports at which a process takes connections, as /proc tells."""
    sockets = {os.readlink(name) for name in pathlib.Path(f"/proc/{pid}/fd").iterdir() if name.is_symlink()}
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    places = [row[1].split(":") for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return [(socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16)) for address, port in places]


class LostRanks(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make_set()

    def running(self, ranks, *more):
        run = self.start(*self.run_local(ranks, *ENDLESS, *more))
        self.wait_for_checkpoint()
        return run, self.ranks_of(run)

    def ends(self, run, started, code, about, within=OTHERS_END):
        got, out, err = self.finish(run, within)
        self.assertLess(time.monotonic() - started, within)
        self.assertEqual(got, code, err)
        primary = [line for line in error_lines(err) if " rank=" in line]
        verdicts = [line for line in error_lines(err) if "the ranks ended with code" in line]
        self.assertEqual((len(primary), len(verdicts)), (1, 1), err)
        self.assertEqual(len(error_lines(err)), 2, err)
        for text in about:
            self.assertIn(text, primary[0])
        self.assertIn("run/logs", verdicts[0])
        self.verify()
        return primary[0]

    def kill(self, rank, *more):
        run, pids = self.running(3, *more)
        started = time.monotonic()
        os.kill(pids[rank], signal.SIGKILL)
        error = self.ends(run, started, 128 + signal.SIGKILL, [f"rank {rank}"])
        death = rf"rank {rank} .*ended \(pid {pids[rank]}\)"
        if more or "tcp" in os.environ.get("UCX_TLS", ""):  # where the broken connection may be seen before the ended process
            death = rf"({death}|rank {rank} .*failed .*its process or its node died)"
        self.assertRegex(error, death)
        log = self.log()
        for other in {0, 1, 2} - {rank}:  # each of the others says in its log why it ends
            self.assertRegex(log, rf"error host=\S+ rank={other} .*{death}")

    def test_a_killed_rank(self):
        self.kill(1)

    def test_the_first_rank_killed(self):
        self.kill(0)

    def test_a_rank_killed_while_buckets_of_gradients_are_summed(self):
        self.kill(1, *OVERLAP)

    def test_a_rank_frozen_while_buckets_of_gradients_are_summed(self):
        self.freeze(*OVERLAP)

    def test_a_frozen_rank(self):
        self.freeze()

    def test_a_frozen_rank_is_found_within_five_seconds_by_default(self):
        run, pids = self.running(2, "--set", "run.relaunches=1")
        frozen = time.time()
        os.kill(pids[1], signal.SIGSTOP)
        events = lambda name: [row for row in self.rows("journal.jsonl") if row["event"] == name]
        wait_until(lambda: len(events("started")) == 2, "a second start")
        ended, = events("launch_ended")
        print(f"a frozen rank: found after {ended['time'] - frozen:.1f} s, training again after {events('started')[1]['time'] - frozen:.1f} s")
        self.assertRegex(ended["cause"], rf"^rank 1 was frozen: a signal has stopped its process {pids[1]} for [\d.]+ s$")
        self.assertLess(ended["time"] - frozen, 5)
        run.terminate()
        self.assertEqual(self.finish(run)[0], 75)

    def freeze(self, *more):
        run, pids = self.running(3, "--set", "comm.timeout_seconds=2", "--set", "run.grace_seconds=2",
                                "--set", "run.rank_frozen_seconds=60", *more)  # the ranks themselves find it
        started = time.monotonic()
        os.kill(pids[1], signal.SIGSTOP)
        self.ends(run, started, 69, ["rank 1", "does not answer"])
        self.assertFalse(os.path.exists(f"/proc/{pids[1]}"), "the frozen rank is left behind")

    def test_after_a_relaunch_the_result_is_the_same(self):
        job = ["--set", "model.hidden=[256, 256]", "--set", "kernels.backend=reference", "--set", "train.epochs=12"]
        self.succeed(*self.run_local(2, *job, "--set", "run.dir=whole"))
        for name, parallel in {"sharded": ["parallel.strategy=sharded"], "pipeline": ["parallel.pipeline_ranks=3"]}.items():
            more = [word for key in [*parallel, "run.relaunches=1", f"run.dir={name}"] for word in ("--set", key)]
            run = self.start(*self.run_local(3, *job, *more, *OVERLAP))
            self.wait_for_checkpoint(name)
            os.kill(self.ranks_of(run)[1], signal.SIGKILL)
            code, _, err = self.finish(run)
            self.assertEqual(code, 0, err)
            self.assertRegex(err, r"relaunching .* the newest checkpoint is that of step \d+0")
            self.assertEqual(self.digest(name), self.digest("whole"), name)
        stages = [*job, "--set", "parallel.pipeline_ranks=3"]
        self.fails(78, ["2 ranks do not divide into pipelines of 3", "the nearest possible number is 2"],
                   *self.run_local(2, *stages, "--set", "run.dir=new"))
        self.succeed(*self.run_local(2, *stages, "--set", "run.dir=pipeline"))  # a run that has trained goes on

    def test_a_frozen_rank_and_a_stop_of_stages_of_tensor_ranks_change_no_byte(self):
        vit = {"model.name": "vit", "model.layers": 2, "model.width": 16, "model.heads": 4, "model.patch": 6, "model.dropout": 0.1,
               "parallel.tensor_shards": 4, "train.steps": 500, "run.relaunches": 1}
        product = {"parallel.tensor_ranks": 2, "parallel.pipeline_ranks": 2, "comm.timeout_seconds": 3, "run.grace_seconds": 2}
        words = lambda keys: [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        self.succeed(*self.run_local(1, *words({**vit, "run.dir": "whole"})))
        command = self.run_local(4, *words({**vit, **product}))
        run = self.start(*command)
        self.wait_for_checkpoint()
        os.kill(self.ranks_of(run)[2], signal.SIGSTOP)
        started = lambda: [row for row in self.rows("journal.jsonl") if row["event"] == "started"]
        wait_until(lambda: len(started()) == 2 and self.rows("metrics.jsonl")[-1]["time"] > started()[1]["time"], "steps of a second start")
        run.send_signal(signal.SIGTERM)
        code, _, err = self.finish(run)
        self.assertEqual(code, 75, err)
        self.assertIn("relaunching", err)
        self.succeed(*command)
        self.assertEqual([row["ranks"] for row in started()], [4, 4, 4])
        self.assertTrue(all(0 < row["resumed_from"] < 500 for row in started()[1:]), started())
        self.assertEqual(self.digest(), self.digest("whole"))

    def test_a_killed_worker_trains_again_within_three_seconds(self):
        """Or, on a slow machine, within three times the time of a start."""

        def first_step_after(began, starts):
            def trains():
                all_starts = [row for row in self.rows("journal.jsonl") if row["event"] == "started"]
                steps = self.rows("metrics.jsonl")
                return len(all_starts) > starts and steps and steps[-1]["time"] > all_starts[-1]["time"]
            wait_until(trains, f"steps after start {starts + 1}")
            return time.monotonic() - began

        began = time.monotonic()
        run = self.start(*self.run_local(3, *ENDLESS, "--set", "run.relaunches=3"))
        first = first_step_after(began, 0)
        self.wait_for_checkpoint()
        for start, rank in enumerate((1, 0), start=1):
            pids = self.ranks_of(run)
            began = time.monotonic()
            os.kill(pids[rank], signal.SIGKILL)
            taken = first_step_after(began, start)
            print(f"start {first:.2f} s, rank {rank} killed: training again after {taken:.2f} s", flush=True)
            self.assertLess(taken, max(3, 3 * first))
            self.assertIsNone(run.poll())

    def test_a_killed_worker_of_a_parameter_server_costs_its_microbatch(self):
        """In a round that is the whole run: without what its end keeps, the second start would begin at step 0."""
        steps, microbatches, servers = 300, 6, 2
        keys = {"train.steps": steps, "train.evaluate_every": 0, "checkpoint.every": 0, "run.relaunches": 1,
                "parallel.strategy": "parameter_server", "parallel.server_mode": "asynchronous", "parallel.server_steps": steps,
                "parallel.server_partners": "true", "cluster.ps.placement": "own", "cluster.ps.tasks": servers}
        run = self.start(*self.run_local(4, *SLOW, *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))))
        started = lambda: [row for row in self.rows("journal.jsonl") if row["event"] == "started"]
        wait_until(started, "the start")
        time.sleep(0.5)  # nobody tells of steps within a round
        os.kill(self.ranks_of(run)[1], signal.SIGKILL)
        code, _, err = self.finish(run)
        self.assertEqual(code, 0, err)
        self.assertIn("is lost: the round goes on without it", self.log())
        second = started()[1]
        self.assertTrue(0 < second["resumed_from"] < steps, second)
        self.assertIn("what servers and their partners kept", second["resumed_source"])
        rows = [row for row in self.rows("metrics.jsonl") if "staleness" in row]
        updates = sum(sum(row["staleness"]) for row in rows)
        self.assertEqual(updates, (steps - second["resumed_from"]) * microbatches * servers)
        self.verify()

    def test_two_failed_starts_from_the_same_step_go_back_by_one_checkpoint(self):
        job = ["--set", "model.hidden=[256, 256]", "--set", "kernels.backend=reference", "--set", "train.epochs=80",
               "--set", "checkpoint.every=300"]
        run = self.start(*self.run_local(2, *job, "--set", "run.relaunches=3"))

        def told(event):
            return [row for row in self.rows("journal.jsonl") if row["event"] == event]

        wait_until(lambda: len(told("checkpoint")) == 2, "two checkpoints")
        for start in (1, 2, 3):
            wait_until(lambda: len(told("started")) == start, f"start {start}")
            os.kill(self.ranks_of(run)[1], signal.SIGKILL)
        code, _, err = self.finish(run)
        self.assertEqual(code, 0, err)
        self.assertEqual([row.get("resumed_from") for row in told("started")], [None, 600, 600, 300])
        self.assertIn("two starts from step 600 have failed, so the next one starts from the checkpoint of step 300", err)
        self.succeed(*self.run_local(2, *job, "--set", "run.dir=whole"))
        self.assertEqual(self.digest(), self.digest("whole"))

    def test_packets_that_make_ucx_abort_cost_no_tries_and_reach_no_port_from_elsewhere(self):
        """DISTDL_ROGUE_PACKETS=100 for as many."""
        job = ["--set", "checkpoint.every=1000000", "--set", "run.relaunches=2"]
        run = self.start(*self.run_local(2, *ENDLESS, *job), variables={"UCX_HANDLE_ERRORS": "none"})  # no slow backtrace

        def newest_step():
            rows = self.rows("metrics.jsonl")
            return rows[-1]["step"] if rows else 0

        def wait_for_another_step():
            before = newest_step()  # losses at the same step again are the run's own

            def comes():
                return newest_step() != before and newest_step() > (before if before < 30 else 0)
            wait_until(lambda: run.poll() is not None or comes(), f"another step than {before}")
            self.assertIsNone(run.poll(), run.stderr_file.read_text())

        for _ in range(int(os.environ.get("DISTDL_ROGUE_PACKETS", "4"))):
            wait_for_another_step()
            pids = self.ranks_of(run)
            ports = [port for pid in pids for port in listening(pid)]
            self.assertEqual({address for address, _ in ports} - {"127.0.0.1"}, set())
            if not ports:
                self.skipTest("these ranks listen nowhere")
            with contextlib.ExitStack() as open_ones:  # a rank reads from that of its saves only when it saves
                connections = [open_ones.enter_context(socket.create_connection(port, timeout=10)) for port in ports]
                for connection in connections:
                    with contextlib.suppress(ConnectionError):  # that rank may be gone already
                        connection.sendall(struct.pack("<QBI", 0xCAFEBABE12345678, 0, 0xFFFFFFFF))  # of UCX 1.13 over TCP
                wait_until(lambda: not any(map(lives, pids)), "the end of the ranks")
        wait_for_another_step()
        run.send_signal(signal.SIGTERM)
        code, _, err = self.finish(run)
        self.assertEqual(code, 75, err)
        saved = next(row["step"] for row in reversed(self.rows("journal.jsonl")) if row["event"] == "stopped")
        whole = self.start(*self.run_local(2, *ENDLESS, "--set", f"checkpoint.every={saved}",
                                           "--set", "checkpoint.keep=1000", "--set", "run.dir=whole"))
        self.wait_for_checkpoint("whole")
        whole.kill()
        self.assertEqual(self.digest(), self.digest(f"whole/checkpoints/step-{saved:012}"))

    def test_a_dead_supervisor_takes_its_ranks_along(self):
        run, pids = self.running(2, "--set", "run.relaunches=1")
        run.kill()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "the end of the ranks")
        self.verify()

    def saves(self):
        return len([row for row in self.rows("journal.jsonl") if row["event"] == "checkpoint"])

    def test_a_second_start_is_refused_unless_it_takes_over_or_the_first_is_gone(self):
        first, _ = self.running(2, "--set", "run.relaunches=3")
        self.fails(73, [f"host {os.uname().nodename}, pid {first.pid}, no job, since 20", "--take-over"],
                   *self.run_local(2, *ENDLESS))
        before = self.saves()
        wait_until(lambda: self.saves() > before + 1, "saves of the first run, undisturbed")
        second = self.start(*self.run_local(2, *ENDLESS, "--take-over"))
        code, _, err = self.finish(first)
        self.assertEqual(code, 73, err)
        self.assertNotIn("relaunching", err)
        before = self.saves()
        wait_until(lambda: self.saves() > before + 1, "a save of the second run")
        second.kill()  # and not waited for: a zombie
        third = self.start(*self.run_local(2, *ENDLESS))
        before = self.saves()
        wait_until(lambda: self.saves() > before + 1, "a save of the third run")
        third.terminate()
        code, _, err = self.finish(third)
        self.assertEqual(code, 75, err)
        self.assertFalse((self.folder / "run/LOCK").exists())
        self.verify()


if __name__ == "__main__":
    unittest.main(verbosity=2)
