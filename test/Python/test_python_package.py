"""The Python package: values, types, copies, errors, threads; and the wheel in a clean environment."""

import ast
import ctypes
import gc
import itertools
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import unittest
import venv
import weakref

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import python_package

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RLX_BUILD"])

rlx = None


def setUpModule():
    global rlx
    if re.search(r"^RLX_SANITIZE(:\w+)?=.+$", (BUILD / "CMakeCache.txt").read_text(), re.M):
        raise unittest.SkipTest("Python without sanitizers cannot load libraries with them")
    sys.path.insert(0, str(python_package.make(BUILD)))
    import rlx as package

    rlx = package


def save(graph: onnx.GraphProto, path: pathlib.Path) -> pathlib.Path:
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def value(name: str, kind: int, *shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def add(self, kind: int = TensorProto.FLOAT) -> "rlx.Executable":
        """z = x + y, of [batch, 3]."""
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "y"], ["z"])],
            "add",
            [value("x", kind, "batch", 3), value("y", kind, "batch", 3)],
            [value("z", kind, "batch", 3)],
        )
        return rlx.load(save(graph, self.folder / f"add{kind}.onnx"), threads=1)

    def two(self) -> "rlx.Executable":
        """sum = x + y and product = x * y, of [batch, length]."""
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "y"], ["sum"]), helper.make_node("Mul", ["x", "y"], ["product"])],
            "two",
            [value("x", TensorProto.FLOAT, "batch", "length"), value("y", TensorProto.FLOAT, "batch", "length")],
            [
                value("sum", TensorProto.FLOAT, "batch", "length"),
                value("product", TensorProto.FLOAT, "batch", "length"),
            ],
        )
        return rlx.load(save(graph, self.folder / "two.onnx"), threads=1)

    def matmul(self, size: int, threads: int = 1, **options) -> "rlx.Executable":
        """y = x W W ... of [batch, size]: something that takes a while."""
        w = np.random.default_rng(1).standard_normal((size, size)).astype(np.float32) / np.float32(size) ** 0.5
        nodes = [helper.make_node("MatMul", [f"x{i}" if i else "x", "w"], [f"x{i + 1}"]) for i in range(8)]
        nodes.append(helper.make_node("Identity", ["x8"], ["y"]))
        graph = helper.make_graph(
            nodes,
            "matmul",
            [value("x", TensorProto.FLOAT, "batch", size)],
            [value("y", TensorProto.FLOAT, "batch", size)],
            [numpy_helper.from_array(w, "w")],
        )
        self.weight = w
        return rlx.load(save(graph, self.folder / "matmul.onnx"), threads=threads, **options)

    def raises(self, kind: str, pattern: str):
        return self.assertRaisesRegex(getattr(rlx, kind), pattern)


ONES = np.ones((2, 3), np.float32)
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


