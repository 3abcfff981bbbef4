// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <new>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/capi/library/error.hpp>
#include <distdl/comm/peer_lost.hpp>
#include <distdl/version.hpp>

namespace distdl::capi {
namespace {

struct LastError {
  int exit_code = 0;
  std::string text;
  bool is_short = false;  ///< there was no memory for the text
};
thread_local LastError last_error;

struct CodeName {
  int code;
  const char* name;
};
/// Codes that are no exit codes, and the exit codes with which a program ends because of them.
struct OwnCode {
  int code;
  const char* name;
  ExitCode exit_code;
};
constexpr std::array kOwnCodes{
    OwnCode{DISTDL_INVALID, "invalid argument", ExitCode::internal},
    OwnCode{DISTDL_STATE, "wrong order", ExitCode::internal},
    OwnCode{DISTDL_TIMEOUT, "timeout", ExitCode::peer_lost},
    OwnCode{DISTDL_NO_MEMORY, "no memory", ExitCode::config},
    OwnCode{DISTDL_NOT_FOUND, "not found", ExitCode::incomplete},
    OwnCode{DISTDL_BUSY, "busy", ExitCode::storage},
};
constexpr std::array kExitCodesHere{
    CodeName{DISTDL_OK, "ok"},
    CodeName{DISTDL_CORRUPT, "corrupt"},
    CodeName{DISTDL_INCOMPLETE, "incomplete"},
    CodeName{DISTDL_INCOMPATIBLE, "incompatible"},
    CodeName{DISTDL_PEER_LOST, "peer lost"},
    CodeName{DISTDL_INTERNAL, "internal"},
    CodeName{DISTDL_SCHEDULER, "scheduler"},
    CodeName{DISTDL_SUPERSEDED, "superseded"},
    CodeName{DISTDL_STORAGE, "storage"},
    CodeName{DISTDL_REQUEUE, "requeue"},
    CodeName{DISTDL_CONFIG, "configuration"},
};
constexpr bool are_exit_codes() {
  return std::ranges::all_of(kExitCodesHere, [](const CodeName& row) {
    const ExitCodeEntry* const entry = entry_of(row.code);
    return entry != nullptr && entry->name == row.name;
  });
}
static_assert(are_exit_codes(), "a code below 100 has the number and the name of an exit code");

int exit_code_for(int code) {
  for (const OwnCode& row : kOwnCodes)
    if (row.code == code) return static_cast<int>(row.exit_code);
  return code;
}

struct Report {
  int code = DISTDL_INTERNAL;
  int exit_code = DISTDL_INTERNAL;
};

Report report_of(const Error& error, Blame blame) {
  const int exit_code = static_cast<int>(error.exit_code());
  if (dynamic_cast<const comm::NoMemory*>(&error)) return {DISTDL_NO_MEMORY, exit_code};
  if (dynamic_cast<const CommError*>(&error)) return {DISTDL_PEER_LOST, exit_code};
  if (dynamic_cast<const ConfigError*>(&error) && blame == Blame::arguments) return {DISTDL_INVALID, DISTDL_INTERNAL};
  for (const CodeName& row : kExitCodesHere)
    if (row.code == exit_code && exit_code != DISTDL_OK && exit_code != DISTDL_REQUEUE) return {exit_code, exit_code};
  // The cause of a lost rank, which a save beside the program has met.
  return {dynamic_cast<const StorageError*>(&error) ? DISTDL_PEER_LOST : DISTDL_INTERNAL, exit_code};
}

}  // namespace

void keep_error(int exit_code, const std::string& text) noexcept {
  last_error.exit_code = exit_code;
  try {
    last_error.text = text;
    last_error.is_short = false;
  } catch (const std::bad_alloc&) {
    last_error.is_short = true;
  }
}

int report(const char* function, Blame blame) noexcept {
  Report result;
  last_error.is_short = true;  // unless there is memory for a text
  try {
    std::string text;
    try {
      throw;
    } catch (const CallError& error) {
      result = {error.code(), exit_code_for(error.code())};
      text = error.what();
    } catch (const std::bad_alloc&) {
      result = {DISTDL_NO_MEMORY, exit_code_for(DISTDL_NO_MEMORY)};
      text = "there is no memory left";
    } catch (const Error& error) {
      result = report_of(error, blame);
      text = error.what();
    } catch (const std::exception& error) {
      result.code = result.exit_code = static_cast<int>(exit_code_of(error));
      text = message_of(error);
    } catch (...) {
      text = "an unknown exception";
    }
    keep_error(result.exit_code, fmt::format("{}: {}", function, text));
  } catch (...) {
    last_error.exit_code = result.exit_code;
  }
  return result.code;
}

}  // namespace distdl::capi

using namespace distdl::capi;  // NOLINT(google-build-using-namespace)

const char* distdl_version(void) {
  return distdl::version();
}

const char* distdl_code_name(int code) {
  for (const CodeName& row : kExitCodesHere)
    if (row.code == code) return row.name;
  for (const OwnCode& row : kOwnCodes)
    if (row.code == code) return row.name;
  return "unknown";
}

const char* distdl_error_text(void) {
  return last_error.is_short ? "there was no memory for the text of the error" : last_error.text.c_str();
}

int distdl_error_exit_code(void) {
  return last_error.exit_code;
}
