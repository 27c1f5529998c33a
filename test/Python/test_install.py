"""What `cmake --install` gives: programs built against it, on their own, with values checked."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["RLX_BUILD"])
JOIN = ROOT / "examples" / "join.mlir"

# No program finds a library, or a compiler, by what the environment says unless a test says so.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH") and not name.startswith("RLX_")
}


def run(*command, env=None, **options) -> str:
    """What a command prints. Its failure is that of the test, with all that it said."""
    command = list(map(str, command))
    done = subprocess.run(command, capture_output=True, text=True, env={**CLEAN, **(env or {})}, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\nended with code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def from_cache(name: str) -> str:
    """A variable of the build that is tested."""
    found = re.search(rf"^{name}(:\w+)?=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(2) if found else ""


def needed(library: pathlib.Path) -> "list[str]":
    """The libraries that one asks the loader for."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))


def libraries_of(library: pathlib.Path) -> "set[str]":
    """All libraries that come with one."""
    return {line.split()[0] for line in run("ldd", library).splitlines() if line.strip()}


def expect_join(n: int, m: int) -> str:
    """The line that embed-c prints of join.mlir: twice what it fills x and y with, one behind the other."""
    values = [i * 0.5 for i in range(4 * n)] + [i * 0.5 for i in range(4 * m)]
    shown = "".join(f" {value:g}" for value in values[:12]) + (" ..." if len(values) > 12 else "")
    return f"  z: f32 [{n + m},4]{shown}"


