# SPDX-License-Identifier: Apache-2.0
"""require(call() == 0, "...", errno_text(errno)): the compiler may read errno before it makes the call, and the cause that is
reported would be an older one, or "Success". The call comes first, in a statement of its own."""

import re

import project

START = re.compile(r"\brequire(?:<[^>;]*>)?\(")
CALL = re.compile(r"(?:::|\b)(?!static_cast\b|sizeof\b)[a-z_]\w*\s*\(")


def arguments(text):
    """The arguments of a call whose opening bracket has just been read."""
    depth, found, start = 0, [], 0
    for at, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}" and depth:
            depth -= 1
        elif c in ",)" and not depth:
            found.append(text[start:at])
            start = at + 1
            if c == ")":
                return found
    return found


def check(root):
    problems = []
    for name in project.cxx_files(root, project.CODE + ("examples/",)):
        code = project.code_of(project.read(root, name))
        for match in START.finditer(code):
            condition, *rest = arguments(code[match.end():match.end() + 2000]) or [""]
            if re.search(r"\berrno\b", " ".join(rest)) and CALL.search(re.sub(r"\.\w+\(\)", "", condition)):
                problems.append(f"{name}:{code.count(chr(10), 0, match.start()) + 1}: make the call before require(), or "
                                "errno is read too early")
    return problems


class Errno(project.CheckCase):
    def test_project_reads_errno_after_the_call(self):
        self.clean(check)

    def test_finds_calls_within_the_condition(self):
        for condition in ("::fsync(file.get()) == 0", "folder && fsync(3) == 0", "std::rename(a, b) == 0"):
            self.finds(check, {"src/a.cpp": f'int a;\nrequire<E>({condition}, "x {{}}",\n errno_text(errno));\n'}, "src/a.cpp:2")

    def test_accepts_what_is_known_before(self):
        self.accepts(check, {"src/a.cpp": 'require<E>(n > 0, "x", errno_text(errno)); require(f(x), "y"); require(out.good() && '
                                          'static_cast<bool>(d), "z", errno_text(errno)); require(f(errno), "");'})


if __name__ == "__main__":
    project.main()
