// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/near_word.hpp>
#include <distdl/submit/sbatch_options.hpp>

namespace distdl::submit {
namespace {
enum class Takes { nothing, value, maybe };  ///< maybe: "--exclusive=user"

struct Known {
  std::string_view name;
  char letter;  ///< '\0': none
  Takes takes;
};

/// Options of sbatch 23.02.
constexpr Known kSbatchOptions[] = {
    {"account", 'A', Takes::value},
    {"acctg-freq", 0, Takes::value},
    {"array", 'a', Takes::value},
    {"batch", 0, Takes::value},
    {"bb", 0, Takes::value},
    {"bbf", 0, Takes::value},
    {"begin", 'b', Takes::value},
    {"chdir", 'D', Takes::value},
    {"cluster-constraint", 0, Takes::value},
    {"clusters", 'M', Takes::value},
    {"comment", 0, Takes::value},
    {"constraint", 'C', Takes::value},
    {"container", 0, Takes::value},
    {"contiguous", 0, Takes::nothing},
    {"core-spec", 'S', Takes::value},
    {"cores-per-socket", 0, Takes::value},
    {"cpu-freq", 0, Takes::value},
    {"cpus-per-gpu", 0, Takes::value},
    {"cpus-per-task", 'c', Takes::value},
    {"deadline", 0, Takes::value},
    {"delay-boot", 0, Takes::value},
    {"dependency", 'd', Takes::value},
    {"distribution", 'm', Takes::value},
    {"error", 'e', Takes::value},
    {"exclude", 'x', Takes::value},
    {"exclusive", 0, Takes::maybe},
    {"export", 0, Takes::value},
    {"export-file", 0, Takes::value},
    {"extra", 0, Takes::value},
    {"extra-node-info", 'B', Takes::value},
    {"get-user-env", 0, Takes::maybe},
    {"gid", 0, Takes::value},
    {"gpu-bind", 0, Takes::value},
    {"gpu-freq", 0, Takes::value},
    {"gpus", 'G', Takes::value},
    {"gpus-per-node", 0, Takes::value},
    {"gpus-per-socket", 0, Takes::value},
    {"gpus-per-task", 0, Takes::value},
    {"gres", 0, Takes::value},
    {"gres-flags", 0, Takes::value},
    {"hint", 0, Takes::value},
    {"hold", 'H', Takes::nothing},
    {"ignore-pbs", 0, Takes::nothing},
    {"input", 'i', Takes::value},
    {"job-name", 'J', Takes::value},
    {"kill-on-invalid-dep", 0, Takes::value},
    {"licenses", 'L', Takes::value},
    {"mail-type", 0, Takes::value},
    {"mail-user", 0, Takes::value},
    {"mcs-label", 0, Takes::value},
    {"mem", 0, Takes::value},
    {"mem-bind", 0, Takes::value},
    {"mem-per-cpu", 0, Takes::value},
    {"mem-per-gpu", 0, Takes::value},
    {"mincpus", 0, Takes::value},
    {"network", 0, Takes::value},
    {"nice", 0, Takes::maybe},
    {"no-kill", 'k', Takes::maybe},
    {"no-requeue", 0, Takes::nothing},
    {"nodefile", 'F', Takes::value},
    {"nodelist", 'w', Takes::value},
    {"nodes", 'N', Takes::value},
    {"ntasks", 'n', Takes::value},
    {"ntasks-per-core", 0, Takes::value},
    {"ntasks-per-gpu", 0, Takes::value},
    {"ntasks-per-node", 0, Takes::value},
    {"ntasks-per-socket", 0, Takes::value},
    {"open-mode", 0, Takes::value},
    {"output", 'o', Takes::value},
    {"overcommit", 'O', Takes::nothing},
    {"oversubscribe", 's', Takes::nothing},
    {"parsable", 0, Takes::nothing},
    {"partition", 'p', Takes::value},
    {"power", 0, Takes::value},
    {"prefer", 0, Takes::value},
    {"priority", 0, Takes::value},
    {"profile", 0, Takes::value},
    {"propagate", 0, Takes::maybe},
    {"qos", 'q', Takes::value},
    {"quiet", 'Q', Takes::nothing},
    {"reboot", 0, Takes::nothing},
    {"requeue", 0, Takes::nothing},
    {"reservation", 0, Takes::value},
    {"signal", 0, Takes::value},
    {"sockets-per-node", 0, Takes::value},
    {"spread-job", 0, Takes::nothing},
    {"switches", 0, Takes::value},
    {"test-only", 0, Takes::nothing},
    {"thread-spec", 0, Takes::value},
    {"threads-per-core", 0, Takes::value},
    {"time", 't', Takes::value},
    {"time-min", 0, Takes::value},
    {"tmp", 0, Takes::value},
    {"tres-per-task", 0, Takes::value},
    {"uid", 0, Takes::value},
    {"use-min-nodes", 0, Takes::nothing},
    {"verbose", 'v', Takes::nothing},
    {"wait", 'W', Takes::nothing},
    {"wait-all-nodes", 0, Takes::value},
    {"wckey", 0, Takes::value},
    {"wrap", 0, Takes::value},
};

/// Options that replace each other: at most one of each line counts.
constexpr std::array<std::array<std::string_view, 3>, 2> kOpposites{
    {{"requeue", "no-requeue", ""}, {"mem", "mem-per-cpu", "mem-per-gpu"}}};

/// Finds an option by its name, or by a beginning that no other has, as getopt_long takes it.
const Known* find_known(std::string_view name) {
  const Known* found = nullptr;
  for (const Known& each : kSbatchOptions) {
    if (each.name == name) return &each;
    if (!name.empty() && each.name.starts_with(name)) {
      if (found) return nullptr;
      found = &each;
    }
  }
  return found;
}

const Known* find_known(char letter) {
  for (const Known& each : kSbatchOptions)
    if (each.letter == letter && letter != 0) return &each;
  return nullptr;
}

/// Reads options off a list of words.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {}
  std::vector<SbatchOption> read() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      const bool is_option = word.size() > 1 && word.front() == '-' && word != "--";
      require<UsageError>(is_option, "\"{}\" is no option of sbatch; write options as --nodes=8 or -N8", word);
      word[1] == '-' ? read_long(word) : read_letters(word);
    }
    return std::move(options_);
  }

 private:
  void read_long(const std::string& word) {
    const auto equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string_view::npos ? std::string_view::npos : equals - 2);
    require<UsageError>(!name.empty(), "\"{}\" is no option of sbatch", word);
    const Known* known = find_known(name);
    SbatchOption option{known ? std::string(known->name) : name};
    option.is_known = known != nullptr;
    if (equals != std::string_view::npos) option.value = word.substr(equals + 1);
    if (known && known->takes == Takes::value && !option.value) option.value = value_of(word);
    require<UsageError>(!known || known->takes != Takes::nothing || !option.value, "\"--{}\" takes no value", name);
    options_.push_back(std::move(option));
  }
  /// "-N8", "-N", or several that take no value: "-HQ".
  void read_letters(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Known* known = find_known(word[i]);
      require<UsageError>(known, "sbatch has no option \"-{}\"; write options as --nodes=8 or -N8", word[i]);
      SbatchOption option{std::string(known->name)};
      const std::string rest = word.substr(i + 1);
      if (known->takes == Takes::value) option.value = rest.empty() ? value_of(word) : rest;
      if (known->takes == Takes::maybe && !rest.empty()) option.value = rest;
      options_.push_back(option);
      if (option.value) return;
    }
  }
  std::string value_of(const std::string& word) {
    const bool follows = next_ < words_.size() && !words_[next_].starts_with('-');
    require<UsageError>(follows, "option \"{0}\" lacks its value; write it as {0}={1}", word,
                        word.starts_with("--") ? "VALUE" : "");
    return words_[next_++];
  }

  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  std::vector<SbatchOption> options_;
};