@unittest.skipIf(from_cache("RLX_SANITIZE"), "programs without sanitizers cannot use libraries with them")
class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.prefix = cls.folder / "installed"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.lib = next(cls.prefix.glob("lib/**/librlx.so")).parent

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def build_example(self, name: str, prefix: pathlib.Path, *flags: str) -> pathlib.Path:
        build = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        source = ROOT / "examples" / name
        run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *flags)
        run("cmake", "--build", build)
        return build / name

    def build_host(self, prefix: pathlib.Path, name: str, *more) -> pathlib.Path:
        lib = prefix / self.lib.relative_to(self.prefix)
        program = self.folder / name
        run(
            *("cc", "-std=c99", "-D_GNU_SOURCE", "-rdynamic", ROOT / "test" / "Install" / "host.c", *more),
            *("-o", program, "-I", prefix / "include", "-L", lib, f"-Wl,-rpath,{lib}", "-lrlx", "-ldl"),
        )
        return program

    def check_embed_c(self, program: pathlib.Path, env=None):
        lines = run(program, JOIN, "N=2,M=1", "N=0,M=2", "N=2,M=1", "M=3,N=5", env=env).splitlines()
        self.assertEqual(lines[0], "N=2,M=1 (new)")
        self.assertEqual(lines[1], expect_join(2, 1))
        self.assertEqual(lines[3], expect_join(0, 2))
        self.assertEqual(lines[4], "N=2,M=1 (hit)")
        self.assertEqual(lines[5], expect_join(2, 1))
        self.assertEqual(lines[7], expect_join(5, 3))
        self.assertRegex(lines[8], r"^rlx \d+\.\d+\.\d+: 1 hits, 3 misses, 1 templates, .*3 bindings held$")

    def check_embed_cpp(self, program: pathlib.Path):
        lines = run(program, JOIN, 6).splitlines()
        for r in range(6):
            n, m = 1 + r % 4, 1 + (r + 1) % 4
            total = 2 * sum(r + 0.25 * i for rows in (n, m) for i in range(4 * rows))
            self.assertEqual(lines[r], f"{{M={m}, N={n}}}  z [{n + m},4] sum {total:g}")
        self.assertRegex(lines[6], r"^1 templates, 4 specializations held")
        self.assertEqual(len(lines), 11)

    # Examples

    def test_every_example_is_tested(self):
        names = {path.parent.name for path in (ROOT / "examples").glob("*/CMakeLists.txt")}
        self.assertEqual(names, {"embed-c", "embed-cpp", "embed-compiler"})

    def test_embed_c(self):
        # With neither LLVM nor FlatBuffers to be found.
        missing = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("MLIR", "LLVM", "FlatBuffers")]
        program = self.build_example("embed-c", self.prefix, "-DCMAKE_C_FLAGS=-Werror", *missing)
        self.check_embed_c(program)
        # What it says of a mistake.
        done = subprocess.run([program, JOIN, "N=2"], capture_output=True, text=True, env=CLEAN)
        self.assertEqual(done.returncode, 1)
        self.assertIn("axis 0 of input 'y' is M", done.stderr)

    def test_embed_cpp(self):
        missing = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("MLIR", "LLVM")]
        self.check_embed_cpp(self.build_example("embed-cpp", self.prefix, "-DCMAKE_CXX_FLAGS=-Werror", *missing))

    def test_embed_compiler(self):
        program = self.build_example("embed-compiler", self.prefix)
        self.assertIn("librlx-compiler.so", " ".join(needed(program)))
        run(program)  # it compares its values with its own arithmetic

    def test_programs_in_the_docs(self):
        text = (ROOT / "docs" / "Embedding.md").read_text()
        env = {"PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "rlx", env=env).split()
        for kind, compiler in (("c", ["cc", "-std=c99", "-pedantic"]), ("cpp", ["c++", "-std=c++20"])):
            (program,) = [code for code in re.findall(rf"```{kind}\n(.*?)```", text, re.S) if "int main" in code]
            source = self.folder / f"from-the-docs.{kind}"
            source.write_text(program)
            run(*compiler, "-Wall", "-Wextra", "-Werror", source, "-o", self.folder / kind, *flags)
            self.assertEqual(run(self.folder / kind, JOIN, env={"LD_LIBRARY_PATH": str(self.lib)}), "2 8\n")

    def test_pkg_config(self):
        env = {"PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "rlx", env=env).split()
        program = self.folder / "embed-c-by-hand"
        warnings = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
        run("cc", *warnings, ROOT / "examples" / "embed-c" / "main.c", "-o", program, *flags)
        self.check_embed_c(program, env={"LD_LIBRARY_PATH": str(self.lib)})
        compiler = run("pkg-config", "--cflags", "--libs", "rlx-compiler", env=env)
        for flag in ("-lrlx-compiler", "-lrlx", "-lMLIR", "-lLLVM"):
            self.assertIn(flag, compiler.split())

    def test_moved(self):
        moved = self.folder / "moved to" / "another place"
        moved.parent.mkdir()
        shutil.copytree(self.prefix, moved, symlinks=True)
        # Nothing of the first place may help.
        hidden = self.prefix.rename(self.folder / "hidden")
        try:
            self.check_embed_c(self.build_example("embed-c", moved))
            self.check_embed_cpp(self.build_example("embed-cpp", moved))
            program = self.build_host(moved, "host-moved")
            for place in ("process", "worker"):
                self.assertEqual(run(program, JOIN, "last", "-", place), "right\n")
            env = {"PKG_CONFIG_PATH": str(moved / self.lib.relative_to(self.prefix) / "pkgconfig")}
            self.assertIn(str(moved), run("pkg-config", "--cflags", "rlx", env=env).replace("\\ ", " "))
        finally:
            hidden.rename(self.prefix)

    def test_components_that_are_not_there(self):
        source = self.folder / "asks"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(asks LANGUAGES C CXX)\n"
            "find_package(Rlx ${asked} REQUIRED)\nif(NOT TARGET Rlx::Runtime)\nmessage(FATAL_ERROR no)\nendif()\n"
        )
        ask = ["cmake", "-G", "Ninja", "-S", source, "-B", self.folder / "asks-build"]
        ask += [f"-DCMAKE_PREFIX_PATH={self.prefix}"]
        run(*ask, "-Dasked=")
        with self.assertRaisesRegex(AssertionError, "no component Pallas"):
            run(*ask, "-Dasked=COMPONENTS;Pallas")
        with self.assertRaisesRegex(AssertionError, "compatible"):
            run(*ask, "-Dasked=99.0")

    def test_tools_run(self):
        listed = run(self.prefix / "bin" / "rlx-run", JOIN, "--list")
        self.assertIn("N", listed)
        self.assertIn("rlx.concat", run(self.prefix / "bin" / "rlx-opt", JOIN))

    # What is in the libraries

    def test_size_and_dependencies_of_the_runtime(self):
        library = self.folder / "stripped.so"
        run("strip", "-o", library, (self.lib / "librlx.so").resolve())
        size, names = library.stat().st_size, needed(library)
        kind = from_cache("CMAKE_BUILD_TYPE")
        print(f"      librlx.so: {size / 1e6:.2f} MB stripped ({kind}); needs {', '.join(names)}", flush=True)
        system = {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6"}
        self.assertLessEqual({name for name in names if not name.startswith("ld-linux")}, system)
        for name in libraries_of(self.lib / "librlx.so"):
            self.assertNotRegex(name.lower(), "llvm|mlir|protobuf|onnx")
        if kind == "Release":
            self.assertLess(size, 2_000_000)

    def test_exported_symbols_are_ours(self):
        declared = set(re.findall(r"\b(rlx_\w+)\(", (self.prefix / "include/rlx/rlx.h").read_text()))
        ours = re.compile(r"_ZN3rlx|_ZNK3rlx|_ZT[VTIS]N3rlx|_ZT[hvc].*_N3rlx")
        typeids = re.compile(r"_ZN4mlir6detail14TypeIDResolverIN3rlx")
        for name in ("librlx.so", "librlx-compiler.so"):
            lines = run("nm", "-D", "--defined-only", self.lib / name).splitlines()
            symbols = {line.split()[-1].split("@")[0] for line in lines}
            foreign = {symbol for symbol in symbols if not ours.match(symbol)}
            if name == "librlx.so":
                self.assertEqual(foreign, {name for name in declared if name in symbols})
                functions = set(re.findall(r"RLX_API [^;(]*?\b(rlx_\w+)\(", (ROOT / "include/rlx/rlx.h").read_text()))
                self.assertGreater(len(functions), 40)
                self.assertEqual(foreign, functions)
            else:
                self.assertEqual({s for s in foreign if not typeids.match(s)}, {"rlxCompilerLibrary"})

    def test_headers_need_nothing_else(self):
        include = self.prefix / "include"
        for flags in (["-x", "c", "-std=c99"], ["-x", "c++", "-std=c++11"], ["-x", "c++", "-std=c++20"]):
            with self.subTest(flags=flags):
                command = ["c++" if "c++" in flags else "cc", *flags, "-Wall", "-Wextra", "-pedantic", "-Werror"]
                run(*command, "-fsyntax-only", "-I", include, "-", input='#include "rlx/rlx.h"\nint rlx;\n')
        rooms = ("Support", "Data", "Runtime")
        headers = [header.relative_to(include) for room in rooms for header in include.glob(f"rlx/{room}/*.h")]
        self.assertGreater(len(headers), 15)
        for header in headers:
            self.assertNotRegex((include / header).read_text(), r'#include ["<](llvm|mlir)/')
        # One behind the other, each before those it is included by in turn.
        for order in (sorted(headers), sorted(headers, reverse=True)):
            text = "".join(f'#include "{header}"\n' for header in order)
            run("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-I", include, "-x", "c++", "-", input=text)

    def test_nothing_points_to_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.suffix in (".cmake", ".pc", ".h", ".inc"):
                text = path.read_text()
                for place in (BUILD, ROOT, self.prefix):
                    self.assertNotIn(str(place), text, path)
        for path in [*self.lib.glob("*.so"), *(self.prefix / "bin").iterdir(), *self.prefix.glob("libexec/rlx/*")]:
            for paths in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", run("readelf", "-d", path)):
                self.assertNotIn(str(BUILD), paths, path)
                self.assertNotIn(str(ROOT), paths, path)

    # Hosts with an LLVM of their own

    def other_llvm(self) -> str:
        libraries = sorted(glob.glob("/usr/lib/*-linux-gnu/libLLVM-1[0-9].so.1"))
        if not libraries:
            self.skipTest("there is no other LLVM (libllvm15)")
        return libraries[-1]

    def test_host_with_another_llvm(self):
        program = self.build_host(self.prefix, "host")
        for order in ("first", "last"):
            with self.subTest(order=order):
                self.assertEqual(run(program, JOIN, order, self.other_llvm(), "process"), "right\n")

    def test_host_with_functions_of_llvms_names(self):
        """All that librlx-compiler.so wants of LLVM and MLIR is defined by the program too, and ends it when called."""
        lines = run("nm", "-D", "--undefined-only", self.lib / "librlx-compiler.so").splitlines()
        wanted = [line.split()[-1].split("@")[0] for line in lines]
        wanted = [name for name in wanted if re.match(r"_ZNK?4(llvm|mlir)", name)]
        plain = run("c++filt", input="\n".join(wanted)).splitlines()
        functions = [name for name, text in zip(wanted, plain) if text.endswith((")", ") const", ") &", ") const &"))]
        self.assertGreater(len(functions), 300)
        source = self.folder / "traps.c"
        text = "#include <stdlib.h>\n"
        for i, name in enumerate(functions):
            text += f'void trap{i}(void) __asm__("{name}");\nvoid trap{i}(void) {{ abort(); }}\n'
        source.write_text(text)
        program = self.build_host(self.prefix, "host-with-traps", source)
        exported = run("nm", "-D", "--defined-only", program)
        self.assertIn(functions[0], exported)
        for place in ("process", "worker"):
            with self.subTest(place=place):
                self.assertEqual(run(program, JOIN, "last", "-", place), "right\n")


if __name__ == "__main__":
    unittest.main()
