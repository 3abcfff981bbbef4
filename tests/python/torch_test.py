# SPDX-License-Identifier: Apache-2.0
"""The backend "distdl" of torch.distributed."""
import pathlib
import unittest

import environment

environment.need("torch", "numpy")
IS_NEW = environment.has_torch("2.15")
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


class Backend(environment.Case):
    def test_collectives(self):
        self.assertEqual(3, self.launch(3, PROGRAMS / "collectives.py").count("all right"))

    def test_collectives_as_older_versions_of_torch(self):
        self.assertEqual(2, self.launch(2, PROGRAMS / "collectives.py", "group").count("all right"))

    def test_data_parallel_training(self):
        self.assertEqual(1, len(set(self.told(self.launch(2, PROGRAMS / "ddp.py"), "digest"))))

    def changes(self, count, way):
        output = self.launch(count, PROGRAMS / "changes.py", way)
        self.assertEqual([str(rank) for rank in range(count)], self.told(output, "done"), output)
        return output

    @unittest.skipUnless(IS_NEW, "torch of this version has no shrink_group()")
    def test_a_group_shrinks(self):
        self.changes(3, "shrink")

    @unittest.skipUnless(IS_NEW, "torch of this version cannot reconfigure a group")
    def test_a_group_is_made_of_others(self):
        self.changes(3, "reconfigure")

    def test_an_abort_reaches_the_others(self):
        self.assertIn("the process group was aborted", self.told(self.changes(2, "abort"), "lost")[0])

    def test_a_loss_reaches_who_waits(self):
        self.assertEqual(6 if IS_NEW else 4, len(self.told(self.changes(2, "asynchronous"), "lost")))

    def test_a_loss_reaches_the_backward_pass(self):
        self.assertIn("the process group was aborted", self.told(self.changes(2, "backward"), "lost")[0])

    def test_the_exception_that_record_writes_is_the_cause(self):
        output = self.ranks(1, """
            import os, sys
            from torch.distributed.elastic.multiprocessing.errors import record
            sys.stderr = open(os.devnull, "w")
            @record
            def main():
                raise ValueError("wrong")
            main()
            """, code=79)
        self.assertIn("the program of rank 0 ended with code 1: ValueError: wrong", output)


if __name__ == "__main__":
    environment.main()