/// Whole numbers of at most nine digits.
std::optional<long> number_in(std::string_view text) {
  constexpr std::size_t kMostDigits = 9;
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size() && text.size() <= kMostDigits;
  return is_number && value >= 0 ? std::optional(value) : std::nullopt;
}
}  // namespace

std::string quote(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./=:,@%+").find(c) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string to_word(const SbatchOption& option) {
  return option.value ? fmt::format("--{}={}", option.name, quote(*option.value)) : "--" + option.name;
}

void SbatchOptions::set(SbatchOption option) {
  for (const auto& group : kOpposites)
    if (std::find(group.begin(), group.end(), option.name) != group.end())
      for (const auto& other : group)
        if (other != option.name) remove(other);
  const auto [place, is_new] = places_.emplace(option.name, options_.size());
  if (is_new)
    options_.push_back(std::move(option));
  else
    options_[place->second] = std::move(option);
}

void SbatchOptions::remove(std::string_view name) {
  const auto found = places_.find(name);
  if (found == places_.end()) return;
  const std::size_t place = found->second;
  places_.erase(found);
  options_.erase(options_.begin() + static_cast<std::ptrdiff_t>(place));
  for (auto& [other, at] : places_)
    if (at > place) --at;
}

const SbatchOption* SbatchOptions::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &options_[found->second];
}

