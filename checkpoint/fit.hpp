// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>

// Compares the tensors of a checkpoint with those that a program wants to fill.
namespace distdl::checkpoint {

struct Fit {
  struct Mismatch {
    TensorEntry wanted, found;
  };
  std::vector<std::string> matching;  ///< wanted, and stored with this type and shape
  std::vector<std::string> missing;   ///< wanted, but not stored
  std::vector<std::string> unused;    ///< stored, but not wanted
  std::vector<Mismatch> mismatched;   ///< stored with another type or shape
  bool exact() const { return missing.empty() && unused.empty() && mismatched.empty(); }
};

/// All lists are sorted by name. Several targets may be parts of one tensor.
Fit fit(const Summary& checkpoint, std::span<const Target> targets);

/// Describes the misfit and a remedy: "it lacks a, b; ...". Empty if they fit.
std::string problem_of(const Fit& fit);

/// "a, b, c" or "a, b and 7 more".
std::string shortened(const std::vector<std::string>& names, std::size_t most);

}  // namespace distdl::checkpoint