class ValuesTest(Folder):
    def test_one_output_is_an_array(self):
        exe = self.add()
        for z in (exe(x=ROWS, y=ONES), exe(ROWS, ONES), exe(ROWS, y=ONES)):
            self.assertIs(type(z), np.ndarray)
            np.testing.assert_array_equal(z, ROWS + ONES)
            self.assertTrue(z.flags.writeable and z.flags.c_contiguous)

    def test_outputs_know_their_names(self):
        exe = self.two()
        out = exe(x=ROWS, y=2 * ONES)
        self.assertIsInstance(out, tuple)
        self.assertIsInstance(out, rlx.Outputs)
        self.assertEqual(out.names, ("sum", "product"))
        total, product = out
        self.assertIs(out["sum"], total)
        self.assertIs(out[1], product)
        self.assertEqual(list(out.keys()), ["sum", "product"])
        np.testing.assert_array_equal(total, ROWS + 2)
        np.testing.assert_array_equal(dict(out.items())["product"], ROWS * 2)
        with self.assertRaises(KeyError):
            out["nothing"]
        self.assertIn("product=array", repr(out))

    def test_run_of_some_outputs(self):
        exe = self.two()
        out = exe.run({"x": ROWS, "y": ONES}, outputs=["product", 0, "product"])
        self.assertEqual(out.names, ("product", "sum", "product"))
        np.testing.assert_array_equal(out[0], ROWS)
        np.testing.assert_array_equal(out[1], ROWS + 1)
        self.assertEqual(len(exe.run([ROWS, ONES], outputs=[])), 0)
        self.assertEqual(len(exe.run((ROWS, ONES))), 2)

    def test_every_type(self):
        kinds = {
            TensorProto.FLOAT: np.float32,
            TensorProto.DOUBLE: np.float64,
            TensorProto.FLOAT16: np.float16,
            TensorProto.BFLOAT16: ml_dtypes.bfloat16,
            TensorProto.INT8: np.int8,
            TensorProto.INT16: np.int16,
            TensorProto.INT32: np.int32,
            TensorProto.INT64: np.int64,
            TensorProto.UINT8: np.uint8,
            TensorProto.UINT16: np.uint16,
            TensorProto.UINT32: np.uint32,
            TensorProto.UINT64: np.uint64,
        }
        for kind, dtype in kinds.items():
            with self.subTest(dtype=np.dtype(dtype).name):
                exe = self.add(kind)
                self.assertEqual(exe.model.inputs[0].dtype, np.dtype(dtype).name)
                x = np.array([[1, 2, 3]], dtype)
                z = exe(x=x, y=np.array([[10, 20, 30]], dtype))
                self.assertEqual(z.dtype, np.dtype(dtype))
                np.testing.assert_array_equal(z, np.array([[11, 22, 33]], dtype))
                out = np.zeros((1, 3), dtype)
                exe.run_into({"x": x, "y": x}, {"z": out})
                np.testing.assert_array_equal(out, np.array([[2, 4, 6]], dtype))

    def test_bools(self):
        graph = helper.make_graph(
            [helper.make_node("And", ["a", "b"], ["c"])],
            "both",
            [value("a", TensorProto.BOOL, "n"), value("b", TensorProto.BOOL, "n")],
            [value("c", TensorProto.BOOL, "n")],
        )
        exe = rlx.load(save(graph, self.folder / "bool.onnx"))
        c = exe(a=np.array([True, True, False]), b=[True, False, True])
        self.assertEqual(c.dtype, np.bool_)
        self.assertEqual(c.tolist(), [True, False, False])
        with self.raises("InvalidArgument", "'a' is i1, the array is uint8"):
            exe(a=np.array([1, 0], np.uint8), b=[True, True])
        with self.raises("InvalidArgument", "'a' is i1, the values are int64"):
            exe(a=[1, 0], b=[True, True])

    def test_f32_for_half_types(self):
        # To nearest even, by hand: 2049 lies between 2048 and 2050 of f16; 1 + 2^-8 between 1 and 1 + 2^-7 of bf16.
        half = self.add(TensorProto.FLOAT16)
        zeros = np.zeros((1, 3), np.float32)
        z = half(x=np.array([[2049, 2051, 65519]], np.float32), y=zeros)
        self.assertEqual(z.dtype, np.float16)
        self.assertEqual(z.tolist(), [[2048, 2052, 65504]])
        brain = self.add(TensorProto.BFLOAT16)
        out = np.empty((1, 3), np.float32)
        brain.run_into([np.array([[1.00390625, 1.01171875, 3.14]], np.float32), zeros], [out])
        self.assertEqual(out.tolist(), [[1.0, 1.015625, 3.140625]])

    def test_python_values(self):
        exe = self.add()
        np.testing.assert_array_equal(exe(x=[[1, 2, 3]], y=((0.5, True, 2),)), np.array([[1.5, 3, 5]], np.float32))
        ints = self.add(TensorProto.INT8)
        np.testing.assert_array_equal(ints([[1, 2, 3]], [[1, 1, 1]]), np.array([[2, 3, 4]], np.int8))
        for bad, pattern in (
            ([[1.5, 2, 3]], "'x' is i8, the values are float64"),
            ([[300, 2, 3]], "fit i8|i8 can be made"),
            ([[1, 2, "a"]], "input 'x'"),
            ([[1, 2], [3]], "input 'x'"),
        ):
            with self.subTest(bad=bad), self.raises("InvalidArgument", pattern):
                ints(x=bad, y=[[1, 1, 1]])
        scalar = helper.make_graph(
            [helper.make_node("Neg", ["x"], ["y"])],
            "scalar",
            [value("x", TensorProto.FLOAT)],
            [value("y", TensorProto.FLOAT)],
        )
        negative = rlx.load(save(scalar, self.folder / "scalar.onnx"))
        for x in (2, 2.0, np.float32(2), np.array(2, np.float32)):
            y = negative(x)
            self.assertEqual((y.shape, float(y)), ((), -2.0))
        with self.raises("InvalidArgument", "'x' is f32, the array is float64"):
            negative(np.float64(2))

    def test_copies_where_they_are_needed(self):
        exe = self.add()
        wide = np.arange(24, dtype=np.float32).reshape(4, 6)
        for x in (wide[::2, ::2], wide[1:3, 5:2:-1], np.asfortranarray(ROWS), ROWS.astype(">f4")):
            np.testing.assert_array_equal(exe(x=x, y=ONES), x.astype(np.float32) + 1)
        read_only = ROWS.copy()
        read_only.flags.writeable = False
        np.testing.assert_array_equal(exe(x=read_only, y=ONES), ROWS + 1)
        raw = np.empty(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
        raw[:] = ROWS
        np.testing.assert_array_equal(exe(x=raw, y=ONES), ROWS + 1)

    def test_empty(self):
        exe = self.add()
        nothing = np.empty((0, 3), np.float32)
        self.assertEqual(exe(x=nothing, y=nothing).shape, (0, 3))
        self.assertEqual(exe.run_into([nothing, nothing], nothing.copy()), None)

    def test_cases(self):
        """The small models of test/cases, whose expected outputs are onnxruntime's or the reference's."""
        compared = 0
        for case in sorted((ROOT / "test" / "cases").glob("*/model.onnx")):
            for data in sorted(case.parent.glob("test_data_set_*")):
                if unsupported(case):
                    continue
                with self.subTest(case=case.parent.name, data=data.name):
                    exe = rlx.load(case)
                    inputs = [tensor(data / f"input_{i}.pb") for i in range(len(exe.model.inputs))]
                    if not (data / "output_0.pb").exists():
                        with self.assertRaises(rlx.Error):
                            exe.run(inputs)
                        continue
                    outputs = exe.run(inputs)
                    wanted = [tensor(data / f"output_{i}.pb") for i in range(len(exe.model.outputs))]
                    for got, want in zip(outputs, wanted):
                        self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
                        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
                        compared += 1
        self.assertGreater(compared, 30)


def unsupported(model: pathlib.Path) -> bool:
    """Whether it has ops that rlx has not."""
    try:
        rlx.load(model)
    except rlx.Unsupported:
        return True
    return False


def tensor(path: pathlib.Path) -> np.ndarray:
    return numpy_helper.to_array(onnx.load_tensor(str(path)))


class Dlpack:
    """An array that is known by DLPack alone."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Producer:
    """A tensor of DLPack made by hand, unversioned or of a version, that counts how often it is given and given back."""

    _keep: "list[object]" = []  # what C may still call

    def __init__(self, array: np.ndarray, version: "tuple[int, int] | None", **fields):
        self.array, self.version, self.fields = array, version, fields
        self.given = self.back = 0

    def counts(self) -> "tuple[int, int]":
        gc.collect()
        return self.given, self.back

    def __dlpack_device__(self):
        return self.fields.get("device", (1, 0))

    def __dlpack__(self, **options):
        if self.version is None and options:
            raise TypeError("of before there were versions")
        array, fields = self.array, self.fields
        sizes = ctypes.c_int64 * max(array.ndim, 1)
        shape = sizes(*fields.get("shape", array.shape))
        strides = sizes(*(stride // array.itemsize for stride in array.strides))
        offset = fields.get("offset", 0)
        tensor = struct.pack(
            "=QiiiBBHQQQ",
            fields.get("data", array.ctypes.data),
            *self.__dlpack_device__(),
            fields.get("rank", array.ndim),
            *fields.get("dtype", (2, 32, 1)),
            ctypes.addressof(shape),
            0 if "strides" in fields else ctypes.addressof(strides),
            offset,
        )

        def back(_):
            self.back += 1

        deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(back)
        called = ctypes.cast(deleter, ctypes.c_void_p).value
        if self.version is None:
            name, memory = b"dltensor", tensor + struct.pack("=QQ", 0, called)
        else:
            name = b"dltensor_versioned"
            memory = struct.pack("=IIQQQ", *self.version, 0, called, fields.get("flags", 0)) + tensor
        memory = ctypes.create_string_buffer(memory)
        self._keep.append((shape, strides, deleter, memory))

        def unused(capsule):
            if _capsule_is_valid(capsule, name):
                back(None)

        destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(unused)
        self._keep.append((destructor, name))
        self.given += 1
        return _new_capsule(ctypes.addressof(memory), name, destructor)


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


class MemoryTest(Folder):
    def test_outputs_are_where_the_caller_wants(self):
        exe = self.two()
        room = np.full((4, 3), 7, np.float32)
        exe.run_into({"x": ROWS, "y": ONES}, {"sum": room[1:3]})
        np.testing.assert_array_equal(room[1:3], ROWS + 1)
        np.testing.assert_array_equal(room[[0, 3]], np.full((2, 3), 7))
        other = np.empty((2, 3), np.float32)
        exe.run_into([ROWS, ONES], [room[:2], other])
        np.testing.assert_array_equal(other, ROWS)

    def test_inputs_are_read_where_they_lie(self):
        """A bound run sees what was written to its input since, so it has no copy of it."""
        exe = self.add()
        x, out = ROWS.copy(), np.empty((2, 3), np.float32)
        run = exe.bind_io({"x": x, "y": ONES}, {"z": out})
        run()
        np.testing.assert_array_equal(out, ROWS + 1)
        x += 5
        self.assertIsNone(run())
        np.testing.assert_array_equal(out, ROWS + 6)
        self.assertIs(run.outputs["z"], out)
        with self.assertRaises(TypeError):
            run(1)

    def test_a_bound_run_keeps_its_arrays(self):
        exe = self.add()
        out = np.empty((2, 3), np.float32)
        run = exe.bind_io([ROWS.copy(), ONES.copy()], out)
        gc.collect()
        np.full((2, 3), 9, np.float32)
        run()
        np.testing.assert_array_equal(out, ROWS + 1)

    def test_returned_outputs_own_their_memory(self):
        exe = self.add()
        first = exe(x=ROWS, y=ONES)
        second = exe(x=ROWS * 2, y=ONES)
        view = first[1:]
        exe.close()
        del exe, first
        gc.collect()
        np.testing.assert_array_equal(view, [[4, 5, 6]])
        second += 1
        np.testing.assert_array_equal(second, ROWS * 2 + 2)
        self.assertEqual(second.ctypes.data % 64, 0)

    def test_arrays_are_let_go_of(self):
        exe = self.add()
        x = ROWS.copy()
        before = sys.getrefcount(x)
        for _ in range(10):
            exe(x=x, y=x)
            exe.run_into([x, x], np.empty((2, 3), np.float32))
            with self.assertRaises(rlx.InvalidArgument):
                exe(x=x)
            with self.assertRaises(rlx.InvalidArgument):
                exe.run_into([x, x], x.astype(np.float64))
        self.assertEqual(sys.getrefcount(x), before)

    def test_dlpack(self):
        exe = self.add()
        wide = np.arange(24, dtype=np.float32).reshape(4, 6)
        np.testing.assert_array_equal(exe(x=Dlpack(ROWS), y=Dlpack(wide[::2, ::2])), ROWS + wide[::2, ::2])
        out = np.zeros((2, 3), np.float32)
        exe.run_into({"x": Dlpack(ROWS), "y": ONES}, {"z": Dlpack(out)})
        np.testing.assert_array_equal(out, ROWS + 1)
        result = np.from_dlpack(exe(x=ROWS, y=ONES))
        np.testing.assert_array_equal(result, ROWS + 1)
        for bad, pattern in ((ROWS.astype(np.float64), "f32, the array is f64"), (ROWS.T, "sizes|axis|rank|3")):
            with self.assertRaisesRegex(rlx.Error, pattern):
                exe(x=Dlpack(bad), y=ONES)
        for bad in (ROWS.astype(np.float64), wide[::2, ::2], ROWS[:1]):
            with self.raises("InvalidArgument", "output 'z'"):
                exe.run_into([ROWS, ONES], {"z": Dlpack(bad)})

    def test_dlpack_versions(self):
        """Of version 1 alone, of before it alone, and what must not be written to."""
        asked = []

        class Versioned(Dlpack):
            def __dlpack__(self, *, max_version=None, **options):
                asked.append(max_version)
                if max_version is None:
                    raise BufferError("only as version 1")
                return self.array.__dlpack__(max_version=max_version, **options)

        class Old(Dlpack):
            def __dlpack__(self, *, stream=None):
                return self.array.__dlpack__()

        exe = self.add()
        frozen = ROWS.copy()
        frozen.flags.writeable = False
        for x in (Versioned(ROWS), Old(ROWS), Versioned(frozen), Dlpack(frozen)):
            np.testing.assert_array_equal(exe(x=x, y=ONES), ROWS + 1)
        self.assertEqual({version[0] for version in asked if version}, {1})
        for wrap in (Versioned, Old):
            out = np.zeros((2, 3), np.float32)
            exe.run_into([ROWS, ONES], {"z": wrap(out)})
            np.testing.assert_array_equal(out, ROWS + 1)
        for wrap in (Versioned, Dlpack):
            with self.raises("InvalidArgument", "output 'z'.*written to"):
                exe.run_into([ROWS, ONES], {"z": wrap(frozen)})
        np.testing.assert_array_equal(frozen, ROWS)
        for options in ({}, {"max_version": (1, 0)}):
            self.assertIn("dltensor", repr(exe(x=ROWS, y=ONES).__dlpack__(**options)))

    def test_issue_dlpack_producers(self):
        """Issue: of another major version everything was believed; what was written to a copy was lost; a producer's own
        error was hidden. And whatever happens, a tensor is given back, once."""
        f32, f64 = (2, 32, 1), (2, 64, 1)
        exe = self.add()
        out = np.zeros((2, 3), np.float32)

        def inputs(x):
            return lambda: exe(x=x, y=ONES)

        def outputs(z):
            return lambda: exe.run_into([ROWS, ONES], {"z": z})

        for version in (None, (1, 0), (1, 7)):
            values = ROWS.copy()
            good = [
                Producer(values, version),
                Producer(values, version, strides=None),
                Producer(values, version, offset=4, data=values.ctypes.data - 4),
                Producer(np.asfortranarray(values), version),
                Producer(values[::-1, ::-1].copy()[::-1, ::-1], version),
            ]
            if version:
                good += [Producer(values, version, flags=flags) for flags in (1, 2, 3)]
            for producer in good:
                np.testing.assert_array_equal(inputs(producer)(), ROWS + 1)
                self.assertEqual(producer.counts(), (1, 1))
            for shape in ((0, 3), (1, 3)):
                producer = Producer(np.ones(shape, np.float32), version, **({} if shape[0] else {"data": 0}))
                np.testing.assert_array_equal(exe(x=producer, y=np.ones(shape, np.float32)), np.full(shape, 2))
                self.assertEqual(producer.counts(), (1, 1))
            run = exe.bind_io({"x": (bound := Producer(values, version)), "y": ONES}, {"z": (to := Producer(out, version))})
            run()
            self.assertEqual(bound.counts() + to.counts(), (1, 0, 1, 0))
            del run
            self.assertEqual(bound.counts() + to.counts(), (1, 1, 1, 1))
            np.testing.assert_array_equal(out, ROWS + 1)
            out[:] = 0

            bad = [
                ({"device": (2, 0)}, "InvalidArgument", "device of DLPack's type 2"),
                ({"dtype": (2, 32, 4)}, "InvalidArgument", "4 lanes"),
                ({"dtype": (5, 64, 1)}, "InvalidArgument", "type 5 with 64 bits"),
                ({"dtype": f64}, "InvalidArgument", "is f32, the array is f64"),
                ({"dtype": f32, "data": 0}, "InvalidArgument", "no data"),
                ({"rank": -1}, "InvalidArgument", "rank -1"),
                ({"rank": 1 << 30}, "InvalidArgument", "rank 1073741824"),
                ({"shape": (-1, 3)}, "InvalidArgument", "negative"),
                ({"shape": (1 << 62, 3)}, "InvalidArgument", "does not fit"),
            ]
            for options, kind, pattern in bad:
                for what, use in (("input 'x'", inputs), ("output 'z'", outputs)):
                    producer = Producer(out, version, **options)
                    with self.raises(kind, f"{what}.*{pattern}"):
                        use(producer)()
                    self.assertEqual(producer.counts(), (1, 1))
            producer = Producer(out.T.copy().T, version)
            with self.raises("InvalidArgument", "output 'z'.*strides"):
                outputs(producer)()
            self.assertEqual(producer.counts(), (1, 1))
        for version in ((0, 8), (2, 0)):
            for what, use in (("input 'x'", inputs), ("output 'z'", outputs)):
                producer = Producer(out, version, rank=-1)
                with self.raises("Unsupported", f"{what}.*DLPack {version[0]}.{version[1]}"):
                    use(producer)()
                self.assertEqual(producer.counts(), (1, 1))
        for flags, pattern in ((1, "must not be written to"), (2, "is a copy"), (3, "must not be written to")):
            producer = Producer(out, (1, 1), flags=flags)
            with self.raises("InvalidArgument", f"output 'z'.*Producer gives {pattern}"):
                outputs(producer)()
            self.assertEqual(producer.counts(), (1, 1))
        np.testing.assert_array_equal(out, np.zeros((2, 3)))

        class Raises(Dlpack):
            def __dlpack__(self, **_):
                raise self.array

        for error in (BufferError("it is on the moon"), KeyboardInterrupt(), TypeError("none today")):
            for use in (inputs, outputs):
                with self.assertRaises(type(error)) as caught:
                    use(Raises(error))()
                self.assertIs(caught.exception, error)

        class Gives(Dlpack):
            def __dlpack__(self, **_):
                return self.array

        capsule = ROWS.__dlpack__()
        np.testing.assert_array_equal(exe(x=Gives(capsule), y=ONES), ROWS + 1)
        for given in (None, 3, capsule):  # which was used
            for use in (inputs, outputs):
                with self.raises("InvalidArgument", "the Gives gives no DLPack tensor"):
                    use(Gives(given))()

    def test_lists_that_change_meanwhile(self):
        """Making an array of the first input takes the second one away."""
        exe = self.add()

        class Clearing:
            def __array__(self, dtype=None, copy=None):
                inputs.clear()
                gc.collect()
                return ROWS

        inputs = [Clearing(), ROWS * 2]
        np.testing.assert_array_equal(exe.run(inputs)[0], ROWS * 3)
        self.assertEqual(inputs, [])

    def test_buffers(self):
        """Neither numpy nor DLPack: the buffer protocol."""
        import array

        exe = self.add()
        x = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
        np.testing.assert_array_equal(exe(x=x, y=ONES), ROWS + 1)

    def test_flat_memory(self):
        exe = self.add()

        def resident() -> int:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        big = np.ones((1000, 3), np.float32)
        for rounds in (2000, 20000):
            for _ in range(rounds):
                exe(x=big, y=big)
            before, now = (resident(),) * 2 if rounds == 2000 else (before, resident())
        # A leak of the outputs would be 240 MB.
        self.assertLess(now - before, 20 << 20)


class SizesTest(Folder):
    def test_model(self):
        exe = self.two()
        self.assertEqual([t.name for t in exe.model.inputs], ["x", "y"])
        self.assertEqual(exe.model.inputs[0], rlx.TensorInfo("x", "f32", ("batch", "length")))
        self.assertEqual([t.name for t in exe.model.outputs], ["sum", "product"])
        self.assertEqual([d.name for d in exe.model.dims], ["batch", "length"])
        self.assertEqual(len(exe.params), 0)
        self.assertIn("x: f32[batch, length]", repr(exe))

    def test_statistics(self):
        exe = self.two()
        for rows in (1, 2, 2, 3):
            exe(np.ones((rows, 5), np.float32), np.ones((rows, 5), np.float32))
        stats = exe.stats()
        self.assertEqual((stats["misses"], stats["hits"], stats["entries"]), (3, 1, 3))
        self.assertEqual(stats["templates_made"] + stats["templates_reused"], 3)
        self.assertIn("ms_by_phase", stats)
        held = exe.bindings()
        self.assertEqual([each.binding["batch"] for each in held], [3, 2, 1])
        self.assertEqual(held[1].hits, 1)
        self.assertEqual(held[-1].origin, "new")
        miss = exe.explain()
        self.assertEqual(miss.changes, {"batch": (2, 3)})
        self.assertIn("batch", str(miss))
        self.assertIsNone(self.add().explain())
        self.assertEqual({each.state for each in held}, {"ready"})
        self.assertEqual(exe.forecast(batch=2, length=5).kind, "hit")
        self.assertIn(exe.forecast({"batch": 4}, length=5).kind, ("instantiate", "compile"))
        self.assertEqual(stats["misses"], exe.stats()["misses"])

    def test_prepare(self):
        exe = self.two()
        self.assertIsNone(exe.prepare(batch=[1, 8], length=range(4, 6)))
        self.assertEqual(
            sorted(tuple(each.binding.values()) for each in exe.bindings()), [(1, 4), (1, 5), (8, 4), (8, 5)]
        )
        exe.prepare({"batch": 3, "length": 4})
        exe.prepare([{"batch": 4}, {"batch": 5}], length=np.int64(4))
        self.assertEqual(exe.stats()["entries"], 7)
        before = exe.stats()["misses"]
        exe(np.ones((8, 5), np.float32), np.ones((8, 5), np.float32))
        self.assertEqual(exe.stats()["misses"], before)
        for kwargs, kind, pattern in (
            ({"batch": 1}, "Error", "length"),
            ({"batch": 1, "length": -1}, "Error", "length"),
            ({"batch": 1, "length": 1, "depth": 1}, "InvalidArgument", "depth"),
            ({"batch": 1, "length": 2**70}, "InvalidArgument", "length"),
        ):
            with self.subTest(kwargs=kwargs), self.raises(kind, pattern):
                exe.prepare(**kwargs)
        with self.raises("InvalidArgument", "background"):
            exe.prepare(batch=1, length=1, progress=print)

    def test_prepare_has_a_limit(self):
        """Issue: millions of combinations took minutes before anything was made or refused."""
        exe = self.two()
        started = time.monotonic()
        for call, pattern in (
            (lambda: exe.prepare(batch=range(10**7), length=1), "10000000 combinations"),
            (lambda: exe.prepare(batch=range(10**4), length=range(10**4), background=True), "100000000 combinations"),
            (lambda: exe.prepare(batch=itertools.count(), length=1), "65537 combinations"),
            (lambda: exe.prepare(({"batch": n, "length": 1} for n in itertools.count())), "65537 combinations"),
            (lambda: exe.prepare(batch=range(10**40), length=2), "combinations"),
        ):
            with self.subTest(pattern=pattern), self.raises("InvalidArgument", pattern):
                call()
        self.assertLess(time.monotonic() - started, 30)
        self.assertEqual(exe.stats()["misses"], 0)
        exe.prepare(batch=[], length=1)
        self.assertEqual(exe.stats()["misses"], 0)

    def test_prepare_hears_ctrl_c(self):
        exe = self.two()
        # A shell's background jobs ignore it from the beginning, and their Python with them.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        exe.prepare(batch=1, length=1)

        def interrupt() -> None:
            while exe.stats()["misses"] < 100:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            exe.prepare(batch=range(1, 60000), length=7)
        thread.join()
        self.assertLess(exe.stats()["misses"], 60000)

    def test_prepare_in_background(self):
        exe = self.two()
        seen = []
        preparation = exe.prepare(batch=[1, 2, 3], length=9, background=True, progress=seen.append)
        preparation.wait(60)
        self.assertTrue(preparation.done)
        self.assertEqual(preparation.progress, (3, 0, 3))
        self.assertEqual(seen[-1], rlx.Progress(done=3, failed=0, total=3))
        self.assertEqual([each.done for each in seen], [1, 2, 3])
        self.assertEqual(exe.stats()["entries"], 3)
        preparation.wait()

    def test_cancel(self):
        exe = self.two()
        preparation = exe.prepare(batch=range(1, 400), length=[5, 6], background=True)
        preparation.cancel()
        try:
            preparation.wait(60)
        except rlx.Cancelled as error:
            self.assertEqual(error.code, rlx.ErrorCode.CANCELLED)
        self.assertTrue(preparation.done)
        # A callback that raises stops nothing.
        hook, sys.unraisablehook = sys.unraisablehook, lambda info: caught.append(info.exc_type)
        caught = []
        try:
            exe.prepare(batch=1, length=3, background=True, progress=lambda _: 1 / 0).wait(60)
        finally:
            sys.unraisablehook = hook
        self.assertEqual(caught, [ZeroDivisionError])

    def test_not_ready(self):
        exe = self.two()
        x = np.ones((2, 3), np.float32)
        deadline = time.monotonic() + 60
        with self.raises("NotReady", ".") as caught:
            exe.run([x, x], on_miss="fail")
        self.assertIsInstance(caught.exception, TimeoutError)
        while time.monotonic() < deadline:
            try:
                out = exe.run([x, x], on_miss="fail")
                break
            except rlx.NotReady:
                time.sleep(0.01)
        np.testing.assert_array_equal(out["sum"], x + x)
        exe.run([x, x], timeout=60)
        # Other sizes of the same template need no compiler, and so nobody has to wait.
        for options in ({"timeout": 0}, {"on_miss": "fail"}):
            big = np.ones((3 if "timeout" in options else 4, 7), np.float32)
            np.testing.assert_array_equal(exe.run([big, big], **options)["sum"], big + big)
        with self.raises("NotReady", "."):
            self.add().run([x, x], timeout=0)

    def test_binding(self):
        exe = self.two()
        self.assertEqual(exe.solve([ROWS, ONES]), {"batch": 2, "length": 3})
        out = exe.run({"x": ROWS, "y": ONES}, binding={"batch": 2})
        np.testing.assert_array_equal(out[0], ROWS + 1)
        with self.raises("Error", "batch"):
            exe.run({"x": ROWS, "y": ONES}, binding={"batch": 3})
        with self.raises("InvalidArgument", "rows"):
            exe.run({"x": ROWS, "y": ONES}, binding={"rows": 2})

    def test_hints(self):
        path = self.folder / "two.onnx"
        self.two()
        exe = rlx.load(path, hints={"batch": rlx.Hint(min=1, max=4), "length": {"multiple": 3, "likely": [3, 6]}})
        exe(ROWS, ONES)
        with self.raises("OutOfRange", "batch"):
            exe(np.ones((5, 3), np.float32), np.ones((5, 3), np.float32))
        with self.raises("OutOfRange", "length"):
            exe(np.ones((2, 4), np.float32), np.ones((2, 4), np.float32))
        for hints in ({"batch": {"most": 1}}, {"rows": {}}, {"batch": {"min": -1}}, {"batch": {"max": 0}}):
            with self.subTest(hints=hints), self.raises("InvalidArgument", "batch|rows"):
                rlx.load(path, hints=hints)

    def test_likely(self):
        self.two()
        hints = {"batch": rlx.Hint(likely=[1, 2]), "length": rlx.Hint(likely=[3, 5])}
        exe = rlx.load(self.folder / "two.onnx", hints=hints, prepare_likely=True)
        exe.likely.wait(60)
        self.assertEqual(exe.stats()["entries"], 4)
        self.assertIsNone(self.add().likely)

    def test_buckets(self):
        self.two()
        self.assertEqual(rlx.power_of_two(8, 32), [(1, 9), (9, 17), (17, 33)])
        hints = {"length": rlx.Hint(buckets=rlx.power_of_two(4, 16))}
        exe = rlx.load(self.folder / "two.onnx", hints=hints)
        for length in (1, 3, 4, 5, 9, 16):
            x = np.arange(2 * length, dtype=np.float32).reshape(2, length)
            out = exe(x, x)
            np.testing.assert_array_equal(out["product"], x * x)
        self.assertEqual(sorted(each.binding["length"] for each in exe.bindings()), [4, 8, 16])
        for low, high in ((3, 8), (8, 4), (0, 4)):
            with self.raises("InvalidArgument", "power"):
                rlx.power_of_two(low, high)


PARAM = """
rlx.graph @scaled(%x: tensor<?x4xf32, #rlx.dims<[N, 4]>> {rlx.name = "x"}) -> (tensor<?x4xf32> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"N">]} {
  %s = rlx.param "s" : tensor<4xf32>
  %0 = rlx.mul %x, %s : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<4xf32> -> tensor<?x4xf32>
  rlx.output %0 : tensor<?x4xf32>
}
"""
RANDOM = """
rlx.graph @noise(%x: tensor<?xf32, #rlx.dims<[N]>> {rlx.name = "x"}) -> (tensor<?xf32> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"N">]} {
  %r = rlx.random_uniform key 3 {low = 0.0 : f64, high = 1.0 : f64} : tensor<?xf32, #rlx.dims<[N]>>
  %0 = rlx.add %x, %r : tensor<?xf32, #rlx.dims<[N]>>, tensor<?xf32, #rlx.dims<[N]>> -> tensor<?xf32>
  rlx.output %0 : tensor<?xf32>
}
"""


def philox(seed: int, key: int, step: int, count: int) -> np.ndarray:
    """Philox 4x32-10, written from its paper; uniform as docs say: (word >> 8) * 2^-24."""
    words = []
    for block in range((count + 3) // 4):
        counter = [block & 0xFFFFFFFF, block >> 32, key, step]
        k = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
            counter = [
                (b >> 32) ^ counter[1] ^ k[0],
                b & 0xFFFFFFFF,
                (a >> 32) ^ counter[3] ^ k[1],
                a & 0xFFFFFFFF,
            ]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words += counter
    return np.array([(word >> 8) * 2.0**-24 for word in words[:count]], np.float32)


class StateTest(Folder):
    def module(self, name: str, text: str, **options) -> "rlx.Executable":
        path = self.folder / f"{name}.mlir"
        path.write_text(text)
        return rlx.load(path, threads=1, **options)

    def test_params(self):
        exe = self.module("param", PARAM)
        x = np.ones((2, 4), np.float32)
        self.assertEqual(list(exe.params), ["s"])
        self.assertTrue("s" in exe.params and "t" not in exe.params)
        with self.raises("Error", "s"):
            exe(x)
        exe.params["s"] = np.array([1, 2, 3, 4], np.float32)
        np.testing.assert_array_equal(exe(x)[0], [1, 2, 3, 4])
        exe.params.finalize()
        twin = exe.clone()
        exe.params.update({"s": [5, 6, 7, 8]})
        np.testing.assert_array_equal(exe(x[:1])[0], [5, 6, 7, 8])
        np.testing.assert_array_equal(exe(x)[0], [5, 6, 7, 8])
        np.testing.assert_array_equal(twin(x)[0], [1, 2, 3, 4])
        self.assertEqual(twin.stats(), exe.stats())
        for name, bad, pattern in (
            ("t", [1, 2, 3, 4], "no param 't'"),
            ("s", np.zeros(4), "param 's' is f32, the array is float64"),
            ("s", np.zeros(3, np.float32), r"\[4\], the array is \[3\]"),
            ("s", np.zeros((2, 2), np.float32), r"\[4\], the array is \[2,2\]"),
        ):
            with self.subTest(bad=bad), self.raises("InvalidArgument", pattern):
                exe.params[name] = bad

    def test_rng(self):
        zeros = np.zeros(9, np.float32)
        exe = self.module("noise", RANDOM, seed=7)
        self.assertEqual(exe.rng, rlx.Rng(seed=7, step=0))
        np.testing.assert_array_equal(exe(zeros), philox(7, 3, 0, 9))
        np.testing.assert_array_equal(exe.run([zeros], step=5)[0], philox(7, 3, 5, 9))
        exe.rng = 2**63 + 1
        np.testing.assert_array_equal(exe(zeros), philox(2**63 + 1, 3, 0, 9))
        exe.rng = rlx.Rng(seed=1, step=2)
        np.testing.assert_array_equal(exe(zeros), philox(1, 3, 2, 9))
        out = np.empty(9, np.float32)
        exe.bind_io(zeros, out, step=4)()
        np.testing.assert_array_equal(out, philox(1, 3, 4, 9))
        for bad in (-1, 2**64, 1.5):
            with self.raises("InvalidArgument", "seed"):
                exe.rng = bad
        with self.raises("InvalidArgument", "step"):
            exe.run([zeros], step=2**32)

    def test_close(self):
        with self.add() as exe:
            exe(ROWS, ONES)
            run = exe.bind_io([ROWS, ONES], np.empty((2, 3), np.float32))
        self.assertTrue(exe.closed)
        for call in (lambda: exe(ROWS, ONES), exe.stats, run, exe.clone, lambda: exe.prepare(batch=1)):
            with self.raises("InvalidArgument", "closed"):
                call()
        exe.close()
        engine = rlx.Engine(threads=1)
        engine.close()
        with self.raises("InvalidArgument", "closed"):
            engine.trim()

    def test_issue_close_while_it_is_used(self):
        # A preparation that somebody waits for, an engine that somebody loads with.
        exe = self.add()
        # Slow, or it may be done before it is closed.
        preparation = exe.prepare(batch=range(1, 2000), background=True, progress=lambda _: time.sleep(0.02))
        ended = []

        def wait():
            try:
                ended.append(preparation.wait())
            except rlx.Error as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.01)
        preparation.close()
        thread.join()
        self.assertIsInstance(ended[0], rlx.Cancelled)
        path = self.folder / f"add{TensorProto.FLOAT}.onnx"
        for _ in range(20):
            engine = rlx.Engine(threads=1)
            loaded = []

            def load():
                try:
                    loaded.append(rlx.load(path, engine=engine))
                except rlx.InvalidArgument as error:
                    loaded.append(error)

            thread = threading.Thread(target=load)
            thread.start()
            engine.close()
            thread.join()
            if not isinstance(loaded[0], rlx.Executable):
                self.assertIn("closed", str(loaded[0]))

    def test_issue_bound_array_of_another_shape(self):
        exe = self.add()
        x, z = ROWS.copy(), np.empty((2, 3), np.float32)
        run = exe.bind_io([x, ONES], z)
        x.shape = (3, 2)
        others = [np.empty((7, 7)) for _ in range(100)]  # in the place of the old shape
        run()
        np.testing.assert_array_equal(z, ROWS + 1)
        self.assertEqual(len(others), 100)

    def test_engines(self):
        lines = []
        self.add()
        path = self.folder / f"add{TensorProto.FLOAT}.onnx"
        with rlx.Engine(threads=2, cache_entries=1, log=lines.append) as engine:
            self.assertEqual(engine.threads, 2)
            one, two = rlx.load(path, engine=engine), rlx.load(path, engine=engine)
            one(ROWS, ONES)
            kernels = engine.kernels
            self.assertGreater(kernels, 0)
            self.assertGreater(engine.code_bytes, 0)
            two(ROWS, ONES)
            self.assertEqual(engine.kernels, kernels)
            two(ROWS[:1], ONES[:1])
            self.assertEqual(two.stats()["evictions"], 1)
            engine.trim()
        self.assertEqual(len(lines), 3)
        self.assertIn("batch=2", lines[0])
        two(ROWS, ONES)  # the engine's handle was let go of, not the engine
        for options in (
            {"threads": 0},
            {"threads": -1},
            {"threads": "2"},
            {"cache_entries": 0},
            {"compiler": "elsewhere"},
            {"background_threads": 65},
            {"worker_timeout": float("nan")},
            {"log": 5},
        ):
            with self.subTest(options=options), self.raises("InvalidArgument", next(iter(options))):
                rlx.Engine(**options)
        with self.raises("InvalidArgument", "threads"):
            rlx.load(path, engine=engine, threads=2)

    def test_a_log_that_refers_to_its_engine(self):
        """The engine goes, although its log function holds on to it, when Python's collector finds the cycle."""

        class Holder:
            def log(self, line):
                self.last = line

        holder = Holder()
        holder.engine = rlx.Engine(threads=1, log=holder.log)
        gone = weakref.ref(holder)
        del holder
        gc.collect()
        self.assertIsNone(gone())

    def test_worker(self):
        self.add()
        path = self.folder / f"add{TensorProto.FLOAT}.onnx"
        exe = rlx.load(path, engine=rlx.Engine(threads=1, compiler="worker"))
        np.testing.assert_array_equal(exe(ROWS, ONES), ROWS + 1)


class ErrorsTest(Folder):
    def test_hierarchy(self):
        also = {
            "InvalidArgument": ValueError,
            "Unsupported": NotImplementedError,
            "IoError": OSError,
            "NotReady": TimeoutError,
        }
        codes = set()
        for name in (
            "InvalidArgument InvalidModel Unsupported Unsolvable OutOfRange RunFailed IoError Internal NotReady Cancelled "
            "CompilerFailed"
        ).split():
            kind = getattr(rlx, name)
            self.assertTrue(issubclass(kind, rlx.Error) and issubclass(kind, also.get(name, Exception)))
            self.assertEqual(kind("text").code, kind.code)
            self.assertEqual(str(kind("text")), "text")
            codes.add(kind.code)
        self.assertEqual(codes, set(rlx.ErrorCode))

    def test_files(self):
        with self.raises("IoError", "none.onnx") as caught:
            rlx.load(self.folder / "none.onnx")
        self.assertEqual(caught.exception.code, rlx.ErrorCode.IO)
        (self.folder / "bad.onnx").write_bytes(b"\x08\xff")
        with self.assertRaises(rlx.Error):
            rlx.load(str(self.folder / "bad.onnx"))
        for path, weights in (("bad.onnx\0.mlir", None), ("bad.mlir", "a\0b")):  # issue: another file was opened
            with self.raises("InvalidArgument", "zero byte"):
                rlx.load(path, weights_file=weights)
        graph = helper.make_graph(
            [helper.make_node("StringNormalizer", ["x"], ["y"], name="odd")],
            "odd",
            [value("x", TensorProto.STRING, "n")],
            [value("y", TensorProto.STRING, "n")],
        )
        with self.raises("Error", "odd|StringNormalizer|x|y"):
            rlx.load(save(graph, self.folder / "odd.onnx"))
        for wrong in (lambda: rlx.load(5), lambda: rlx.load("a.mlir", weights_file=5)):
            with self.assertRaisesRegex(TypeError, "str, bytes or os.PathLike, not 5"):
                wrong()
        with self.raises("InvalidArgument", "no form in the encoding"):
            rlx.load("a\ud800.onnx")

    def test_paths_of_all_kinds(self):
        """Issue: bytes, and names that are not UTF-8, were a TypeError that did not say what is wanted."""
        self.add()
        data = next(self.folder.glob("add*.onnx")).read_bytes()
        plain = os.fsencode(self.folder)
        for name in (b"add.onnx", b"caf\xc3\xa9.onnx", b"\xff\xfe odd.onnx"):
            path = plain + b"/" + name
            with open(path, "wb") as file:
                file.write(data)
            for way in (path, os.fsdecode(path), pathlib.Path(os.fsdecode(path))):
                with self.subTest(way=way):
                    np.testing.assert_array_equal(rlx.load(way, threads=1)(x=ROWS, y=ONES), ROWS + 1)
        with self.raises("IoError", "none"):
            rlx.load(plain + b"/none\xff.onnx")
        with self.raises("InvalidArgument", "zero byte"):
            rlx.load(b"a\0b.onnx")

    def test_names_that_are_none(self):
        """Issue: what has no form in UTF-8 was a TypeError, and C ends names at a zero byte."""
        exe = self.two()
        sizes = {"batch": 2, "length": 3}
        for odd in ("batch\ud800", "batch\0", 5, b"batch"):
            for call in (
                lambda: exe.run([ROWS, ONES], binding={odd: 2}),
                lambda: exe.forecast({**sizes, odd: 2}),
                lambda: exe.solve([ROWS, ONES], {odd: 2}),
                lambda: exe.prepare({**sizes, odd: 2}),
                lambda: exe.params.update({odd: ROWS}),
                lambda: exe.run({odd: ROWS, "y": ONES}),
                lambda: exe.run([ROWS, ONES], outputs=[odd] if odd != 5 else ["\0"]),
                lambda: rlx.load(self.folder / "two.onnx", hints={odd: rlx.Hint(max=5)}),
            ):
                with self.subTest(odd=odd), self.raises("InvalidArgument", "name|input|output|dim|param"):
                    call()

    def test_inputs(self):
        exe = self.two()
        wide = np.ones((2, 4), np.float32)
        for call, kind, pattern in (
            (lambda: exe(x=ROWS), "InvalidArgument", r"input 'y' is f32 \[batch,length\], and was not given"),
            (lambda: exe(), "InvalidArgument", "'x' .*'y'"),
            (lambda: exe(x=ROWS, y=ONES, z=ONES), "InvalidArgument", "no input 'z'; there is 'x', 'y'"),
            (lambda: exe(ROWS, ONES, ONES), "InvalidArgument", "2 inputs, 3"),
            (lambda: exe(ROWS, ONES, x=ROWS), "InvalidArgument", "'x' was given twice"),
            (lambda: exe(x=ROWS, y=wide), "Error", "length.*3.*4|length.*4.*3"),
            (lambda: exe(x=ROWS, y=ONES[0]), "InvalidArgument", "'y'"),
            (lambda: exe(x=ROWS.astype(np.float64), y=ONES), "InvalidArgument", "'x' is f32, the array is float64"),
            (lambda: exe(x=ROWS.astype(np.complex64), y=ONES), "InvalidArgument", "the array is complex64"),
            (lambda: exe(x=np.array([["a"]]), y=ONES), "InvalidArgument", "the array is <U1"),
            (lambda: exe(x=np.ma.masked_array(ROWS, ROWS > 2), y=ONES), "InvalidArgument", "masked"),
            (lambda: exe(x=None, y=ONES), "InvalidArgument", "'x' is f32, the array is object"),
            (lambda: exe.run(5), "InvalidArgument", "a dict, or a list of all 2"),
            (lambda: exe.run([ROWS, ONES], outputs="sum"), "InvalidArgument", "list of names"),
            (lambda: exe.run([ROWS, ONES], outputs=["all"]), "InvalidArgument", "no output 'all'"),
            (lambda: exe.run([ROWS, ONES], outputs=[2]), "InvalidArgument", "2 is no name"),
            (lambda: exe.run([ROWS, ONES], outputs=[-1]), "InvalidArgument", "-1 is no name"),
            (lambda: exe.run([ROWS, ONES], on_miss="later"), "InvalidArgument", "on_miss"),
            (lambda: exe.run([ROWS, ONES], timeout=-1), "InvalidArgument", "timeout"),
            (lambda: exe.run([ROWS, ONES], timeout="1"), "InvalidArgument", "timeout"),
            (lambda: exe.run([ROWS, ONES], step=-1), "InvalidArgument", "step"),
            (lambda: exe.run([ROWS, ONES], binding={"batch": 1.5}), "InvalidArgument", "batch"),
            (lambda: exe.run([ROWS, ONES], binding={"batch": 3}), "Error", "batch"),
        ):
            with self.subTest(pattern=pattern), self.raises(kind, pattern):
                call()
        for call in (lambda: exe.run(), lambda: exe.run([ROWS, ONES], colour=1), lambda: exe.run([ROWS], [ROWS])):
            with self.assertRaises(TypeError):
                call()
        np.testing.assert_array_equal(exe(ROWS, ONES)[0], ROWS + 1)  # it works as before

    def test_outputs(self):
        exe = self.two()
        inputs = {"x": ROWS, "y": ONES}
        out = np.empty((2, 3), np.float32)
        read_only = out.copy()
        read_only.flags.writeable = False
        shared = np.empty((4, 3), np.float32)
        for outputs, pattern in (
            ({"sum": out.astype(np.float64)}, "'sum' is f32, the array is float64"),
            ({"sum": out.astype(np.float16)}, "'sum' is f32, the array is float16"),
            ({"sum": out.astype(">f4")}, "foreign byte order"),
            ({"sum": out.T}, "not contiguous"),
            ({"sum": shared[::2]}, "not contiguous"),
            ({"sum": read_only}, "cannot be written"),
            ({"sum": [[0, 0, 0]] * 2}, "not a list"),
            ({"sum": out.reshape(3, 2)}, r"the array is \[3,2\], the output \[2,3\]"),
            ({"sum": out.reshape(6)}, r"\[6\], the output \[2,3\]"),
            ({"sum": np.empty((2, 4), np.float32)}, r"\[2,4\], the output \[2,3\]"),
            ({"total": out}, "no output 'total'"),
            ({"sum": out, "product": out}, "overlap|product"),
            ({"sum": shared[0:2], "product": shared[1:3]}, "overlap|product"),
            ({"sum": ROWS}, "overlap|x"),
            ([out], "2 outputs, 1"),
            (out, "a list of all 2"),
        ):
            with self.subTest(pattern=pattern), self.raises("InvalidArgument", pattern):
                exe.run_into(inputs, outputs)
        np.testing.assert_array_equal(ROWS, np.arange(6).reshape(2, 3))

    def test_data(self):
        graph = helper.make_graph(
            [helper.make_node("Gather", ["table", "index"], ["y"], name="lookup")],
            "gather",
            [value("index", TensorProto.INT64, "n")],
            [value("y", TensorProto.FLOAT, "n", 2)],
            [numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "table")],
        )
        exe = rlx.load(save(graph, self.folder / "gather.onnx"))
        np.testing.assert_array_equal(exe([0, -1]), [[0, 1], [4, 5]])
        with self.raises("RunFailed", "lookup.*3|3.*lookup") as caught:
            exe(np.array([0, 3]))
        self.assertEqual(caught.exception.code, rlx.ErrorCode.RUN_FAILED)


