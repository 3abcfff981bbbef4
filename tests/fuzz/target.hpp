// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// A fuzz target gives any bytes to one reader. The reader may refuse them with one of distdl's errors, or understand
// them; a crash, any other exception, a hang, or memory without bound is a defect.
namespace distdl::fuzz {

/// Calls std::abort() if the reader broke a promise.
using Run = void (*)(std::string_view input);

/// A constant of this type, at namespace scope, makes a target known.
struct Target {
  Target(std::string name, Run run);
};

const std::vector<std::pair<std::string, Run>>& targets();

/// Errors by which a reader may refuse its input end here.
void run(Run target, std::string_view input);

/// Aborts unless `promise` holds.
void demand(bool promise, const char* what);

/// Takes numbers and texts from the front of an input; zeros and empty texts where it ends.
class Input {
 public:
  explicit Input(std::string_view rest) : rest_(rest) {}
  template <class Number>
  Number number() {
    Number value{};
    take(sizeof value).copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  /// Two bytes with its length, then the text; what there is of it.
  std::string_view text();
  std::string_view take(std::size_t bytes);
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace distdl::fuzz
