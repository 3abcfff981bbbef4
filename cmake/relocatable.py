# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries that run wherever they are unpacked, for cmake/bundle and cmake/wheel: what they need, and where they look for it.

Left out: glibc's own libraries; CUDA's, which a GPU machine has; the plug-in for libslurm, which fits one cluster's Slurm only."""
import pathlib
import re
import shutil
import struct
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
GLIBC = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|mvec|dl|rt|pthread|util|resolv|anl|nss_.*|thread_db|BrokenLocale))\.so")
CUDA = re.compile(r"lib(cu(blas|blasLt|dnn|dnn_.*)|nvrtc|nvrtc-builtins|nccl)\.so")
SLURM_PLUGIN = "libdistdl_slurm.so"
DT_NULL, DT_STRTAB, DT_RPATH, DT_RUNPATH, PT_LOAD, PT_DYNAMIC = 0, 5, 0xF, 0x1D, 1, 2


def is_elf(file):
    with open(file, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def libraries_of(file):
    """name -> where ldd finds it. Ends the program if one is missing, unless it is one of CUDA's."""
    found = {}
    listing = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    for name, where in re.findall(r"^\s*(\S+) => (not found|\S+)", listing, re.MULTILINE):
        if GLIBC.match(name) or (where == "not found" and CUDA.match(name)):
            continue
        if where == "not found":
            sys.exit(f"cannot bundle {file}: its library {name} is not found; ask \"ldd {file}\"")
        found[name] = pathlib.Path(where)
    return found


def set_search_path(file, path, tag=DT_RUNPATH):
    """Makes `path` all that the file says about where its libraries lie (CMake pads it with colons, which mean the working
    folder). As DT_RPATH it also serves the libraries that Debian's libraries need and open. A file that says nothing is
    left as it is."""
    data = bytearray(file.read_bytes())
    table, = struct.unpack_from("<Q", data, 32)
    entry_size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, table + i * entry_size) for i in range(count)]
    at = next(offset for kind, _, offset, *_ in segments if kind == PT_DYNAMIC)
    where = {}  # tag -> where its entry lies
    while struct.unpack_from("<q", data, at)[0] != DT_NULL:
        where[struct.unpack_from("<q", data, at)[0]] = at
        at += 16
    if DT_RUNPATH not in where:
        if tag == DT_RPATH:
            sys.exit(f"cannot bundle {file.name}: it has no RUNPATH; it was not built by this project's CMake settings")
        return
    strings, = struct.unpack_from("<Q", data, where[DT_STRTAB] + 8)
    start = next(offset + strings - address for kind, _, offset, address, _, size in segments
                 if kind == PT_LOAD and address <= strings < address + size)
    start += struct.unpack_from("<Q", data, where[DT_RUNPATH] + 8)[0]
    old = data[start:data.index(b"\0", start)]
    if len(old) < len(path):
        sys.exit(f"cannot bundle {file.name}: its RUNPATH {old.decode()} has no room for {path}")
    data[start:start + len(old)] = path.encode().ljust(len(old), b"\0")
    struct.pack_into("<q", data, where[DT_RUNPATH], tag)
    file.write_bytes(data)


def copy(file, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    to.chmod(0o755)


def copy_own(file, to, path):
    """A program or library of ours, without debug information, which looks for libraries in `path`."""
    copy(file, to)
    subprocess.run(["strip", "--strip-debug", to], check=True)
    set_search_path(to, path, DT_RPATH)


def needed_by(files):
    """name -> where: the libraries that programs and libraries of ours need, with those that UCX opens, but for CUDA's."""
    found = {}
    for file in files:
        found.update(libraries_of(file))
    for module in transports(found):
        found.update(libraries_of(module))
    return {name: where for name, where in found.items() if not CUDA.match(name)}


def transports(libraries):
    """What UCX opens."""
    return sorted((libraries["libucs.so.0"].parent / "ucx").glob("*.so.0")) if "libucs.so.0" in libraries else []


def copy_libraries(libraries, folder):
    for name, where in libraries.items():
        copy(where, folder / name)
        set_search_path(folder / name, "$ORIGIN", DT_RPATH if name.startswith("libdistdl_") else DT_RUNPATH)
    for module in transports(libraries):
        for name in (module.name, module.name.removesuffix(".0")):
            copy(module, folder / "ucx" / name)
            set_search_path(folder / "ucx" / name, "$ORIGIN/..")


def copy_licences(libraries, folder, build):
    """Those of distdl and of what is compiled into it, and the copyright file of each Debian package from which a library is."""
    libraries = [library for library in libraries if not library.is_relative_to(build.resolve())]
    folder.mkdir(parents=True)
    for file in (SOURCE / "LICENSE", SOURCE / "cmake" / "third-party-licences.txt", build / "distdl.spdx.json"):
        shutil.copyfile(file, folder / file.name)
    if not shutil.which("dpkg-query"):
        print("no dpkg here: the notices of the libraries are left out")
        return
    # Of /lib/... and /usr/lib/..., which are the same folder, dpkg knows one.
    paths = {str(path).removeprefix("/usr") for library in libraries for path in (library, library.resolve())}
    names = sorted(paths | {f"/usr{path}" for path in paths})
    listing = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True, check=False).stdout
    for package in set(re.findall(r"^([^:, ]+)(?::\w+)?: ", listing, re.MULTILINE)):
        if (notice := pathlib.Path("/usr/share/doc", package, "copyright")).exists():
            shutil.copyfile(notice, folder / package)
        else:
            print(f"{notice} is missing, which this machine may leave out (path-exclude in dpkg's configuration)")
    known = {pathlib.Path(path).name for path in re.findall(r": (/\S+)$", listing, re.MULTILINE)}
    if unknown := sorted(library.name for library in libraries if not {library.name, library.resolve().name} & known):
        print(f"of no Debian package, so without a notice: {', '.join(unknown)}")
