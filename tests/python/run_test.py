# SPDX-License-Identifier: Apache-2.0
"""distdl.run, distdl.metrics, the communicator and fixed sums."""
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest

import environment

environment.need("numpy")
import distdl  # noqa: E402
from distdl import _library  # noqa: E402


class Run(environment.Case):
    def test_a_program_without_distdl_run_is_never_to_stop(self):
        program = self.write("alone.py", """
            import distdl
            distdl.metrics.log(loss=1)
            distdl.run.progress(1, 2)
            distdl.run.saved(1)
            distdl.run.finished()
            print(distdl.run.should_stop(), distdl.run.rank(), distdl.run.world_size(), distdl.run.seconds_left())
            """)
        told = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True,
                              env={**os.environ, "DISTDL_LIBRARY": "/nonexistent"})
        self.assertEqual("False 0 1 None\n", told.stdout)

    def test_a_library_that_is_missing_is_named(self):
        told = subprocess.run([sys.executable, "-c", "import distdl; distdl.Communicator()"], capture_output=True, text=True,
                              env={**os.environ, "DISTDL_LIBRARY": "/nonexistent/libdistdl.so"})
        self.assertIn("cannot load libdistdl.so.0.2 (/nonexistent/libdistdl.so", told.stderr)
        self.assertIn("set DISTDL_LIBRARY", told.stderr)

    def test_a_library_of_another_version_is_refused(self):
        shutil.copytree(environment.PACKAGE / "distdl", self.folder / "distdl")
        (self.folder / "distdl/_version.py").write_text('VERSION = "0.99.1"\n')
        told = subprocess.run([sys.executable, "-c", "import distdl; distdl.Communicator()"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(self.folder)})
        self.assertRegex(told.stderr, r"LibraryNotFound: .*libdistdl\.so.* is of distdl [\d.]+, this Python package of distdl 0\.99\.1: install")

    def test_progress_reaches_the_records(self):
        output = self.ranks(2, """
            import distdl
            for step in range(1, 4):
                distdl.metrics.log(loss=step)
                distdl.metrics.log(loss=step + 1)
                distdl.run.progress(step, 3, accuracy=0.5)
            distdl.run.finished()
            print("ranks", distdl.run.rank(), distdl.run.world_size(), distdl.run.start(), distdl.run.folder().name)
            """)
        self.assertEqual(["0 2 1 run", "1 2 1 run"], self.told(output, "ranks"))
        steps = [(row["step"], row["loss"], row["accuracy"]) for row in self.rows("metrics.jsonl") if "loss" in row]
        self.assertEqual([(1, 1.5, 0.5), (2, 2.5, 0.5), (3, 3.5, 0.5)], steps)

    def test_all_ranks_stop_at_the_same_step(self):
        program = self.write("stops.py", """
            import time, distdl
            for step in range(1, 100000):
                distdl.run.progress(step, 100000)
                if step == 5 and distdl.run.rank() == 0:
                    (distdl.run.folder() / "STOP").touch()
                if distdl.run.should_stop():
                    distdl.run.saved(step)
                    print("stopped", step)
                    distdl.run.requeue()
                time.sleep(0.01)
            """)
        output = self.launch(2, program, code=76)
        self.assertEqual(2, len(self.told(output, "stopped")), output)
        self.assertEqual(1, len(set(self.told(output, "stopped"))), output)


