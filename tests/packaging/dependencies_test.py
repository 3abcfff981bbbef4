# SPDX-License-Identifier: Apache-2.0
"""make build installs packages only if it cannot do without, says which, and asks nothing: cmake/configure and
cmake/install-dependencies between programs that only pretend."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "structure"))

import project  # noqa: E402

PRETEND = {
    # Fails until apt-get has run, or always where the file "never" is there; -DDISTDL_SLURM=ON also without the file "slurm".
    "cmake": """echo "cmake $*" >> calls
[ ! -e never ] || { echo "no compiler"; exit 1; }
case "$*" in *DISTDL_SLURM=ON*) [ -e slurm ] || exit 1 ;; esac
[ -e installed ] || exit 1
echo "-- distdl: libslurm: OFF" """,
    "dpkg-query": """[ -e installed ] && echo -n installed""",
    "apt-get": """echo "apt-get $* $DEBIAN_FRONTEND" >> calls
case $1 in install) touch installed slurm ;; esac""",
    "id": "cat uid",
}


class Dependencies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        (self.top / "cmake").mkdir()
        for name in ("configure", "install-dependencies"):
            shutil.copy(project.ROOT / "cmake" / name, self.top / "cmake" / name)
        (self.top / "bin").mkdir()
        for name, text in PRETEND.items():
            program = self.top / "bin" / name
            program.write_text(f"#!/bin/bash\n{text}\n")
            program.chmod(0o755)
        self.be("0")

    def be(self, user):
        (self.top / "uid").write_text(user + "\n")

    def have(self, *names):
        for name in names:
            (self.top / name).touch()

    def run_script(self, name, *arguments):
        path = f"{self.top}/bin:{os.environ['PATH']}"
        return subprocess.run([self.top / "cmake" / name, *arguments], cwd=self.top, env={**os.environ, "PATH": path},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def calls(self):
        log = self.top / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def test_installs_nothing_where_configuring_succeeds(self):
        self.have("installed", "slurm")
        done = self.run_script("configure", "build", "-DMINE=1")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(len(self.calls()), 1)
        self.assertIn("-DDISTDL_ONEDNN=ON -DDISTDL_SENTENCEPIECE=ON -DDISTDL_SLURM=ON -DMINE=1", self.calls()[0])

    def test_installs_what_is_missing_and_says_so(self):
        done = self.run_script("configure", "build", "-DMINE=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "installing: .*libhdf5-dev.*libgtest-dev")
        self.assertNotRegex(done.stdout, r"slurmctld|slurmd|munge", "those are for tests and the demo")
        kinds = [call.split()[:2] for call in self.calls()]
        self.assertEqual([kind[0] for kind in kinds], ["cmake", "apt-get", "apt-get", "cmake"])
        self.assertEqual([kind[1] for kind in kinds[1:3]], ["update", "install"])
        self.assertRegex(self.calls()[2], " -y .* noninteractive$")
        self.assertIn("--fresh -DDISTDL_ONEDNN=AUTO -DDISTDL_SENTENCEPIECE=AUTO -DDISTDL_SLURM=AUTO -DMINE=1", self.calls()[3])

    def test_does_without_optional_parts_and_says_so(self):
        self.have("installed")
        self.be("1000")
        done = self.run_script("configure", "build")
        self.assertEqual((done.returncode, done.stdout), (0, "distdl: libslurm: OFF\n"), done.stderr)
        self.assertFalse([call for call in self.calls() if call.startswith("apt-get")])

    def test_names_what_is_missing_to_who_may_not_install(self):
        self.be("1000")
        done = self.run_script("configure", "build")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "not installed: .*libhdf5-dev.*as root on Debian: apt-get install")
        self.assertFalse([call for call in self.calls() if call.startswith("apt-get")])

    def test_shows_why_configuring_failed(self):
        self.have("installed", "slurm", "never")
        done = self.run_script("configure", "build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no compiler", done.stderr)

    def test_counts_programs_as_packages_and_refuses_other_groups(self):
        done = self.run_script("install-dependencies", "--checks", "python3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("python3", done.stdout)
        self.assertEqual(self.run_script("install-dependencies", "--everything").returncode, 64)

    def test_lists_packages_without_installing_any(self):
        done = self.run_script("install-dependencies", "--list", "--libraries", "mine")
        self.assertRegex(done.stdout, "^libfmt-dev,.*libhdf5-dev,.*,mine\n$")
        self.assertNotIn("g++", done.stdout)
        self.assertEqual(self.calls(), [])

    def test_says_what_compiling_for_arm_needs(self):
        shutil.copy(project.ROOT / "cmake" / "for-aarch64", self.top / "cmake")
        self.be("1000")
        self.assertEqual((self.run_script("for-aarch64").returncode, self.run_script("for-aarch64", "-DA=1").returncode), (64, 64))
        done = self.run_script("for-aarch64", "build")
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stderr, "as root on Debian: apt-get install .*g\\+\\+-aarch64-linux-gnu qemu-user-static")

    def test_refuses_versions_of_onednn_that_it_does_not_know(self):
        header = self.top / "oneapi" / "dnnl" / "dnnl_version.h"
        header.parent.mkdir(parents=True)
        for version, taken in (("2.5.4", False), ("2.6.0", True), ("2.7.5", True), ("3.0.0", True), ("3.13.2", True), ("4.0.0", False)):
            header.write_text("".join(f"#define DNNL_VERSION_{part} {number}\n"
                                      for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."))))
            done = subprocess.run(["cmake", f"-DDNNL_INCLUDE_DIR={self.top}", "-P", project.ROOT / "cmake" / "DistdlOneDnn.cmake"],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode == 0, taken, version)
            if not taken:
                self.assertRegex(" ".join(done.stderr.split()), f"needs oneDNN 2.6, 2.7 or 3.x, and .* has {version}: .*DISTDL_ONEDNN=OFF")

    def test_says_what_another_release_of_debian_needs(self):
        def in_debian(*arguments):
            return subprocess.run(["/bin/bash", project.ROOT / "cmake" / "in-debian", *arguments], capture_output=True, text=True, timeout=60, check=False,
                                  env={"PATH": f"{self.top}/few", "DISTDL_DEBIAN": str(self.top / "releases")})
        (self.top / "few").mkdir()
        for name in ("dirname", "readlink", "mkdir", "flock", "cat"):
            (self.top / "few" / name).symlink_to(shutil.which(name))
        self.assertEqual([in_debian(*words).returncode for words in (["13"], ["14", "true"], ["--clean", "13"])], [64, 64, 64])
        for words in (["13", "true"], ["--clean", "13", "true"]):
            done = in_debian(*words)
            self.assertEqual(done.returncode, 77)
            self.assertRegex(done.stderr, "^in-debian: (install mmdebstrap|must run as root)$")

    def test_commands_on_another_release_do_not_share_temporary_files(self):
        """Where the release is made already, and nobody is making it."""
        folder = pathlib.Path(os.environ.get("DISTDL_DEBIAN", pathlib.Path.home() / ".cache/distdl/debian"))  # XDG_CACHE_HOME is the tests' own
        if os.geteuid() != 0 or not (folder / "debian-13").is_dir():
            self.skipTest("cmake/in-debian has made no Debian 13 here")
        if subprocess.run(["flock", "-n", folder / "debian-13.lock", "true"], check=False).returncode != 0:
            self.skipTest("Debian 13 is being made")
        for _ in range(2):
            subprocess.run([project.ROOT / "cmake/in-debian", "13", "sh", "-c", "test ! -e /var/tmp/mark && touch /var/tmp/mark"],
                           check=True, timeout=150, env={**os.environ, "DISTDL_DEBIAN": str(folder)})


if __name__ == "__main__":
    project.main()
