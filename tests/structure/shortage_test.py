# SPDX-License-Identifier: Apache-2.0
"""A handler of every exception that draws conclusions from what was read ("damaged", nothing found) takes a shortage of memory or of
descriptors for damage. It calls pass_on_shortage() first. Handlers of StorageError where a checkpoint or snapshot would be
passed over do the same."""

import re

import project

HANDLER = re.compile(r"\bcatch\s*\(\s*(?:const\s+)?(std::exception|\.\.\.)[^)]*\)\s*\{")
BLAMES = re.compile(r"ExitCode::(?:corrupt|incomplete|incompatible)|\bStorageError\(|\bConfigError\(|\bbad\(|\bdemand_\w+\(|"
                    r"\bdamaged\(|problems|return std::nullopt|return false|return error\.what\(\)")
PASSES = re.compile(r"\s*(?:pass_on_shortage|leave_on_shortage)\(")
# They conclude nothing about what was read.
OTHERS = ("checkpoint/io/file_operations.cpp", "src/files/", "src/world/thread_world.cpp")


def body_of(code, start):
    depth = 1
    for at in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return code[start:at]
    return code[start:]


def check(root):
    problems = []
    for name in project.cxx_files(root, project.CODE):
        if name.startswith(OTHERS):
            continue
        code = project.code_of(project.read(root, name))
        for match in HANDLER.finditer(code):
            body = body_of(code, match.end())
            if BLAMES.search(body) and not PASSES.match(body):
                problems.append(f"{name}:{code.count(chr(10), 0, match.start()) + 1}: begin with pass_on_shortage(error), or "
                                "lack of memory counts as damage")
    return problems


class Shortage(project.CheckCase):
    def test_project_takes_no_shortage_for_damage(self):
        self.clean(check)

    def test_finds_handlers_that_blame_the_file(self):
        for body in ('throw bad(error.what());', "return std::nullopt;", "problems.push_back(error.what());",
                     "throw StorageError(error.what(), ExitCode::corrupt);"):
            self.finds(check, {"checkpoint/a.cpp": "int a;\ntry { f(); } catch (const std::exception& error) {\n" + body + "\n}\n"},
                       "checkpoint/a.cpp:2")

    def test_accepts_handlers_that_let_shortages_pass(self):
        self.accepts(check, {"src/a.cpp": "try { f(); } catch (const std::exception& error) {\n  pass_on_shortage(error);\n"
                                          "  throw bad(error.what());\n} catch (...) { throw; }\n"})


if __name__ == "__main__":
    project.main()
