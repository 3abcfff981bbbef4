# SPDX-License-Identifier: Apache-2.0
import glob
import os
import re

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import (
    Executable,
    SkipTest,
    conflicts,
    depends_on,
    extends,
    join_path,
    license,
    run_before,
    test_part,
    tty,
    variant,
    version,
    which,
    working_dir,
)

# This file lies in <sources>/spack/spack_repo/distdl/packages/distdl.
SOURCES = os.path.abspath(join_path(os.path.dirname(os.path.realpath(__file__)), *5 * [".."]))


def version_of_sources():
    """The version that CMake gives the sources; None where this file lies alone."""
    try:
        with open(join_path(SOURCES, "CMakeLists.txt"), encoding="utf-8") as file:
            found = re.search(r"^project\(distdl VERSION (\S+)", file.read(), re.MULTILINE)
    except OSError:
        return None
    return found and found.group(1)


def commit_of_sources():
    """The commit that is checked out; None in an unpacked release."""
    git = which("git")
    if not git or not os.path.exists(join_path(SOURCES, ".git")):
        return None
    head = git("-C", SOURCES, "rev-parse", "HEAD", output=str, error=str, fail_on_error=False)
    return head.strip() if git.returncode == 0 else None


VERSION, COMMIT = version_of_sources(), commit_of_sources()


