# SPDX-License-Identifier: Apache-2.0
"""distdl.torch.Sampler and seed_at: functions of the position alone."""
import unittest

import environment

environment.need("torch")
import torch  # noqa: E402

from distdl.torch import Sampler, seed_at  # noqa: E402


class Positions(unittest.TestCase):
    def test_ranks_have_the_samples_of_one(self):
        alone = Sampler(103, batch=3, microbatches=4, seed=1)
        parts = [Sampler(103, batch=3, microbatches=4, own=own, seed=1) for own in (range(0, 2), range(2, 3), range(3, 4))]
        several = [iter(part) for part in parts]
        whole = list(alone)
        self.assertEqual((8 * 4, 8), (len(whole), alone.steps_per_epoch))
        for step in range(8):
            self.assertEqual(whole[4 * step:4 * step + 4], [next(each) for each, part in zip(several, parts) for _ in part.own])

    def test_an_epoch_has_each_sample_once_and_the_next_another_order(self):
        sampler = Sampler(100, batch=5, microbatches=4, steps=10)
        samples = [one for batch in sampler for one in batch]
        self.assertEqual(list(range(100)), sorted(samples[:100]))
        self.assertEqual(list(range(100)), sorted(samples[100:]))
        self.assertNotEqual(samples[:100], samples[100:])

    def test_it_begins_at_any_step(self):
        whole = list(Sampler(100, batch=5, microbatches=4, steps=10))
        self.assertEqual(whole[7 * 4:], list(Sampler(100, batch=5, microbatches=4, start=7, steps=10)))
        self.assertEqual(12, len(Sampler(100, batch=5, microbatches=4, start=7, steps=10)))

    def test_a_loader_takes_it(self):
        loader = torch.utils.data.DataLoader(torch.arange(40), batch_sampler=Sampler(40, batch=5, microbatches=2, own=[1]))
        self.assertEqual([5] * 4, [len(batch) for batch in loader])

    def test_too_few_samples_are_an_error(self):
        with self.assertRaisesRegex(ValueError, "19 samples are less than those of a step, 5 \\* 4"):
            Sampler(19, batch=5, microbatches=4)

    def test_seeds_differ(self):
        self.assertEqual(1000, len({seed_at(seed, step, number) for seed in range(10) for step in range(10) for number in range(10)}))
        self.assertEqual(seed_at(1, 2, 3), seed_at(1, 2, 3))
        self.assertLess(seed_at(2**63, 2**62, 5), 2**63)


if __name__ == "__main__":
    environment.main()
