# SPDX-License-Identifier: Apache-2.0
"""One room changes files: outside src/files nothing creates, opens for writing, renames or deletes by a path."""

import re

import project

# open_to_append() of the log, which is below src/files.
ROOM = ("src/files/", "src/base/regular_file.cpp")
# Each with the reason why it cannot be attacked by a link. This list only shrinks: a file that needs no exception is a problem, too.
EXCEPTIONS = {
    "src/launch/folder_lock.cpp": "works on the descriptor of the run folder",
    "src/app/checks/signal_probe.cpp": "a trial job writes to a scratch folder of its own",
    "src/data/format/hdf5_file.cpp": "HDF5 creates the file itself, with H5F_ACC_EXCL",
    "checkpoint/format/hdf5_skeleton.cpp": "HDF5 creates the file itself, after FileSystem::before_hdf5()",
    "checkpoint/format/hdf5_view.cpp": "HDF5 writes into an unfinished WholeFile",
}
CALLS = re.compile(
    r"\b(?:fs|filesystem)::(?:remove|remove_all|rename|create_\w+|copy|copy_\w+|resize_file|permissions)\s*\("
    r"|(?<!<)\b(?:basic_)?o?fstream\b"
    r"|\b(?:fopen|freopen|fdopen|tmpfile|mkstemps?|mkostemps?|mkdtemp|H5Fcreate)\s*\("
    r"|(?<![\w>])::(?:unlink|rename|mkdir|link|symlink|open)at2?\s*\("
    r"|(?<![\w>])::(?:unlink|rename|renameat2|mkdir|rmdir|link|symlink|mknod|mkfifo|truncate|creat|chmod|chown|utimensat)\s*\("
    r"|\bstd::rename\s*\(|(?<![\w>])::open\s*\(")
OPENS = re.compile(r"::open(?:at2?)?\s*\($")
WRITES = re.compile(r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)\b")
# In a line for a shell. A user's own line, as in an example of a command, names a file of this folder.
SHELL = re.compile(r"""(?:^|[\s;])>>?\s*(?:\\?["']?\$\w|/(?!dev/))|(?:^|[\n;&|"]\s*)(?:rm|mv|cp|tee|touch|mkdir|ln)\s+-?\w""")


def call_at(text, begin):
    """A call with its arguments."""
    depth = 0
    for end in range(text.index("(", begin), len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[begin:end + 1]
    return text[begin:]


def changes_in(root, name):
    """(line, what) of each change of a file."""
    text = project.read(root, name)
    code = project.code_of(text)
    for match in CALLS.finditer(code):
        if not OPENS.search(match.group(0)) or WRITES.search(call_at(code, match.start())):
            yield code.count("\n", 0, match.start()) + 1, match.group(0).strip(" (")
    for line, literal in project.literals_of(text):
        if SHELL.search(literal):
            yield line, "a line for a shell that writes"


def check(root):
    problems, needed = [], set()
    for name in project.cxx_files(root, project.CODE):
        if name.startswith(ROOM):
            continue
        for line, what in changes_in(root, name):
            needed.add(name)
            if name not in EXCEPTIONS:
                problems.append(f"{name}:{line}: {what}: what changes a file goes through src/files (file_operations.hpp)")
    if root == project.ROOT:
        problems += [f"{name} needs no exception any more: remove it from {__file__}" for name in EXCEPTIONS if name not in needed]
    return problems


class FileChanges(project.CheckCase):
    def test_project(self):
        self.clean(check)

    def test_finds_each_way_to_change_a_file(self):
        for line in ["std::filesystem::remove_all(path, ignored);", "fs::create_directories(path);", "fs::rename(a, b);",
                     "std::filesystem::copy_file(a, b);", "std::filesystem::resize_file(a, 0);", "std::ofstream out(file);",
                     "std::fstream both(file);", 'FILE* f = fopen(name, "w");', "::unlink(name);", "::rename(a, b);", "::mkdir(a, 0755);",
                     "FileDescriptor f(::open(name, O_RDWR |\n O_CREAT, mode_of(a)));", "::openat(at, name, O_WRONLY);", "::mkdtemp(name);",
                     "std::rename(a, b);", "H5Fcreate(name, H5F_ACC_TRUNC, a, b);", 'run("echo x >>$file");', 'run("date; rm -rf x");']:
            self.finds(check, {"src/comm/x.cpp": f"void f() {{\n  {line}\n}}\n"}, "src/comm/x.cpp:2", "src/files")

    def test_accepts_reading_and_the_room_itself(self):
        for line in ["::open(name, O_RDONLY | O_CLOEXEC);", "std::ifstream in(file);", "files.unlink(name);", "segment->rename(a);",
                     "// fs::remove_all(path)", 'log("a > b");', "std::remove(all.begin(), all.end(), 3);", 'text += " -> ";']:
            self.accepts(check, {"src/comm/x.cpp": f"void f() {{\n  {line}\n}}\n"})
        self.accepts(check, {"src/files/x.cpp": "void f() { ::unlink(name); }\n", "tests/x.cpp": "std::ofstream out;\n"})


if __name__ == "__main__":
    project.main()
