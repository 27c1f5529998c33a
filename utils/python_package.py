"""Builds the Python package of a finished build: for the tests and for bench/dispatch.

What it makes lies in <build>/python: `prefix` is rlx as `cmake --install` leaves it, `wheel` holds the wheel, `site` the
package as pip installs it.
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


class PackageError(RuntimeError):
    """A step failed; the text ends with what it printed last."""


def run(what: str, command: "list[str]", **options) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise PackageError(f"{what} ended with code {done.returncode}\n{done.stdout[-4000:]}")


def install_rlx(build: pathlib.Path) -> pathlib.Path:
    """The prefix where rlx is installed."""
    prefix = build / "python" / "prefix"
    shutil.rmtree(prefix, ignore_errors=True)
    run("cmake --install", ["cmake", "--install", str(build), "--prefix", str(prefix)])
    return prefix


def make_wheel(build: pathlib.Path, prefix: pathlib.Path) -> pathlib.Path:
    """The wheel, built by this Python with the packages that it has: nothing is downloaded."""
    folder = build / "python" / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    command += ["--no-index", "--wheel-dir", str(folder), f"--config-settings=build-dir={build / 'python' / 'build'}"]
    if shutil.which("ccache"):
        command += ["--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    # pip's own copies of sources would defeat ccache, and a cached wheel would hide a change.
    command += ["--no-cache-dir", str(ROOT / "python")]
    run("pip wheel", command, env=os.environ | {"RLX_DIR": str(prefix)})
    (wheel,) = folder.glob("rlx-*.whl")
    return wheel


def install_wheel(wheel: pathlib.Path, site: pathlib.Path) -> pathlib.Path:
    """The folder to put on sys.path."""
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", "--no-deps"]
    run("pip install", [*command, "--target", str(site), str(wheel)])
    return site


def make(build: pathlib.Path) -> pathlib.Path:
    """All of it; the folder to put on sys.path."""
    return install_wheel(make_wheel(build, install_rlx(build)), build / "python" / "site")