std::string SbatchOptions::value(std::string_view name) const {
  const SbatchOption* found = find(name);
  return found && found->value ? *found->value : "";
}

std::optional<long> SbatchOptions::number(std::string_view name) const {
  return number_in(value(name));
}

std::vector<SbatchOption> parse_sbatch_words(const std::vector<std::string>& words) {
  return Words(words).read();
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool has_word = false;
  char within = 0;  // the quote
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (within != 0 && c == within) {
      within = 0;
    } else if (c == '\\' && within != '\'' && i + 1 < line.size()) {
      word += line[++i];
      has_word = true;
    } else if (within != 0) {
      word += c;
    } else if (c == '"' || c == '\'') {
      within = c;
      has_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      if (has_word) words.push_back(std::exchange(word, {}));
      has_word = false;
    } else if (c == '#' && !has_word) {
      break;
    } else {
      word += c;
      has_word = true;
    }
  }
  if (has_word) words.push_back(word);
  return words;
}

std::string nearest_sbatch_option(std::string_view name) {
  constexpr std::size_t kLongest = 64;  // the distance takes time in proportion to the length
  name = name.substr(0, kLongest);
  const Known* nearest = std::min_element(
      std::begin(kSbatchOptions), std::end(kSbatchOptions),
      [&](const Known& a, const Known& b) { return edit_distance(a.name, name) < edit_distance(b.name, name); });
  return std::string(nearest->name);
}

std::optional<long> seconds_of_time(std::string_view text) {
  constexpr long kMinute = 60, kHour = 3600, kDay = 86400;
  long days = 0;
  const auto dash = text.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    const auto number = number_in(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  std::vector<long> parts;
  while (parts.size() < 4) {
    const auto colon = text.find(':');
    const auto number = number_in(text.substr(0, colon));
    if (!number) return std::nullopt;
    parts.push_back(*number);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) return std::nullopt;
  if (!has_days && parts.size() == 1) return parts[0] * kMinute;
  if (!has_days && parts.size() == 2) return parts[0] * kMinute + parts[1];
  parts.resize(3);
  return days * kDay + parts[0] * kHour + parts[1] * kMinute + parts[2];
}

std::optional<std::uint64_t> bytes_of_memory(std::string_view text) {
  static constexpr std::string_view kUnits = "KMGT";
  constexpr std::size_t kMebi = 1;  // without a unit
  std::size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  if (unit == std::string_view::npos)
    unit = kMebi;
  else
    text.remove_suffix(1);
  const auto number = number_in(text);
  constexpr long kMost = 1L << 20;  // of TiB
  if (!number || *number <= 0 || *number > kMost << (10 * (kUnits.size() - 1 - unit))) return std::nullopt;
  return static_cast<std::uint64_t>(*number) << (10 * (unit + 1));
}

}  // namespace distdl::submit
