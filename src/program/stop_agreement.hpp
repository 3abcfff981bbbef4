// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace distdl::program {

/// For RankReport::wants_stop: the run has got to train.end_at_step.
inline constexpr std::uint8_t kPartIsDone = 2;

/// A rank's report about its program, for the others, several times a second. Plain bytes: it is sent as it is.
struct RankReport {
  std::int64_t call = -1;          ///< ContractServer::last_question(); -1: not known yet
  double ended_at = 0;             ///< seconds since 1970, once the program has ended
  std::int32_t code = 0;           ///< its exit code then
  std::uint8_t wants_stop = 0;     ///< 1: this rank was asked to stop; kPartIsDone: so that a later start goes on
  std::uint8_t asks = 0;           ///< the program asks whether to stop
  std::uint8_t has_ended = 0;      ///< the program has ended
  std::uint8_t says_finished = 0;  ///< it has told that all its work is done
};
static_assert(sizeof(RankReport) == 24);  // no byte is left undefined

/// The meaning of the ranks' reports of one round: all ranks conclude the same from the same round.
struct Conclusion {
  bool stops = false;                        ///< the run is asked to stop
  bool any_asks = false;                     ///< some program asks: then none gets a signal
  std::optional<std::int64_t> stop_at = {};  ///< the question that is to be answered with true; nothing: not agreed yet
  bool all_ended = false;
  /// The rank whose program has failed first; the others may have failed because of it. Nothing: none has, or a stop
  /// was asked for, in which programs end as they will.
  std::optional<int> failed = {};
};
Conclusion conclude(std::span<const RankReport> reports);

/// How the run as a whole has ended, once all programs have: the exit code of each rank's process.
///   no stop was asked for: 0 if all ended with 0; 75 if one did and the others with 0 or 75
///   a stop was asked for: 0 if all ended with 0 and one says that all is done; else 75, also if a signal has ended
///   them, or failed with ExitCode::program after another one had ended
///   the stop was that at the end of a part: 0 instead of 75
/// Any other code is a failure, of which code_of_failure() tells the code; the worst counts.
int code_of_run(std::span<const RankReport> reports, bool stops, bool is_complete);

/// Whether a rank has stopped the run at the end of a part.
bool ends_part(std::span<const RankReport> reports);

/// Whether a process has ended with this code because of a signal that asks to stop.
bool is_stop_signal(int code);

/// The code of a rank whose program has ended with this code, neither 0 nor 75. Codes that distdl's table gives a
/// meaning for a program keep it (docs/programs.md), as do signals; others mean that the program has failed.
int code_of_failure(int code);

}  // namespace distdl::program
