# SPDX-License-Identifier: Apache-2.0
"""As much of Spack's packaging language as the recipe uses, in both dialects: until 0.23 `spack.package` exports the build
systems; since 1.0 they come from `spack_repo.builtin`. Directives take the arguments that both dialects take, no others."""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import types

SPEC = re.compile(r"^[a-z0-9-]*(@[\w.:,-]+)?(\s*([+~]\w+|\w+=[\w,:.]+|%[a-z]+(@[\w.:-]+)?))*$")


class Recorded:
    """What the recipe declared."""

    def __init__(self):
        self.versions, self.variants, self.dependencies = {}, {"cuda": False, "cuda_arch": "none"}, []
        self.conflicts, self.licences, self.maintainers = [], [], []


def check_spec(spec):
    if not SPEC.match(spec):
        raise ValueError(f"not a spec: {spec!r}")
    return spec


def directives(recorded):
    def version(ver, checksum=None, *, sha256=None, branch=None, tag=None, commit=None, preferred=None, deprecated=None):
        recorded.versions[ver] = {"branch": branch, "tag": tag, "commit": commit, "sha256": sha256 or checksum}

    def variant(name, default=None, description="", values=None, multi=None, validator=None, when=None, sticky=False):
        assert description, f"variant {name} lacks a description"
        check_spec(when or "")
        recorded.variants[name] = default

    def depends_on(spec, when=None, type=("build", "link"), patches=None):
        kinds = (type,) if isinstance(type, str) else type
        assert set(kinds) <= {"build", "link", "run", "test"}, kinds
        recorded.dependencies.append((check_spec(spec), check_spec(when or ""), kinds))

    def conflicts(spec, when=None, msg=None):
        recorded.conflicts.append((check_spec(spec), check_spec(when or "")))

    def license(identifier, checked_by=None, when=None):
        recorded.licences.append(identifier)

    def maintainers(*names):
        recorded.maintainers.extend(names)

    return dict(version=version, variant=variant, depends_on=depends_on, conflicts=conflicts, license=license,
                maintainers=maintainers)


class Prefix(str):
    def __getattr__(self, name):
        return Prefix(os.path.join(self, name))


class Version(str):
    def isdevelop(self):
        return self in ("main", "master", "develop")


class Spec:
    """A concrete spec: version and variants."""

    def __init__(self, version, variants):
        self.version = Version(version)
        self.variants = {name: types.SimpleNamespace(value=value) for name, value in variants.items()}

    def satisfies(self, text):
        sign, name = re.fullmatch(r"([+~])(\w+)", text).groups()
        return bool(self.variants[name].value) == (sign == "+")


class Package:
    """Base of all build systems: an installed package, if it has a prefix."""
    run_tests = False

    def __init__(self, version, variants, prefix=""):
        self.spec, self.prefix = Spec(version, variants), Prefix(prefix)


class CMakePackage(Package):
    def define(self, name, value):
        if isinstance(value, bool):
            return f"-D{name}:BOOL={'ON' if value else 'OFF'}"
        return f"-D{name}:STRING={value if isinstance(value, str) else ';'.join(value)}"

    def define_from_variant(self, name, variant):
        return self.define(name, self.spec.variants[variant].value)


class CudaPackage(Package):
    """Declares the variants cuda and cuda_arch."""


class Executable:
    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, output=None, error=None):
        command = [str(word) for word in (self.path, *arguments)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if result.returncode:
            raise RuntimeError(f"{' '.join(command)}\nexit code {result.returncode}\n{result.stdout}{result.stderr}")
        return (result.stdout if output else "") + (result.stderr if error else "")


def which(name, required=False):
    path = shutil.which(name)
    if required and not path:
        raise RuntimeError(f"{name} is not on PATH")
    return path and Executable(path)


@contextlib.contextmanager
def working_dir(folder, create=False):
    if create:
        os.makedirs(folder, exist_ok=True)
    before = os.getcwd()
    os.chdir(folder)
    yield
    os.chdir(before)


@contextlib.contextmanager
def test_part(package, name, purpose):
    assert name.startswith("test_") and purpose
    yield


def module(name, **names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    sys.modules[name] = made


def load(recipe, dialect):
    """The class of a recipe and what it declared. `dialect` is "0.23" or "1.0"."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("spack", "spack_repo")]:
        del sys.modules[name]
    recorded = Recorded()
    build_systems = {} if dialect == "1.0" else {"CMakePackage": CMakePackage, "CudaPackage": CudaPackage}
    module("spack", __path__=[])
    module("spack.package", join_path=os.path.join, which=which, Executable=Executable, working_dir=working_dir,
           test_part=test_part, **directives(recorded), **build_systems)
    if dialect == "1.0":
        for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            module(name, __path__=[])
        module("spack_repo.builtin.build_systems.cmake", CMakePackage=CMakePackage)
        module("spack_repo.builtin.build_systems.cuda", CudaPackage=CudaPackage)
    spec = importlib.util.spec_from_file_location(f"recipe_{dialect.replace('.', '_')}", recipe)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.Distdl, recorded