class Distdl(CMakePackage, CudaPackage):
    """Distributed deep learning as a first-class job of a Slurm machine: whatever happens to the
    nodes, a training run ends with the weights it would have had if nothing had happened."""

    homepage = f"file://{SOURCES}/README.md"
    tags = ["hpc", "machine-learning", "deep-learning"]

    license("Apache-2.0")

    # A site that has the sources elsewhere adds the line that "make dist" prints, or sets the
    # attribute git of this package: see README.md in the folder spack.
    if VERSION and COMMIT:
        git = f"file://{SOURCES}"
        version(VERSION, commit=COMMIT)
    elif VERSION:
        has_code = False  # built from the release around this file: there is nothing to fetch
        root_cmakelists_dir = SOURCES
        version(VERSION)

    variant("onednn", default=True, description="Fast CPU backend on oneDNN")
    variant("sentencepiece", default=False, description="Tokenizers of SentencePiece")
    variant("slurm", default=False, description="Plug-in on libslurm instead of Slurm's commands")
    variant("gdr", default=False, when="+cuda", description="UCX that handles GPU memory itself")
    variant("nccl", default=False, when="+cuda", description="Plug-in for collectives by NCCL")
    variant("python", default=False, description="Python package")
    variant("shared", default=True, description="Build shared libraries")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type=("build", "test"))
    depends_on("pkgconfig", type=("build", "test"))

    depends_on("fmt@9:")
    depends_on("cli11@2:")
    depends_on("nlohmann-json@3.11:")
    depends_on("tomlplusplus@3:")
    depends_on("openssl@3:")
    depends_on("zlib-api")
    depends_on("zstd@1.4:")
    depends_on("libjpeg-turbo@2:")
    depends_on("libpng@1.6:")
    depends_on("libwebp@1:")
    depends_on("libarchive@3.4:")
    depends_on("boost@1.74: +atomic+chrono+date_time+filesystem+log+system+thread")
    depends_on("hdf5@1.10.5:+threadsafe")
    depends_on("ucx@1.12:")
    depends_on("pmix@4:")
    depends_on("googletest", type="test")

    depends_on("onednn@2.6:3 cpu_runtime=omp", when="+onednn")
    depends_on("sentencepiece@0.1.97:", when="+sentencepiece")
    depends_on("slurm@22-05:", when="+slurm")
    depends_on("cuda@12:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl", when="+nccl")
    depends_on("ucx+cuda+gdrcopy", when="+gdr")
    extends("python", when="+python")
    depends_on("python@3.9:", type=("build", "run"), when="+python")
    depends_on("py-numpy", type="run", when="+python")
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"nccl cuda_arch={arch}", when=f"+nccl cuda_arch={arch}")
        depends_on(f"ucx cuda_arch={arch}", when=f"+gdr cuda_arch={arch}")
        depends_on(f"gdrcopy cuda_arch={arch}", when=f"+gdr cuda_arch={arch}")

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: distdl +cuda cuda_arch=90")
    conflicts("%gcc@:11", msg="distdl is written in C++20")
    conflicts("%clang@:13", msg="distdl is written in C++20")

    sanity_check_is_file = [
        join_path("bin", "distdl"),
        join_path("include", "distdl", "version.hpp"),
        join_path("include", "distdl", "comm", "communicator.hpp"),
        join_path("share", "distdl", "sbatch", "train.sbatch"),
        join_path("share", "distdl", "examples", "mlp.toml"),
        join_path("share", "distdl", "examples", "consumer", "CMakeLists.txt"),
        join_path("share", "doc", "distdl", "README.md"),
        join_path("share", "man", "man1", "distdl.1"),
    ]
    sanity_check_is_dir = [
        join_path("modules", "lmod", "distdl"),
        join_path("modules", "tcl", "distdl"),
    ]

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("DISTDL_ONEDNN", "onednn"),
            self.define_from_variant("DISTDL_SENTENCEPIECE", "sentencepiece"),
            self.define_from_variant("DISTDL_SLURM", "slurm"),
            self.define_from_variant("DISTDL_CUDA", "cuda"),
            self.define_from_variant("DISTDL_PYTHON", "python"),
            self.define("DISTDL_NCCL", self.spec.satisfies("+nccl")),
            # Programs compile the module's source, which is installed.
            self.define("DISTDL_FORTRAN", False),
            self.define("BUILD_TESTING", self.run_tests),
            self.define("DISTDL_UNITY", "12"),  # sources at a time: half the processor time
        ]
        if self.spec.satisfies("+cuda"):
            arch = self.spec.variants["cuda_arch"].value
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", arch))
        if self.spec.satisfies("+python"):
            # Where python-venv, which "extends" brings, lets Python look.
            version = self.spec["python"].version.up_to(2)
            args.append(self.define("DISTDL_PYTHON_DIR", f"lib/python{version}/site-packages"))
        return args

    @run_before("cmake")
    def warn_of_slow_network(self):
        lib = join_path(self.spec["ucx"].prefix, "lib*")
        modules = [join_path(lib, *between, "ucx", "libuct_ib.so*") for between in ([], ["*"])]
        if not any(glob.glob(pattern) for pattern in modules):
            tty.warn(
                "this UCX has no verbs: over InfiniBand or RoCE distdl will be as slow as TCP; "
                "use the site's UCX as an external, or ucx+verbs+rc+ud+dc+mlx5_dv+rdmacm+cma"
            )

    def setup_run_environment(self, env):
        # PATH, MANPATH, CMAKE_PREFIX_PATH and PKG_CONFIG_PATH are set by Spack.
        env.set("DISTDL_ROOT", self.prefix)
        env.prepend_path("XDG_DATA_DIRS", self.prefix.share)  # completion in bash and fish

    # Stand-alone tests, `spack test run distdl`: no Slurm, no GPU, no network.

    def distdl(self, *arguments):
        """Output of the installed program."""
        return Executable(self.prefix.bin.distdl)(*arguments, output=str.split, error=str.split)

    def train(self, run_dir, ranks, epochs):
        """Trains the small example on generated images; the digest of its newest checkpoint."""
        if not os.path.exists("shapes.h5"):
            self.distdl("data", "make", "shapes", "shapes.h5", "--samples", "1200")
        settings = [
            "data.train=shapes.h5",
            "data.holdout=200",
            f"run.dir={run_dir}",
            f"train.epochs={epochs}",
            "optim.schedule=constant",
        ]
        job = join_path(self.prefix.share, "distdl", "examples", "mlp.toml")
        options = [word for setting in settings for word in ("--set", setting)]
        self.distdl("run", "--local", "-n", str(ranks), job, *options)
        return self.distdl("checkpoint", "digest", join_path(run_dir, "checkpoints"))

    def test_info(self):
        """the program starts, and knows its version, its keys and its example"""
        assert str(self.spec.version) in self.distdl("version")
        assert "[train]" in self.distdl("config", "--defaults")

    def test_selfcheck(self):
        """two local ranks train with all-reduce and leave a checkpoint that verifies"""
        with working_dir("selfcheck", create=True):
            self.train("run", ranks=2, epochs=1)
            self.distdl("checkpoint", "verify", join_path("run", "checkpoints"))

    def test_resume(self):
        """a run that was stopped and resumed on other ranks ends with the same bytes"""
        with working_dir("resume", create=True):
            undisturbed = self.train("whole", ranks=1, epochs=2)
            self.train("parts", ranks=2, epochs=1)
            assert self.train("parts", ranks=1, epochs=2) == undisturbed

    def test_python(self):
        """the Python package finds its library, and ranks of Python know each other"""
        if self.spec.satisfies("~python"):
            raise SkipTest("the variant python is off")
        says = "import distdl; print(distdl.run.rank(), 'of', distdl.world().size)"
        with working_dir("python", create=True):
            command = (self.spec["python"].command.path, "-c", says)
            said = self.distdl("run", "--local", "-n", "2", "--set", "run.dir=run", "--", *command)
            assert "1 of 2" in said

    def test_consumer(self):
        """a program of one's own builds by find_package and by pkg-config, and runs"""
        source = join_path(self.prefix.share, "distdl", "examples", "consumer")
        prefixes = [self.prefix]
        prefixes += [dep.prefix for dep in self.spec.traverse(root=False, deptype="link")]
        libs = ("lib", "lib64", "lib/*-linux-gnu", "share")
        modules = [join_path(prefix, lib, "pkgconfig") for prefix in prefixes for lib in libs]
        path = ":".join(found for pattern in modules for found in glob.glob(pattern))
        cxx = Executable(self["cxx"].cxx)
        cmake = Executable(self.spec["cmake"].prefix.bin.cmake)
        pkg_config = which("pkg-config", path=self.spec["pkgconfig"].prefix.bin, required=True)
        for program in (cmake, pkg_config):
            program.add_default_env("PKG_CONFIG_PATH", path)
        with working_dir("consumer", create=True):
            with test_part(self, "test_consumer_cmake", purpose="find_package(distdl)"):
                cmake(
                    *("-S", source, "-B", "build"),
                    "-DCMAKE_PREFIX_PATH=" + ";".join(prefixes),
                    "-DCMAKE_CXX_COMPILER=" + cxx.path,
                )
                cmake("--build", "build")
                assert "distdl" in Executable(join_path("build", "consumer"))(output=str.split)
            with test_part(self, "test_consumer_pkgconfig", purpose="pkg-config distdl-tensor"):
                flags = pkg_config("--cflags", "--libs", "distdl-tensor", output=str).split()
                rpaths = ["-Wl,-rpath," + flag[2:] for flag in flags if flag.startswith("-L")]
                main = join_path(source, "main.cpp")
                cxx("-std=c++20", main, "-o", "consumer", *flags, *rpaths)
                assert "distdl" in Executable(join_path(".", "consumer"))(output=str.split)
