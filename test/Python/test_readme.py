"""What the README shows is what the tools print."""

import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["RLX_BUILD"])


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / "README.md").read_text()

    def test_the_example_is_the_file(self):
        blocks = re.findall(r"```mlir\n(.*?)```", self.text, re.S)
        self.assertEqual(blocks, [(ROOT / "examples" / "join.mlir").read_text()])

    def test_commands_print_what_is_shown(self):
        shown = re.findall(r"```\n\$ build/(bin/rlx-opt .*?)\n(.*?)```", self.text, re.S)
        self.assertEqual(len(shown), 3)
        for command, output in shown:
            words = shlex.split(command)
            done = subprocess.run([str(BUILD / words[0]), *words[1:]], capture_output=True, text=True, cwd=ROOT)
            self.assertEqual(done.returncode, 0, done.stderr)
            printed = [line.rstrip() for line in done.stdout.splitlines()]
            # "..." stands for lines left out; the others follow one another.
            at = 0
            for line in output.splitlines():
                if line != "...":
                    with self.subTest(command=command, line=line):
                        self.assertIn(line, printed[at:])
                        at += printed[at:].index(line) + 1

    def test_links_lead_somewhere(self):
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
            for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
                with self.subTest(page=page.name, target=target):
                    self.assertTrue((page.parent / target).exists())


if __name__ == "__main__":
    unittest.main()
