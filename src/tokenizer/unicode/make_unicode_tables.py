# SPDX-License-Identifier: Apache-2.0
"""make_unicode_tables.py > unicode_tables.cpp: the tables of Unicode that pre-tokenizers and NFC need.

Hugging Face's tokenizers 0.23 has the classes of characters of Unicode 16.0.0, and the NFC of Unicode 9.0.0. These tables have the same, so
that token numbers are equal. Python's unicodedata has one version, that of the package unicodedata2 is chosen: pip install unicodedata2==16.0.0."""
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
# White_Space, which Python does not have; it has been stable since Unicode 6.3.
SPACES = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
# What came after Unicode 9.0.0 and matters to NFC: first and last of marks with a combining class, and characters that are composed.
LATE_MARKS = [(0x7FD, 0x7FD), (0x897, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C), (0xEBA, 0xEBA), (0x1715, 0x1715),
              (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0xA82C, 0xA82C), (0x10D24, 0x10D27), (0x10D69, 0x10D6D), (0x10EAB, 0x10EAC),
              (0x10EFD, 0x10EFF), (0x10F46, 0x10F50), (0x10F82, 0x10F85), (0x11070, 0x11070), (0x1133B, 0x1133B), (0x113CE, 0x113D0),
              (0x1145E, 0x1145E), (0x11839, 0x1183A), (0x1193D, 0x1193E), (0x11943, 0x11943), (0x119E0, 0x119E0), (0x11A34, 0x11A34),
              (0x11A47, 0x11A47), (0x11A99, 0x11A99), (0x11D42, 0x11D42), (0x11D44, 0x11D45), (0x11D97, 0x11D97), (0x11F41, 0x11F42),
              (0x1612F, 0x1612F), (0x16FF0, 0x16FF1), (0x1E08F, 0x1E08F), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE), (0x1E2EC, 0x1E2EF),
              (0x1E4EC, 0x1E4EF), (0x1E5EE, 0x1E5EF)]
LATE_COMPOSED = {0x105C9, 0x105E4, 0x11383, 0x11385, 0x1138E, 0x11391, 0x113C5, 0x113C7, 0x113C8, 0x11938, *range(0x16121, 0x16129),
                 0x16D68, 0x16D69, 0x16D6A}
LETTER, NUMBER, SPACE, UNSTABLE = 1, 2, 3, 4


def decompositions():
    """(character, first, second or 0, whether NFC composes it), but for Hangul's syllables."""
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if not parts or parts[0].startswith("<") or code in LATE_COMPOSED:
            continue
        numbers = [int(part, 16) for part in parts]
        yield code, numbers[0], (numbers + [0])[1], unicodedata.normalize("NFC", chr(code)) == chr(code)


def combining(code):
    late = any(first <= code <= last for first, last in LATE_MARKS)
    return 0 if late else unicodedata.combining(chr(code))


def property_of(code, changed):
    category = unicodedata.category(chr(code))[0]
    kind = SPACE if code in SPACES else LETTER if category == "L" else NUMBER if category == "N" else 0
    return kind | (UNSTABLE if code in changed or combining(code) else 0)


def ranges(values):
    """(first, last, value) of equal values that are not 0."""
    found = []
    for code, value in enumerate(values):
        if value and found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        elif value:
            found.append([code, code, value])
    return found


def write(name, kind, rows):
    print(f"constexpr std::array<{kind}, {len(rows)}> {name}{{{{")
    line = ""
    for row in rows:
        text = "{" + ",".join(f"{value:#x}" if value > 9 else str(value) for value in row) + "},"
        if len(line) + len(text) > 118:
            print("  " + line)
            line = ""
        line += text
    print("  " + line + "\n}};")


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"Unicode {VERSION} is expected, but this Python has {unicodedata.unidata_version}: pip install unicodedata2=={VERSION}")
    rows = list(decompositions())
    changed = {code for code, _, _, composes in rows if not composes} | {second for _, _, second, composes in rows if composes}
    changed |= {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # Hangul's vowels and finals
    print("// SPDX-License-Identifier: Apache-2.0\n// Written by make_unicode_tables.py, from Unicode " + VERSION + ".\n#include <array>\n\n"
          "#include <distdl/tokenizer/unicode/unicode_tables.hpp>\n\nnamespace distdl::tokenizer {\nnamespace {\n// clang-format off\n// NOLINTBEGIN(modernize-use-bool-literals): a table")
    write("kProperties", "CodeRange", ranges(property_of(code, changed) for code in range(0x110000)))
    write("kCombiningClasses", "CodeRange", ranges(combining(code) for code in range(0x110000)))
    write("kDecompositions", "Decomposition", [(*row[:3], int(row[3])) for row in rows])
    print("// NOLINTEND(modernize-use-bool-literals)\n// clang-format on\n}  // namespace\n")
    for kind, name in ("CodeRange", "properties"), ("CodeRange", "combining_classes"), ("Decomposition", "decompositions"):
        table = "k" + name.title().replace("_", "")
        print(f"std::span<const {kind}> {name}() {{\n  return {table};\n}}")
    print("\n}  // namespace distdl::tokenizer")


main()
