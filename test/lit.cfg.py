# How lit runs rlx's tests: tools come from the build folder, FileCheck and its friends from LLVM's.
#
# RLX_TEST_ROUNDTRIP=1 in the environment makes every rlx-opt also check that its input survives being printed and
# parsed, as text and as bytecode.
import os

import lit.formats

config.name = "rlx"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.rlx_build_dir, "test")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.rlx_build_dir, "bin"), config.llvm_tools_dir, config.environment["PATH"]]
)
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# LLVM's allocator poisons memory where it was built to, and the packaged dylibs were not: without this ASan reports errors
# that are none.
config.environment.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0")

if os.environ.get("RLX_TEST_ROUNDTRIP"):
    # The name as a word of its own: not inside a path, not rlx-opt-something.
    config.substitutions.append((r"(?<![\w./-])rlx-opt(?![\w./-])", "rlx-opt --verify-roundtrip"))

config.substitutions.append(("%rlx_src", config.rlx_source_dir))
config.substitutions.append(("%rlx_build", config.rlx_build_dir))
config.substitutions.append(("%rlx_plugin", os.path.join(config.rlx_build_dir, "lib", "RlxPlugin.so")))
config.substitutions.append(("%python", config.python))

# A test that needs a tool which this build has not says so with `REQUIRES: tool-NAME`.
for tool in config.rlx_tools.split(";"):
    if tool:
        config.available_features.add("tool-" + tool)
