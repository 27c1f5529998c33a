"""The benchmarks' own parts: what is timed must have given the right answer, and figures must be what they say."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
BUILD = pathlib.Path(os.environ["RLX_BUILD"])
sys.path.insert(0, str(BENCH / "common"))
import catalog  # noqa: E402
import report  # noqa: E402
import workers  # noqa: E402


def program(name: str):
    """A benchmark as a module. (Their names are those of Python's own modules and functions.)"""
    spec = importlib.util.spec_from_file_location("bench_" + name.replace("-", "_"), BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS = {name: program(name) for name in ("all", "compare", "compile", "dispatch", "memory", "new-binding")}
compare = PROGRAMS["compare"]


def tiny_model(folder: pathlib.Path) -> pathlib.Path:
    """y = x W W, and a product that nobody uses. W is 4x4, int8 through Cast and Mul."""
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["w8"], ["w32"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["w32", "scale"], ["w"]),
            helper.make_node("MatMul", ["x", "w"], ["first"]),
            helper.make_node("MatMul", ["first", "w"], ["y"]),
            helper.make_node("MatMul", ["first", "w"], ["unused"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 4])],
        [
            numpy_helper.from_array(np.arange(16, dtype=np.int8).reshape(4, 4), "w8"),
            numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
        ],
    )
    path = folder / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def script(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class ArgumentsTest(unittest.TestCase):
    def code_of(self, body) -> "tuple[int, str]":
        text = io.StringIO()
        with contextlib.redirect_stderr(text), contextlib.redirect_stdout(text):
            with self.assertRaises(SystemExit) as caught:
                body()
        return caught.exception.code, text.getvalue()

    def test_help(self):
        for name, module in PROGRAMS.items():
            code, text = self.code_of(lambda: module.parse(["--help"]))
            self.assertEqual(code, 0)
            self.assertIn(f"usage: bench/{name}", text)
            self.assertIn("Exit code", text)

    def test_wrong_flags_are_code_2(self):
        for name, flags, word in (
            ("compare", ["--models", "bert"], "bert"),
            ("compare", ["--sizes", "7x"], "7x"),
            ("compare", ["--models", "rxnmap", "--sizes", "1x16"], "1x16"),
            ("compare", ["--sizes", "0x16"], "0x16"),
            ("compare", ["--threads", "0"], "--threads"),
            ("compare", ["--rounds", "0"], "--rounds"),
            ("compile", ["--bogus"], "--bogus"),
            ("dispatch", ["--rounds", "0"], "--rounds"),
            ("memory", ["--models", "bert"], "bert"),
            ("new-binding", ["--parts", "end"], "end"),
            ("all", ["--only", "start"], "start"),
            ("all", ["--write", "--quick"], "--write"),
        ):
            with self.subTest(name=name, flags=flags):
                code, text = self.code_of(lambda: PROGRAMS[name].parse(flags))
                self.assertEqual(code, 2)
                self.assertIn(word, text)

    def test_cases(self):
        flags, cases = compare.parse([])
        self.assertEqual(len(cases), 7)
        self.assertEqual((flags.threads, flags.rounds), ([1, 2], 12))
        _, cases = compare.parse(["--sizes", "1x16,7,4x4"])
        self.assertEqual([case.name for case in cases], ["minilm 1x16", "minilm 4x4", "rxnmap 7"])
        self.assertEqual(cases[0].binding, {"batch": 1, "sequence": 16})
        self.assertEqual(cases[2].binding, {"seq_len": 7})
        self.assertEqual(catalog.Case("maskseq", "1x64").binding, {})
        _, cases = compare.parse(["--quick"])
        self.assertEqual([case.name for case in cases], ["minilm 3x17", "maskseq 1x64", "rxnmap 7"])


class ProgramsTest(unittest.TestCase):
    """Those of C++."""

    def run_program(self, name: str, *flags: str, asked: str = "") -> subprocess.CompletedProcess:
        command = [str(BUILD / "bin" / f"rlx-bench-{name}"), *flags]
        return subprocess.run(command, input=asked, capture_output=True, text=True)

    def test_flags(self):
        for name in ("attention", "gemm", "machine", "math", "matmul", "rows"):
            with self.subTest(name=name):
                done = self.run_program(name, "--help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("Exit code", done.stdout)
                done = self.run_program(name, "--bogus")
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"bench/{name}: error: ", done.stderr)

    def test_machine_answers(self):
        done = self.run_program("machine", "--serve", asked="name\npeak 1\nread 100000 2\nread\npeak 99\nwhat\n")
        name, peak, read, *errors = done.stdout.splitlines()
        self.assertTrue(name)
        self.assertGreater(float(peak), 0)
        self.assertGreater(float(read), 0)
        self.assertEqual(errors, ["error"] * 3)


class WorkerTest(Folder):
    """rlx in a process of its own, as the benchmarks ask it."""

    def setUp(self):
        super().setUp()
        self.worker = workers.Worker(workers.RLX, tiny_model(self.folder), 2, BUILD)
        self.addCleanup(self.worker.close)

    def test_answers(self):
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        np.save(self.folder / "x.npy", x)
        self.worker.ask("inputs", folder=str(self.folder))
        self.worker.ask("write", folder=str(self.folder / "out"))
        w = np.arange(16, dtype=np.float32).reshape(4, 4) / 2
        np.testing.assert_array_equal(np.load(self.folder / "out" / "0.npy"), x @ w @ w)
        self.assertEqual(len(self.worker.ask("run", times=3)["ms"]), 3)
        self.assertGreater(self.worker.ask("memory")["peak_kib"], 1000)

    def test_counts_what_is_made(self):
        first = self.worker.ask("prepare", binding={"batch": 2, "sequence": 9})
        self.assertEqual((first["templates"], first["instantiated"]), (1, 0))
        self.assertGreaterEqual(first["kernels_compiled"], 1)
        second = self.worker.ask("prepare", binding={"batch": 3, "sequence": 8})
        self.assertEqual((second["templates"], second["instantiated"]), (1, 1))
        self.assertEqual(second["kernels_compiled"], first["kernels_compiled"])
        self.worker.ask("fresh", kernels=False)
        again = self.worker.ask("prepare", binding={"batch": 2, "sequence": 9})
        self.assertEqual((again["templates"], again["kernels_compiled"]), (1, 0))
        made = self.worker.ask("kernels", binding={"batch": 2, "sequence": 9})
        self.assertEqual(sum(kernel["steps"] for kernel in made["kernels"]), made["steps"])
        self.assertIn("codegen", made["kernels"][0]["ms_by_phase"])

    def test_errors_are_answers(self):
        with self.assertRaisesRegex(workers.WorkerError, "no request 'dance'"):
            self.worker.ask("dance")
        with self.assertRaisesRegex(workers.WorkerError, "sequence"):
            self.worker.ask("prepare", binding={"batch": 2})
        self.worker.ask("memory")  # it is still there

    def test_a_model_that_is_not_there(self):
        for engine in (workers.RLX, workers.ONNXRUNTIME):
            with self.assertRaisesRegex(workers.WorkerError, engine.name):
                workers.Worker(engine, self.folder / "none.onnx", 1, BUILD)


class StreamTest(unittest.TestCase):
    def test_sizes(self):
        sizes = PROGRAMS["new-binding"].random_sizes(500, 32, 512, 8192, 1)
        self.assertEqual(sizes, PROGRAMS["new-binding"].random_sizes(500, 32, 512, 8192, 1))
        self.assertEqual(len(set(sizes)), 500)
        self.assertTrue({(1, 1), (1, 512), (32, 1)} <= set(sizes))
        self.assertEqual({1 <= b <= 32 and 1 <= s <= 512 and b * s <= 8192 for b, s in sizes}, {True})
        bindings = PROGRAMS["new-binding"].bindings_of("rxnmap", 100, 1)
        self.assertEqual(len(bindings), 100)
        self.assertIn({"seq_len": 1}, bindings)


class PageTest(unittest.TestCase):
    def test_a_block_is_replaced(self):
        replaced = PROGRAMS["all"].replaced
        page = "a\n<!-- bench/rows -->\nold\n<!-- end -->\nb\n<!-- bench/math -->\n<!-- end -->\n"
        page = replaced(page, "rows", "1 \\2\n")
        self.assertEqual(
            page,
            "a\n<!-- bench/rows -->\n```\n$ bench/rows\n1 \\2\n```\n<!-- end -->\n"
            "b\n<!-- bench/math -->\n<!-- end -->\n",
        )
        self.assertIn("2\n```\n\n![bench/rows](a.png)\n<!-- end -->", replaced(page, "rows", "2", "a.png"))
        with self.assertRaisesRegex(ValueError, "0 blocks of bench/gemm"):
            replaced(page, "gemm", "")

    def test_the_page_has_a_block_for_each(self):
        page = PROGRAMS["all"].PAGE.read_text()
        for name in PROGRAMS["all"].NAMES:
            PROGRAMS["all"].replaced(page, name, "")
            self.assertTrue((BENCH / name).exists(), name)


class CostTest(Folder):
    def test_counts_what_is_used(self):
        cost = catalog.cost(tiny_model(self.folder), {"x": np.ones((2, 3, 4), np.float32)})
        # Two products of 6 rows, 4 columns and 4 terms; the weight is 16 bytes and goes by twice.
        self.assertEqual(cost, catalog.Cost(flops=2 * 2 * 6 * 4 * 4, order=[(0, 16), (0, 16)]))
        self.assertEqual((cost.traffic, cost.resident), (32, 16))

    def test_limit_is_the_larger(self):
        cost = catalog.Cost(flops=1e9, order=[(0, 6000000), (6000000, 4000000)])
        self.assertAlmostEqual(cost.limit_ms(peak_gflops=100, read_gbs=10), 10)
        self.assertAlmostEqual(cost.limit_ms(peak_gflops=1000, read_gbs=2), 5)


class RowTest(unittest.TestCase):
    def test_ratio_is_over_the_best_peer(self):
        def worker(engine):
            return unittest.mock.Mock(engine=engine, threads=1)

        times = {
            worker(workers.RLX): [3.0, 2.0, 9.0],
            worker(workers.ONNXRUNTIME): [6.0],
            worker(workers.OPENVINO_STATIC): [4.0],
            worker(workers.OPENVINO_DEFAULT): [1.0],
        }
        timing = {"times": times, "limits": {("peak", 1): 100.0, ("read", 1): 10.0}}
        cost = catalog.Cost(flops=1.5e8, order=[(0, 1)])
        (row,) = compare.rows_of(catalog.Case("minilm", "1x16"), dict.fromkeys(times, 0.0), timing, cost, [1])
        self.assertEqual(row["best_peer"], "openvino static")
        self.assertEqual(row["ratio"], 0.75)
        self.assertAlmostEqual(row["share_of_limit"], 0.5)

    def test_geometric_mean(self):
        self.assertAlmostEqual(report.geometric_mean([0.5, 2.0, 1.0]), 1)


class RunTest(Folder):
    """bench/compare from end to end, with onnxruntime in the place of rlx."""

    def run_compare(self, rlx_adds: float = 0, peer_adds: float = 0, rlx_waits: float = 0, check: bool = False):
        build = self.folder / "build"
        engine = f"import sys\nsys.path.insert(0, {str(BENCH / 'common')!r})\nimport peer\n"
        off = (
            "import time\nclass Off(peer.OnnxRuntime):\n"
            "    def outputs(self):\n        return [x + {} for x in super().outputs()]\n"
            "    def run(self):\n        time.sleep({})\n        super().run()\n"
        )
        script(
            build / "bin" / "rlx-bench-worker",
            engine
            + off.format(rlx_adds, rlx_waits)
            + "peer.ENGINES = {'rlx': Off}\nsys.argv.insert(1, 'rlx')\nsys.exit(peer.main())\n",
        )
        script(
            self.folder / "peer.py",
            engine + off.format(peer_adds, 0) + "peer.ENGINES['off'] = Off\nsys.exit(peer.main())\n",
        )
        script(
            build / "bin" / "rlx-bench-machine",
            "import sys\nfor line in sys.stdin:\n    print('a CPU' if line == 'name\\n' else 100.0, flush=True)\n",
        )
        model = tiny_model(self.folder)
        inputs = {"minilm": lambda batch, length: {"x": np.ones((batch, length, 4), np.float32)}}
        peers = (workers.ONNXRUNTIME, workers.Engine("off", "off"))
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(unittest.mock.patch.object(workers, "PEERS", peers))
            stack.enter_context(unittest.mock.patch.object(workers, "PEER", self.folder / "peer.py"))
            stack.enter_context(
                unittest.mock.patch.object(
                    workers, "OPENVINO_DEFAULT", workers.Engine("openvino default", "off", False)
                )
            )
            stack.enter_context(unittest.mock.patch.object(catalog, "model_file", lambda name: model))
            stack.enter_context(unittest.mock.patch.object(catalog, "INPUTS", inputs))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(errors))
            flags = ["--quick", "--models", "minilm", "--build", str(build), "--json", str(self.folder / "out.json")]
            code = compare.main(flags + (["--check"] if check else []))
        return code, out.getvalue(), errors.getvalue(), json.loads((self.folder / "out.json").read_text())

    def test_document(self):
        code, text, _, document = self.run_compare()
        self.assertEqual(code, 0)
        self.assertEqual(document["bench"], "compare")
        self.assertEqual(
            [(row["model"], row["size"], row["threads"]) for row in document["rows"]],
            [("minilm", "3x17", t) for t in (1, 2)],
        )
        for row in document["rows"]:
            self.assertEqual(set(row["engines"]), {"rlx", "onnxruntime", "off", "openvino default"})
            self.assertEqual(row["flops"], 2 * 2 * 51 * 4 * 4)
            for engine in row["engines"].values():
                self.assertGreater(engine["ms"], 0)
                self.assertEqual(engine["difference"], 0)
            best = row["engines"][row["best_peer"]]
            self.assertAlmostEqual(row["ratio"], row["engines"]["rlx"]["ms"] / best["ms"])
            self.assertIn("limit_ms", row)
        self.assertEqual(set(document["geometric_means"]), {"1", "2"})
        self.assertEqual(len(document["requirements"]), 4)
        self.assertIn("minilm 3x17", text)
        self.assertIn("100.0 GF/s", text)

    def test_a_wrong_answer_of_ours_is_an_error(self):
        code, text, errors, document = self.run_compare(rlx_adds=0.25)
        self.assertEqual(code, 1)
        self.assertIn("the answer is off by 2.50e-01", errors)
        self.assertEqual(document["rows"], [])
        self.assertNotIn("ratio", text)

    def test_a_wrong_answer_of_a_peer_is_not_timed(self):
        code, text, _, document = self.run_compare(peer_adds=0.25)
        self.assertEqual(code, 0)
        self.assertIn("off, 1 thread: the answer is off by 2.50e-01: not timed", text)
        for row in document["rows"]:
            self.assertNotIn("off", row["engines"])
            # Shown beside the ratios, with how far it is off, and never the best peer.
            self.assertAlmostEqual(row["engines"]["openvino default"]["difference"], 0.25)
            self.assertEqual(row["best_peer"], "onnxruntime")

    def test_check_fails_when_a_requirement_is_missed(self):
        for check, wanted in ((False, 0), (True, 1)):
            code, text, _, document = self.run_compare(rlx_waits=0.02, check=check)
            self.assertEqual(code, wanted)
            self.assertIn("MISSED: 1 thread: geometric mean", text)
            self.assertFalse(document["requirements"][0]["met"])


if __name__ == "__main__":
    unittest.main()