class Ranks(environment.Case):
    def test_signals_of_slurm_do_not_end_a_program_that_asks(self):
        """As Slurm sends to all processes of a job step. Children that it forks end by them."""
        output = self.ranks(1, """
            import os, signal, subprocess, sys, time
            import distdl
            distdl.run.should_stop()
            for name in ("USR1", "USR2", "TERM"):
                subprocess.run(["kill", f"-{name}", str(os.getpid())], check=True)
            child = os.fork()
            if child == 0:
                time.sleep(100)
            subprocess.run(["kill", "-TERM", str(child)], check=True)
            print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            distdl.run.finished()
            """)
        self.assertEqual(["-15"], self.told(output, "child"))

    def test_collectives_of_arrays(self):
        output = self.ranks(3, """
            import distdl, numpy as np
            with distdl.Communicator({"timeout_seconds": 20}) as comm:
                x = np.full((2, 3), comm.rank + 1.0)
                comm.all_reduce(x)
                assert (x == 6).all()
                comm.all_reduce(x, "average")
                assert (x == 6).all()
                flags = np.array([comm.rank == 1, True])
                comm.broadcast(flags, root=1)
                assert flags.all()
                all_ = np.empty((3, 2), "i2")
                comm.all_gather(np.full(2, comm.rank, "i2"), all_)
                assert all_[:, 1].tolist() == [0, 1, 2]
                assert comm.all_gather_bytes(b"x" * comm.rank) == [b"", b"x", b"xx"]
                if comm.rank == 0:
                    comm.send(x, to=2, tag=5)
                elif comm.rank == 2:
                    y = np.empty_like(x)
                    comm.receive(y, source=0, tag=5, wait=False).wait()
                    assert (y == x).all()
                if comm.rank == 1:
                    assert {comm.receive_any(y := np.empty(3), tag=6) for _ in range(2)} == {0, 2} and (y == 7).all()
                else:
                    comm.send(np.full(3, 7.0), to=1, tag=6)
                flags = np.array([comm.rank == 1, False])
                comm.all_reduce(flags)
                assert flags.tolist() == [True, False]
                waves = np.full(2, 1 + 1j * comm.rank, "c8")
                comm.all_reduce(waves)
                assert (waves == 3 + 3j).all()
                part = comm.split(comm.rank % 2)
                print("part", comm.rank, part.rank, part.size)
                part.close()
            """)
        self.assertEqual(["0 0 2", "1 0 1", "2 1 2"], self.told(output, "part"))

    def test_a_fixed_sum_has_the_same_bits_on_any_number_of_ranks(self):
        digests = set()
        for count in (1, 2, 3):
            output = self.ranks(count, """
                import distdl, hashlib, numpy as np
                with distdl.Communicator() as comm:
                    total = distdl.FixedSum(1000, "float32", leaves=8, average=True, comm=comm)
                    result = np.empty(1000, "f4")
                    for step in range(2):
                        for leaf in total.leaves:
                            total.add(np.random.default_rng([step, leaf]).standard_normal(1000, "f4"))
                        total.all_reduce(result)
                    total.close()
                print("digest", hashlib.sha256(result).hexdigest())
                """, run=f"run-{count}")
            digests |= set(self.told(output, "digest"))
        self.assertEqual(1, len(digests))

    def test_wrong_arrays_are_refused(self):
        import numpy
        with distdl.Communicator() as comm:
            for values, text in (([1.0], "NumPy array"), (numpy.zeros((4, 4))[:, 0], "contiguous"),
                                 (numpy.zeros(2, ">f4"), "native"), (numpy.zeros(2, "u2"), "cannot be reduced"),
                                 (numpy.zeros(2, "U3"), "<U3")):
                with self.assertRaisesRegex(TypeError, text):
                    comm.all_reduce(values)
            with self.assertRaises(distdl.Misuse):
                comm.broadcast(numpy.zeros(1), root=3)

    def test_ranks_meet_by_an_exchange_of_the_caller(self):
        board, arrival, told = [b"", b""], threading.Barrier(2), []

        def rank(number):
            def exchange(mine):
                board[number] = mine
                arrival.wait(60)
                all_ = list(board)
                arrival.wait(60)
                return all_

            with distdl.Communicator.of_exchange(exchange, number, 2) as comm:
                told.append(comm.all_gather_bytes(str(comm.rank).encode()))

        threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(environment.PATIENCE)
        self.assertEqual([[b"0", b"1"]] * 2, told)
        with self.assertRaisesRegex(ZeroDivisionError, "by zero"):
            distdl.Communicator.of_exchange(lambda mine: 1 / 0, 0, 2)

    def test_a_lost_rank_is_an_error_of_the_others(self):
        meeting, errors = self.folder / "meeting", []
        meeting.mkdir()

        def stay():
            with distdl.Communicator.of_folder(meeting, "lost", 0, 2) as comm:
                try:
                    comm.barrier()
                except distdl.PeerLost as error:
                    errors.append(str(error))

        thread = threading.Thread(target=stay)
        thread.start()
        leaver = distdl.Communicator.of_folder(meeting, "lost", 1, 2)
        leaver.abort("had enough")
        thread.join(environment.PATIENCE)
        leaver.close()
        self.assertIn("had enough", errors[0])


if __name__ == "__main__":
    environment.main()
