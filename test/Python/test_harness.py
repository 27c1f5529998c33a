"""The comparison that the quickstart and the model tests stand on."""

import unittest

import numpy as np

import harness


class HarnessTest(unittest.TestCase):
    def test_largest_difference(self):
        a = np.array([1, 2, np.nan, np.inf], np.float32)
        self.assertEqual(harness.largest_difference([a], [a.copy()]), 0)
        b = a.copy()
        b[1] = 2.5
        self.assertEqual(harness.largest_difference([a, b], [a, a]), 0.5)
        for other in (
            a[:3],
            a.astype(np.float64),
            np.array([1, 2, 3, np.inf], np.float32),
            np.array([1, 2, np.nan, -np.inf], np.float32),
            np.array([1, 2, np.inf, np.nan], np.float32),
        ):
            self.assertEqual(harness.largest_difference([other], [a]), float("inf"))
        self.assertEqual(harness.largest_difference([a], [a, a]), float("inf"))
        empty = np.zeros((0, 3), np.float32)
        self.assertEqual(harness.largest_difference([empty], [empty]), 0)

    def test_minilm_inputs(self):
        inputs = harness.minilm_inputs(3, 5)
        self.assertEqual(inputs["attention_mask"].tolist(), [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
        self.assertTrue(np.array_equal(inputs["input_ids"] != 0, inputs["attention_mask"] != 0))
        self.assertEqual({a.shape for a in inputs.values()}, {(3, 5)})
        again = harness.minilm_inputs(3, 5)
        self.assertTrue(np.array_equal(inputs["input_ids"], again["input_ids"]))


if __name__ == "__main__":
    unittest.main()
