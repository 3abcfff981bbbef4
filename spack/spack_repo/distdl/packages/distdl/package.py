# SPDX-License-Identifier: Apache-2.0
import os

from spack.package import *

try:  # since Spack 1.0; older ones export them from spack.package
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass


class Distdl(CMakePackage, CudaPackage):
    """Distributed deep learning as a first-class job of a Slurm machine: whatever happens to the nodes, a training run
    ends with the weights it would have had if nothing had happened."""

    homepage = "https://distdl.example.org"
    git = "https://distdl.example.org/distdl.git"
    tags = ["hpc", "machine-learning", "deep-learning"]

    maintainers("distdl")
    license("Apache-2.0")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("onednn", default=True, description="Fast CPU backend on oneDNN")
    variant("slurm", default=False, description="Plug-in on the site's libslurm instead of Slurm's commands")
    variant("gdr", default=False, when="+cuda", description="UCX that reads and writes GPU memory itself")
    variant("nccl", default=False, when="+cuda", description="Plug-in by which NCCL carries collectives between GPUs")
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
    depends_on("boost@1.74: +atomic+chrono+date_time+filesystem+log+system+thread")
    depends_on("hdf5@1.10.5:+threadsafe")
    depends_on("ucx@1.12:")
    depends_on("pmix@4:")
    depends_on("googletest", type="test")

    depends_on("onednn@2.6: cpu_runtime=omp", when="+onednn")
    depends_on("slurm@22-05:", when="+slurm")
    depends_on("cuda@12:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl", when="+nccl")
    depends_on("ucx +cuda+gdrcopy", when="+gdr")

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: distdl +cuda cuda_arch=90")
    conflicts("%gcc@:11", msg="distdl is written in C++20")

    sanity_check_is_file = [
        join_path("bin", "distdl"),
        join_path("include", "distdl", "version.hpp"),
        join_path("include", "distdl", "comm", "communicator.hpp"),
        join_path("share", "distdl", "sbatch", "train.sbatch"),
        join_path("share", "distdl", "examples", "mlp.toml"),
        join_path("share", "man", "man1", "distdl.1"),
        join_path("share", "distdl", "examples", "consumer", "CMakeLists.txt"),
    ]
    sanity_check_is_dir = [
        join_path("modules", "lmod", "distdl"),
        join_path("modules", "tcl", "distdl"),
    ]

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("DISTDL_ONEDNN", "onednn"),
            self.define_from_variant("DISTDL_SLURM", "slurm"),
            self.define_from_variant("DISTDL_CUDA", "cuda"),
            self.define("DISTDL_NCCL", self.spec.satisfies("+nccl")),
            self.define("BUILD_TESTING", self.run_tests),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args

    # Stand-alone tests, `spack test run distdl`: no Slurm, no GPU, no network, a few seconds.

    def distdl(self, *arguments):
        """Output of the installed program."""
        return Executable(join_path(self.prefix.bin, "distdl"))(*arguments, output=str.split, error=str.split)

    def train(self, run_dir, ranks, epochs):
        """Trains the small example on generated images; the digest of its newest checkpoint."""
        if not os.path.exists("shapes.h5"):
            self.distdl("data", "make", "shapes", "shapes.h5", "--samples", "1200")
        settings = ["data.train=shapes.h5", "data.holdout=200", "run.dir=" + run_dir, "train.epochs=" + str(epochs),
                    "optim.schedule=constant"]
        job = join_path(self.prefix.share, "distdl", "examples", "mlp.toml")
        self.distdl("run", "--local", "-n", str(ranks), job, *[word for text in settings for word in ("--set", text)])
        return self.distdl("checkpoint", "digest", join_path(run_dir, "checkpoints"))

    def test_info(self):
        """the program starts, and knows its version, its keys and its example"""
        assert str(self.spec.version) in self.distdl("version") or self.spec.version.isdevelop()
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

    def test_consumer(self):
        """a program of one's own builds by find_package and by pkg-config, and runs"""
        source = join_path(self.prefix.share, "distdl", "examples", "consumer")
        with working_dir("consumer", create=True):
            cmake = which("cmake", required=True)
            with test_part(self, "test_consumer_cmake", purpose="find_package(distdl)"):
                cmake("-S", source, "-B", "build", "-DCMAKE_PREFIX_PATH=" + str(self.prefix))
                cmake("--build", "build")
                assert "distdl" in Executable(join_path("build", "consumer"))(output=str.split)
            with test_part(self, "test_consumer_pkgconfig", purpose="pkg-config distdl-tensor"):
                flags = which("pkg-config", required=True)("--cflags", "--libs", "distdl-tensor", output=str.split).split()
                rpaths = ["-Wl,-rpath," + flag[2:] for flag in flags if flag.startswith("-L")]
                compiler = which(os.environ["CXX"], required=True)
                compiler("-std=c++20", join_path(source, "main.cpp"), "-o", "consumer", *flags, *rpaths)
                assert "distdl" in Executable(join_path(".", "consumer"))(output=str.split)
