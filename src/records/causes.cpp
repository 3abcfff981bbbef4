// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/exit_codes.hpp>
#include <distdl/records/causes.hpp>

namespace distdl::records {

std::string_view cause_of_exit(int code) {
  constexpr int kSignal = 128;
  if (code > kSignal) return "signal";
  const ExitCodeEntry* const entry = entry_of(code);
  return entry != nullptr ? entry->cause : "exit_code";
}

std::string_view cause_of_stop(std::string_view reason) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kBeginnings{
      {{"signal SIGINT", "user"},
       {"signal ", "stop_signal"},
       {"another rank was asked", "stop_signal"},  // rank 0 is the first to know of all else
       {"end of the job", "time_limit"},
       {"the file STOP", "user"}}};
  for (const auto& [beginning, code] : kBeginnings)
    if (reason.starts_with(beginning)) return code;
  return "unknown";
}

std::string_view cause_of_kind(std::string_view kind) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kKinds{
      {{"killed", "signal"},
       {"crashed", "signal"},
       {"out of memory", "out_of_memory"},
       {"failed", "exit_code"},
       {"frozen", "frozen"},
       {"no progress", "no_progress"},
       {"node lost", "node_lost"},
       {"link lost", "link_lost"},
       {"poison step", "poison_step"},
       {"diverged", "diverged"},
       {"silent corruption", "corruption"}}};
  for (const auto& [name, code] : kKinds)
    if (kind == name) return code;
  return "unknown";
}

}  // namespace distdl::records
