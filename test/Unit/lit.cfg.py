# Runs the GoogleTest programs of the build folder under lit, so that one command and one count cover every test.
import os

import lit.formats

config.name = "rlx-unit"
config.suffixes = []
config.test_source_root = os.path.join(config.rlx_build_dir, "unittests", "bin")
config.test_exec_root = config.test_source_root
config.test_format = lit.formats.GoogleTest(".", "")
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# LLVM's allocator poisons memory where it was built to, and the packaged dylibs were not: without this ASan reports errors
# that are none.
config.environment.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0")
