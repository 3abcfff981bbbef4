// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <distdl/base/errors.hpp>
#include <distdl/submit/batch_script.hpp>

namespace distdl::submit {
namespace {
constexpr std::size_t kLongestName = 256;  ///< bytes of the word that ends a here-document

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

/// "NAME=value".
bool is_assignment(std::string_view word) {
  const auto equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 && !std::isdigit(static_cast<unsigned char>(word.front())) &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_name_character);
}

bool precedes_a_command(std::string_view word) {
  constexpr std::array kWords{"if",   "then", "else", "elif", "while",   "until", "do",
                              "time", "!",    "{",    "(",    "command", "nohup"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// Keeps track of quotes while a text is read from left to right.
class Quotes {
 public:
  /// Whether this character is outside of quotes and not escaped.
  bool is_bare(char c) {
    if (std::exchange(escaped_, false)) return false;
    if (c == '\\' && within_ != '\'') {
      escaped_ = true;
      return false;
    }
    if (within_ != 0) {
      if (c == within_) within_ = 0;
      return false;
    }
    if (c == '"' || c == '\'') within_ = c;
    return within_ == 0;
  }
  bool is_open() const { return within_ != 0; }
  bool in_single() const { return within_ == '\''; }
  bool escaped() const { return escaped_; }

 private:
  char within_ = 0;
  bool escaped_ = false;
};

/// Lines as a shell joins them: continued ones, and texts in quotes over several lines. Leaves out comments,
/// and what stands in here-documents.
class ShellLines {
 public:
  struct Line {
    int number = 0;
    std::string text;
  };
  explicit ShellLines(std::string_view text) : rest_(text) {}
  std::optional<Line> next() {
    if (!end_of_document_.empty()) skip_document();
    if (rest_.empty()) return std::nullopt;
    Line line{number_ + 1, {}};
    Quotes quotes;
    for (bool more = true; more && !rest_.empty();) {
      const std::string physical = take();
      const std::size_t comment = read(physical, quotes);
      const bool continued = quotes.escaped();
      more = quotes.is_open() || continued;
      line.text += physical.substr(0, continued ? physical.size() - 1 : comment);
      if (continued) quotes.is_bare('\n');
      if (more) line.text += continued ? ' ' : '\n';
    }
    return line;
  }

 private:
  std::string take() {
    ++number_;
    const auto end = std::min(rest_.find('\n'), rest_.size());
    std::string line(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
  }
  /// Returns where a comment begins, or the length.
  std::size_t read(const std::string& line, Quotes& quotes) {
    bool word_begins = true;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool bare = quotes.is_bare(line[i]);
      if (bare && line[i] == '#' && word_begins) return i;
      if (bare && line.compare(i, 2, "<<") == 0 && line.compare(i, 3, "<<<") != 0 && (i == 0 || line[i - 1] != '<'))
        note_document(std::string_view(line).substr(i + 2, kLongestName));
      word_begins = bare && (line[i] == ' ' || line[i] == '\t' || line[i] == ';' || line[i] == '&' || line[i] == '|');
    }
    return line.size();
  }
  void note_document(std::string_view behind) {
    if (behind.starts_with('-')) behind.remove_prefix(1);
    const auto words = split_words(behind);
    if (!words.empty()) end_of_document_ = words.front();
  }
  void skip_document() {
    while (!rest_.empty()) {
      std::string line = take();
      line.erase(0, std::min(line.find_first_not_of('\t'), line.size()));
      if (line == end_of_document_) break;
    }
    end_of_document_.clear();
  }

  std::string_view rest_;
  int number_ = 0;
  std::string end_of_document_;
};

ShellCommand command_of(int line, const std::string& text, bool in_background) {
  ShellCommand command{line, text, split_words(text), in_background, false};
  auto& words = command.words;
  while (!words.empty()) {
    if (words.front() == "exec") command.is_exec = true;
    if (!precedes_a_command(words.front()) && !is_assignment(words.front()) && words.front() != "exec") break;
    words.erase(words.begin());
  }
  return command;
}

/// Divides a line at ";", "&", "|" and brackets.
void add_commands(std::vector<ShellCommand>& commands, const ShellLines::Line& line) {
  Quotes quotes;
  std::string part;
  const auto finish = [&](bool in_background) {
    if (part.find_first_not_of(" \t\n") != std::string_view::npos)
      commands.push_back(command_of(line.number, part, in_background));
    else if (in_background && !commands.empty() && commands.back().line == line.number)
      commands.back().in_background = true;  // "( ... ) &"
    part.clear();
  };
  for (std::size_t i = 0; i < line.text.size(); ++i) {
    const char c = line.text[i];
    const bool bare = quotes.is_bare(c);
    const char before = i > 0 ? line.text[i - 1] : ' ', after = i + 1 < line.text.size() ? line.text[i + 1] : ' ';
    const bool is_redirection = c == '&' && (before == '>' || before == '<' || after == '>');
    const bool is_expansion = c == '(' && (before == '$' || before == '<' || before == '>' || before == '=');
    if (bare && (c == ';' || c == '|' || c == '&' || c == '(' || c == ')') && !is_redirection && !is_expansion) {
      finish(c == '&' && after != '&' && before != '&');
    } else {
      part += c;
    }
  }
  finish(false);
}

void read_directive(BatchScript& script, std::string_view rest, int line, bool is_late) try {
  const auto words = split_words(rest);
  if (!words.empty() && (words.front() == "hetjob" || words.front() == "packjob")) {
    if (!is_late) script.component_line = line;
    return;
  }
  for (SbatchOption& option : parse_sbatch_words(words)) {
    option.line = line;
    if (is_late)
      script.late_options.push_back(option);
    else
      script.options.set(option);
  }
} catch (const UsageError& error) {
  script.unread.emplace_back(line, error.what());
}
}  // namespace

std::string ShellCommand::program() const {
  return words.empty() ? "" : words.front().substr(words.front().rfind('/') + 1);
}

BatchScript parse_batch_script(std::string_view text, const std::string& name) {
  constexpr std::string_view kDirective = "#SBATCH";
  BatchScript script{name};
  script.has_interpreter = text.starts_with("#!");
  bool has_commands = false;
  int number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.ends_with('\r') && script.dos_line == 0) script.dos_line = number;
    if (line.starts_with(kDirective) && line.size() > kDirective.size() &&
        std::isspace(static_cast<unsigned char>(line[kDirective.size()])))
      read_directive(script, line.substr(kDirective.size()), number, has_commands);
    const auto first = line.find_first_not_of(" \t\r");
    has_commands = has_commands || (first != std::string_view::npos && line[first] != '#');
  }
  ShellLines lines(text);
  while (const auto line = lines.next()) add_commands(script.commands, *line);
  return script;
}

bool expands_variable(std::string_view text, std::string_view variable) {
  Quotes quotes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool was_escaped = quotes.escaped();
    quotes.is_bare(text[i]);
    if (text[i] != '$' || was_escaped || quotes.in_single()) continue;
    std::string_view name = text.substr(i + 1);
    if (name.starts_with('{')) name.remove_prefix(1);
    if (name.starts_with(variable) && (name.size() == variable.size() || !is_name_character(name[variable.size()])))
      return true;
  }
  return false;
}

}  // namespace distdl::submit
