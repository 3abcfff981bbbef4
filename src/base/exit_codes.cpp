// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include <distdl/base/exit_codes.hpp>

namespace distdl {
namespace {
/// Greater means worse.
std::tuple<int, int> severity_of(int code) {
  switch (restart_decision(code)) {
    case RestartDecision::finished:
      return {0, code};
    case RestartDecision::resume_later:
      return {1, code};
    case RestartDecision::relaunch:
      return {is_corruption(code) ? 4 : is_cause(code) ? 3 : 2, code};
    default:
      return {5, code};
  }
}
}  // namespace

bool is_worse(int code, int other) {
  return severity_of(code) > severity_of(other);
}

}  // namespace distdl
