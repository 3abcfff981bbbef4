// SPDX-License-Identifier: Apache-2.0
// Any text as a batch script, as its options, and as a line of a log.
#include "target.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/submit/lint.hpp>

namespace {
using namespace distdl;
using namespace distdl::submit;

void read_script(std::string_view input) {
  const BatchScript script = parse_batch_script(input, "fuzz.sbatch");
  int line = 0;
  for (const ShellCommand& command : script.commands) {
    fuzz::demand(command.line >= line, "commands come in the order of their lines");
    line = command.line;
  }
  for (const SbatchOption& option : script.options.all())
    fuzz::demand(!option.name.empty() && option.line > 0, "an option has a name, and stands in a line");
  for (const LintFinding& finding : lint(script, {.save_seconds = 100, .mpi_types = {"none"}}))
    fuzz::demand(!finding.message.empty() && finding.line >= 0, "a finding says what is wrong, and where");
}

void read_words(std::string_view input) {
  const std::string text(input.substr(0, input.find('\0')));
  const auto words = split_words(quote(text));
  fuzz::demand(words.size() == 1 && words[0] == text, "what is quoted is one word");
  if (const auto seconds = seconds_of_time(input)) fuzz::demand(*seconds >= 0, "a time limit is not negative");
  for (const SbatchOption& option : parse_sbatch_words(split_words(input)))
    fuzz::demand(parse_sbatch_words(split_words(to_word(option)))[0] == option || !option.is_known,
                 "an option can be written and read again");
}

const fuzz::Target script("batch_script", &read_script), words("sbatch_words", &read_words);
}  // namespace
