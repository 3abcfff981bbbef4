# SPDX-License-Identifier: Apache-2.0
"""Makes a copy of a library's sources in which each of its safeguards can be taken away while it runs.

A script with a table of mutants calls main(): SCRIPT SOURCE_DIR TARGET_DIR FILE... writes each FILE to TARGET_DIR, with switches, and
mutation.hpp and mutation.cpp. Only tests build that copy; what is shipped has no switches. The build ends with a message when the text of
a mutant is no longer in the sources.

A row of the table: name, the proof that should see it (none: more of the same mutant), file, text as it stands there (once), text with
{off}: whether it is taken away.
"""
import pathlib
import sys


def write(path, text):
    """Only if it changed, so that only what changed is compiled again."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(mutants):
    """With the arguments of the command line."""
    source, target, *files = sys.argv[1:]
    source, target = pathlib.Path(source), pathlib.Path(target)
    texts = {name: (source / name).read_text() for name in files}
    table = []
    for name, proof, file, old, new in mutants:
        found = texts.get(file, "").count(old)
        if found != 1:
            sys.exit(f"{file} has the text of the mutant {name!r} {found} times, expected once: bring the table of mutants up to date")
        if proof:
            table.append((name, proof))
        # Later mutants of the same place would no longer find it: they follow as texts of their own.
        texts[file] = texts[file].replace(old, new.replace("{off}", f'::distdl_mutation::off("{name}")'))
    for name, text in texts.items():
        write(target / name, f'#include "mutation.hpp"\n#line 1 "{name}"\n{text}')
    write(target / "mutation.hpp", """#pragma once
#include <string>
#include <string_view>
#include <vector>
namespace distdl_mutation {
struct Mutant {
  std::string name, proof;
};
const std::vector<Mutant>& mutants();
/// Takes this safeguard away from now on; "": none.
void take_away(const std::string& name);
bool off(std::string_view name);
}  // namespace distdl_mutation
""")
    rows = "\n".join(f'      {{"{name}", "{proof}"}},' for name, proof in table)
    write(target / "mutation.cpp", f"""#include "mutation.hpp"
namespace distdl_mutation {{
namespace {{
std::string taken;
}}
const std::vector<Mutant>& mutants() {{
  static const std::vector<Mutant> all{{
{rows}
  }};
  return all;
}}
void take_away(const std::string& name) {{ taken = name; }}
bool off(std::string_view name) {{ return name == taken; }}
}}  // namespace distdl_mutation
""")
