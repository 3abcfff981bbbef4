// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <distdl/submit/sbatch_options.hpp>

namespace distdl::submit {

/// One command of a batch script, as far as it can be recognized without running a shell.
struct ShellCommand {
  int line = 0;                    ///< line of its first word
  std::string text = {};           ///< as it is written, continued lines joined
  std::vector<std::string> words;  ///< without leading assignments and words as "if", "then", "time"; quotes removed
  bool in_background = false;      ///< ends with "&"
  bool is_exec = false;            ///< "exec program": takes the place of the shell

  /// The name of the program without its folder; empty if there is none.
  std::string program() const;
};

/// Contents of a batch script.
struct BatchScript {
  std::string name;                             ///< name of the file, for messages
  SbatchOptions options = {};                   ///< options of the #SBATCH lines that sbatch reads
  std::vector<SbatchOption> late_options = {};  ///< options of lines below the first command, which it does not read
  std::vector<std::pair<int, std::string>> unread = {};  ///< #SBATCH lines that make no sense, and why
  std::vector<ShellCommand> commands = {};               ///< commands without the texts of here-documents
  bool has_interpreter = false;                          ///< begins with "#!"
  int component_line = 0;                                ///< "#SBATCH hetjob"; 0: none
  int dos_line = 0;                                      ///< the first one that ends with a carriage return; 0: none
};

/// For any text.
BatchScript parse_batch_script(std::string_view text, const std::string& name);

/// Whether a shell would put the value of this variable into the text: "$NAME" or "${NAME...}" outside of single
/// quotes.
bool expands_variable(std::string_view text, std::string_view variable);

}  // namespace distdl::submit
