# SPDX-License-Identifier: Apache-2.0
"""HDF5 is used through the room src/hdf5: only its objects/hdf5_handles.hpp includes HDF5's header, other rooms call HDF5 only in files
called hdf5_*, and none has a mutex for it beside hdf5::Lock."""

import re

import project

ROOM = "src/hdf5/"
HEADER = re.compile(r'#\s*include\s*[<"](?:hdf5|H5\w*|hdf5_hl)\.h[>"]')
CALL = re.compile(r"\bH5[A-Z]{0,2}[a-z]\w*\s*\(")
MUTEX = re.compile(r"\bmutex\b")


def check(root):
    problems = []
    for name in project.cxx_files(root, project.CODE):
        text = project.read(root, name)
        if name != f"{ROOM}objects/hdf5_handles.hpp" and HEADER.search(text):
            problems.append(f"{name}: include <distdl/hdf5/objects/hdf5_handles.hpp> instead of HDF5's header")
        if name.startswith(ROOM):
            continue
        code, mine = project.code_of(text), name.split("/")[-1].startswith("hdf5_")
        if not mine and CALL.search(code):
            problems.append(f"{name}: call HDF5 in a file called hdf5_*")
        if mine and MUTEX.search(code):
            problems.append(f"{name}: hdf5::Lock is the one lock on HDF5")
    return problems


class Hdf5(project.CheckCase):
    def test_project_uses_hdf5_through_its_room(self):
        self.clean(check)

    def test_finds_its_header(self):
        self.finds(check, {"src/data/hdf5_a.cpp": "#include <hdf5.h>\n"}, "src/data/hdf5_a.cpp")
        self.finds(check, {"src/hdf5/lock.cpp": '# include "H5public.h"\n'}, "src/hdf5/lock.cpp")

    def test_finds_calls_elsewhere(self):
        for call in ("H5Fopen(path)", "H5open ()", "::H5Dwrite_chunk(a, b)"):
            self.finds(check, {"checkpoint/format/writer.cpp": f"{call};\n"}, "writer.cpp", "hdf5_*")

    def test_finds_another_lock(self):
        self.finds(check, {"checkpoint/format/hdf5_a.cpp": "std::mutex one_at_a_time;\n"}, "hdf5_a.cpp", "hdf5::Lock")

    def test_accepts_the_room_and_files_called_after_it(self):
        self.accepts(check, {"src/hdf5/objects/hdf5_handles.hpp": "#include <hdf5.h>\n", "src/hdf5/lock.cpp": "std::mutex mutex; H5open();\n",
                             "src/data/format/hdf5_rows.cpp": "// mutex\nH5Dread(a);\n", "src/data/a.cpp": "// H5Dread(a)\nauto a = \"H5open()\";\n"})


if __name__ == "__main__":
    project.main()
