# SPDX-License-Identifier: Apache-2.0
"""Commands that a document shows with what they print: in fenced blocks, lines that begin with "$ " are commands, the others are what they print: "..."
stands for anything, on a line of its own for any number of lines; a number with a decimal point or with a unit of time, speed or size may differ."""
import re

NUMBER = re.compile(r"\d+\.\d+|\d+(?= (?:samples/s|ms|s|MB|MiB|bytes)\b)")


def blocks(text, language="sh"):
    """[[(command, [line of output, ...]), ...], ...]"""
    found = []
    for body in re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
        commands = []
        for line in body.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif commands and commands[-1][0].endswith("\\"):
                commands[-1] = (commands[-1][0][:-1] + line.strip(), [])
            elif commands:
                commands[-1][1].append(line)
            else:
                raise ValueError(f"a block marked {language} begins with {line!r}; its first line must be a command: \"$ ...\"")
        found.append(commands)
    return found


def pattern_of(line):
    text = "[^\n]*".join(re.escape(part) if not part else numbers_open(part) for part in line.split("..."))
    return text + "\n"


def numbers_open(text):
    """A pattern for the text in which the figures of a measurement may differ."""
    parts, place = [], 0
    for number in NUMBER.finditer(text):
        parts += [re.escape(text[place:number.start()]), r"\d+(?:\.\d+)?"]
        place = number.end()
    return "".join(parts) + re.escape(text[place:])


def matches(lines, output):
    pattern = "".join("(?:[^\n]*\n)*?" if line.strip() == "..." else pattern_of(line) for line in lines)
    return re.fullmatch(pattern, output) is not None