class ThreadsTest(Folder):
    def test_one_executable_in_many_threads(self):
        exe = self.two()
        wrong = []

        def work(seed: int) -> None:
            random = np.random.default_rng(seed)
            for _ in range(150):
                x = random.standard_normal((random.integers(1, 9), random.integers(1, 9))).astype(np.float32)
                total, product = exe(x, x)
                out = np.empty_like(x)
                exe.run_into({"x": x, "y": x}, {"product": out})
                if not (np.array_equal(total, x + x) and np.array_equal(product, x * x) and np.array_equal(out, x * x)):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=[seed]) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        stats = exe.stats()
        self.assertEqual(stats["hits"] + stats["misses"], 2 * 8 * 150)
        self.assertLessEqual(stats["misses"], 64)

    def test_the_gil_is_free_during_a_run(self):
        """Python goes on while another thread runs: it counts on, although that thread makes one call only."""
        exe = self.matmul(256)
        x = np.random.default_rng(2).standard_normal((4096, 256)).astype(np.float32)
        exe.prepare(batch=len(x))
        started, state = threading.Event(), {}

        def work() -> None:
            started.set()
            state["y"] = exe(x)
            state["after"] = counter

        counter = 0
        # With no switching but where the GIL is released.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            thread = threading.Thread(target=work)
            thread.start()
            started.wait()
            while thread.is_alive():
                counter += 1
                time.sleep(0)
        finally:
            sys.setswitchinterval(interval)
        thread.join()
        self.assertGreater(state["after"], 10)
        wanted = x.astype(np.float64)
        for _ in range(8):
            wanted = wanted @ self.weight
        np.testing.assert_allclose(state["y"], wanted, rtol=0, atol=1e-3)

    def test_close_during_a_run(self):
        exe = self.matmul(256)
        x = np.random.default_rng(2).standard_normal((2048, 256)).astype(np.float32)
        exe.prepare(batch=len(x))
        results = []
        threads = [threading.Thread(target=lambda: results.append(self.attempt(exe, x))) for _ in range(4)]
        for thread in threads:
            thread.start()
        exe.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 4)
        for result in results:
            if not isinstance(result, np.ndarray):
                self.assertIn("closed", str(result))

    @staticmethod
    def attempt(exe, x):
        try:
            return exe(x)
        except rlx.InvalidArgument as error:
            return error

    def test_a_bound_run_in_two_threads(self):
        exe = self.matmul(256)
        x = np.zeros((2048, 256), np.float32)
        run = exe.bind_io(x, np.empty_like(x))
        run()
        errors = []

        def work() -> None:
            try:
                for _ in range(5):
                    run()
            except rlx.InvalidArgument as error:
                errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(errors)
        self.assertIn("another thread", errors[0])
        run()

    def test_a_log_in_python_while_others_wait(self):
        """The thread that makes what the others wait for needs the GIL for its line of log: nobody else may hold it."""
        lines = []
        self.add()
        engine = rlx.Engine(threads=1, log=lambda line: (time.sleep(0.01), lines.append(line)))
        exe = rlx.load(self.folder / f"add{TensorProto.FLOAT}.onnx", engine=engine)
        threads = [threading.Thread(target=exe, args=[ROWS, ONES]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(exe.stats()["misses"], 1)
        self.assertEqual(len(lines), 1)


def python(text: str, *arguments: str, executable: str = sys.executable, **options) -> subprocess.CompletedProcess:
    """Runs a program with the package on its path."""
    environment = os.environ | {"PYTHONPATH": str(BUILD / "python" / "site")}
    return subprocess.run(
        [executable, "-X", "faulthandler", "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=options.pop("env", environment),
        **options,
    )


class ProcessTest(Folder):
    def run_program(self, text: str, *arguments: str) -> str:
        done = python(text, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_ends_with_work_going_on(self):
        """Python ends while specializations are being made in the background, with a Python function to be called, and
        with runs in daemon threads."""
        self.two()
        self.run_program(
            "import sys, threading, numpy as np, rlx\n"
            "exe = rlx.load(sys.argv[1], engine=rlx.Engine(log=lambda line: None))\n"
            "p = exe.prepare(batch=range(1, 500), length=7, background=True, progress=lambda counts: None)\n"
            "x = np.ones((2, 3), np.float32)\n"
            "def work():\n"
            "    while True:\n"
            "        try: exe(x, x)\n"
            "        except rlx.InvalidArgument: return\n"
            "[threading.Thread(target=work, daemon=True).start() for _ in range(3)]\n"
            "exe(x, x)\n",
            str(self.folder / "two.onnx"),
        )

    def test_example(self):
        """examples/python answers, at sizes that change with every request, and holds no more of them than it says."""
        environment = os.environ | {"PYTHONPATH": str(BUILD / "python" / "site")}
        command = [sys.executable, str(ROOT / "examples" / "python" / "server.py"), "--seconds", "2", "--threads", "3"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for line in re.findall(r"^\d s: .*$", done.stdout, re.M):
            answers, held, hits, misses = map(
                int, re.search(r"(\d+) answers; (\d+) .*? (\d+) hits, (\d+)", line).groups()
            )
            self.assertGreater(answers, 0)
            self.assertLessEqual(held, 64)
            self.assertGreaterEqual(hits + misses + 3, answers)  # hits of what is just being evicted are counted late
        self.assertRegex(done.stdout, r"\n\d+ answers in all; the last miss: ")

    def test_fork(self):
        """A child of a fork is told, rather than left waiting for threads that it does not have."""
        self.two()
        out = self.run_program(
            "import os, sys, numpy as np, rlx\n"
            "exe = rlx.load(sys.argv[1]); x = np.ones((2, 3), np.float32); exe(x, x)\n"
            "p = exe.prepare(batch=[5], length=5, background=True); p.wait()\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    try: exe(x, x)\n"
            "    except rlx.InvalidArgument as error: print('told' if 'fork' in str(error) else error, flush=True)\n"
            "    fresh = rlx.load(sys.argv[1], threads=1)\n"
            "    print(fresh(x, x)['sum'][0, 0], flush=True)\n"
            "else:\n"
            "    print(os.waitpid(child, 0)[1], exe(x, x)['sum'][0, 0])\n",
            str(self.folder / "two.onnx"),
        )
        self.assertEqual(out.split(), ["told", "2.0", "0", "2.0"])

    def test_interrupt(self):
        """Ctrl-C is heard while waiting for the background."""
        self.two()
        out = self.run_program(
            "import os, signal, sys, threading, time, rlx\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in a shell's background jobs
            "exe = rlx.load(sys.argv[1])\n"
            "p = exe.prepare(batch=range(1, 3000), background=True, length=1, progress=lambda _: time.sleep(0.02))\n"
            "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "try: p.wait(); print('done too soon')\n"
            "except KeyboardInterrupt: print('heard')\n"
            "p.cancel()\n",
            str(self.folder / "two.onnx"),
        )
        self.assertEqual(out, "heard\n")


class PackageTest(Folder):
    def test_types(self):
        """The package and a program that uses it, as mypy sees them."""
        program = self.folder / "program.py"
        program.write_text(
            "import numpy as np\n"
            "import rlx\n"
            "exe = rlx.load('model.onnx', threads=2, hints={'batch': rlx.Hint(likely=[1])})\n"
            "x = np.zeros((1, 3), np.float32)\n"
            "out: rlx.Outputs = exe.run({'x': x}, outputs=['y'], on_miss='fail', timeout=1.0)\n"
            "exe.run_into([x], [x])\n"
            "nothing: None = exe.prepare(batch=[1, 8], seq=128)\n"
            "preparation: rlx.Preparation = exe.prepare(batch=1, background=True)\n"
            "binding: rlx.BindingInfo = exe.bindings()[0]\n"
            "code: rlx.ErrorCode = rlx.Error().code\n"
            "exe.params['w'] = x\n"
        )
        site = BUILD / "python" / "site"
        environment = os.environ | {"MYPYPATH": str(site)}
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(self.folder / "cache")]
        done = subprocess.run(
            [*command, str(program), str(site / "rlx")], capture_output=True, text=True, env=environment
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        program.write_text("import rlx\nexe = rlx.load('model.onnx')\nexe.run([1], on_miss='later')\nexe.nothing\n")
        done = subprocess.run([*command, str(program)], capture_output=True, text=True, env=environment)
        self.assertIn("Found 2 errors", done.stdout)

    def test_the_stub_is_the_extension(self):
        """The same classes, methods and functions. (What stubtest says of nanobind's own types is not about ours.)"""
        stub = {}
        for node in ast.parse((BUILD / "python" / "site" / "rlx" / "_rlx.pyi").read_text()).body:
            if isinstance(node, ast.ClassDef):
                stub[node.name] = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            elif isinstance(node, ast.FunctionDef):
                stub[node.name] = set()
        extension = {}
        for name, thing in vars(rlx._rlx).items():
            if not name.startswith("__"):
                members = set(vars(thing)) if isinstance(thing, type) else set()
                extension[name] = {
                    each for each in members if not each.startswith("_") or each in ("__init__", "__call__")
                }
        self.assertEqual(stub, extension)

    def test_docstrings(self):
        for name in rlx.__all__:
            thing = getattr(rlx, name)
            self.assertTrue(thing.__doc__, name)
            for member, what in vars(thing).items() if isinstance(thing, type) else ():
                if not member.startswith("_") and (callable(what) or isinstance(what, property)):
                    self.assertTrue(what.__doc__, f"{name}.{member}")
        for method in ("run", "run_into"):
            self.assertIn("inputs", getattr(rlx.Executable, method).__text_signature__)

    def test_wheel_in_a_clean_environment(self):
        """With numpy alone (no ml_dtypes), the wheel installs and runs; LLVM is not in it."""
        (wheel,) = (BUILD / "python" / "wheel").glob("*.whl")
        self.assertLess(wheel.stat().st_size, 1 << 20)
        venv.create(self.folder / "venv", with_pip=True)
        clean = self.folder / "venv" / "bin" / "python"
        # numpy comes from here, so that nothing has to be downloaded.
        here = pathlib.Path(np.__file__).parent.parent
        there = self.folder / "venv" / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        for part in here.glob("numpy*"):
            (there / part.name).symlink_to(part)
        command = [str(clean), "-m", "pip", "install", "--disable-pip-version-check", "--no-index", str(wheel)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        bf16 = (
            'rlx.graph @twice(%x: tensor<?xbf16, #rlx.dims<[N]>> {rlx.name = "x"}) -> (tensor<?xbf16> {rlx.name = "y"})\n'
            '    attributes {dims = [#rlx.dim<"N">]} {\n'
            "  %0 = rlx.add %x, %x : tensor<?xbf16, #rlx.dims<[N]>>, tensor<?xbf16, #rlx.dims<[N]>> -> tensor<?xbf16>\n"
            "  rlx.output %0 : tensor<?xbf16>\n"
            "}\n"
        )
        (self.folder / "bf16.mlir").write_text(bf16)
        text = (
            "import json, sys, numpy as np, rlx\n"
            "join = rlx.load(sys.argv[1])\n"
            "z = join(x=np.ones((2, 4), np.float32), y=np.full((3, 4), 5, np.float32))\n"
            "twice = rlx.load(sys.argv[2])\n"
            "y = twice([1.5, 3.14])\n"
            "maps = {line.split()[-1] for line in open('/proc/self/maps') if 'librlx.so' in line}\n"
            "print(json.dumps([z.tolist(), y.dtype.name, y.tolist(), rlx.__file__, sorted(maps), rlx.__version__]))\n"
        )
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = python(
            text,
            str(ROOT / "examples" / "join.mlir"),
            str(self.folder / "bf16.mlir"),
            executable=str(clean),
            env=environment,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        z, dtype, y, file, maps, version = json.loads(done.stdout)
        self.assertEqual(z, [[2.0] * 4] * 2 + [[10.0] * 4] * 3)
        self.assertEqual((dtype, y), ("float32", [3.0, 6.28125]))
        self.assertIn(str(self.folder), file)
        # One librlx: the one that is installed.
        self.assertEqual([pathlib.Path(each).is_relative_to(BUILD / "python" / "prefix") for each in maps], [True])
        self.assertEqual(version, "0.1.0")


if __name__ == "__main__":
    unittest.main()
