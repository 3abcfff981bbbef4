// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Options of sbatch, as its command line and the #SBATCH lines of scripts give them.
namespace distdl::submit {

/// One option: its long name without dashes, and its value if it has one.
struct SbatchOption {
  std::string name;  ///< "nodes", also where "-N" was written
  std::optional<std::string> value = {};
  int line = 0;          ///< line of the script; 0: not of a script
  bool is_known = true;  ///< false: sbatch of 23.02 has no such option

  bool operator==(const SbatchOption& other) const { return name == other.name && value == other.value; }
};

/// "--nodes=8", quoted for a shell where that is needed.
std::string to_word(const SbatchOption& option);

/// Options in the order in which their names were given first; of a name the last value counts, as for sbatch.
class SbatchOptions {
 public:
  /// Takes the place of an earlier one, and of its opposite: requeue and no-requeue; mem, mem-per-cpu and mem-per-gpu.
  void set(SbatchOption option);
  void set(const std::string& name, const std::string& value) { set(SbatchOption{name, value}); }
  void remove(std::string_view name);
  const SbatchOption* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Its value; empty if the option is missing or has none.
  std::string value(std::string_view name) const;
  /// Its value, if that is a whole number.
  std::optional<long> number(std::string_view name) const;

  const std::vector<SbatchOption>& all() const { return options_; }
  bool empty() const { return options_.empty(); }

 private:
  std::vector<SbatchOption> options_;
  std::map<std::string, std::size_t, std::less<>> places_;  ///< place of each name in `options_`
};

/// The options in these words of a command line: "--nodes=8", "--nodes" "8", "-N8", "-N" "8". An unknown option is
/// passed on as it is, which newer releases of sbatch may understand. Throws UsageError if a word is no option or lacks
/// its value. A file's name in between cannot be distinguished from a value, so callers take those out before.
std::vector<SbatchOption> parse_sbatch_words(const std::vector<std::string>& words);

/// Words of a line as a shell and sbatch divide it: quotes, backslashes, and a comment at the end. Nothing is expanded.
std::vector<std::string> split_words(std::string_view line);

/// Quoted for a shell where that is needed.
std::string quote(const std::string& word);

/// The known long name nearest to this one.
std::string nearest_sbatch_option(std::string_view name);

/// Seconds of a time limit as sbatch takes it: "90" (minutes), "10:30" (minutes and seconds), "1:00:00", "1-12",
/// "1-12:30", "1-12:30:00". Nothing for "UNLIMITED" and for what is no time.
std::optional<long> seconds_of_time(std::string_view text);

/// Bytes of a size as sbatch --mem takes it: "4000" or "4000M" (MiB), "512K", "64G", "1T". Nothing for "0", all of the
/// node, and for what is no size.
std::optional<std::uint64_t> bytes_of_memory(std::string_view text);

}  // namespace distdl::submit
