"""Real models on rlx-run, each output within 1e-4 of onnxruntime's."""

import os
import pathlib
import tempfile
import unittest

import numpy as np
import onnxruntime

import harness
import models

TOOL = os.path.join(os.environ["RLX_BUILD"], "bin", "rlx-run")
TOLERANCE = 1e-4


class ModelTest(unittest.TestCase):
    def run_model(self, name: str, data: "list[dict[str, np.ndarray]]") -> dict:
        """Runs all data sets in one process, checks every output, and gives rlx-run's document."""
        model = models.fetch(name)
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        with tempfile.TemporaryDirectory() as folder:
            scratch = pathlib.Path(folder)
            folders = [harness.save(scratch / f"in{i}", arrays) for i, arrays in enumerate(data)]
            document = harness.rlx_run(TOOL, model, folders, scratch / "out", "--stats")
            self.assertEqual(len(document["runs"]), len(data))
            for i, arrays in enumerate(data):
                wanted = session.run(None, arrays)
                got = harness.outputs_of(scratch / "out", i, len(data), len(wanted))
                with self.subTest(model=name, data=i):
                    self.assertLessEqual(harness.largest_difference(got, wanted), TOLERANCE)
        return document

    def test_maskseq(self):
        self.run_model("maskseq", [harness.maskseq_inputs()])

    def test_minilm_compiles_once_and_instantiates_the_rest(self):
        sizes = [(1, 7), (1, 128), (8, 32), (3, 17), (1, 7), (1, 1), (2, 512)]
        document = self.run_model("minilm", [harness.minilm_inputs(*size) for size in sizes])
        origins = [run["specialization"] for run in document["runs"]]
        self.assertEqual(origins, ["new", "instantiated", "instantiated", "instantiated", "hit"] + ["instantiated"] * 2)
        self.assertEqual([run["binding"] for run in document["runs"]], [{"batch": b, "sequence": s} for b, s in sizes])
        self.assertEqual(document["statistics"]["templates_made"], 1)

    def test_rxnmap_layers_share_kernels(self):
        document = self.run_model("rxnmap", [harness.rxnmap_inputs(length) for length in (1, 7, 64, 200)])
        # 15 layers: were kernels made per layer, each kind would be there 15 times.
        first = document["runs"][0]
        steps = document["statistics"]["bindings"][-1]["steps"]
        self.assertLess(first["kernels_compiled"], 60)
        self.assertGreater(steps, 3 * first["kernels_compiled"])


if __name__ == "__main__":
    unittest.main()
