// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <distdl/parallel/server/messages.hpp>

// What docs/parameter-server.md promises, checked against what the ranges really contain.
namespace distdl::parallel::server::simulation {

/// What stands for the parameters of a range: which updates they have, and in which order.
struct Content {
  std::uint64_t microbatches = 0;  ///< bits
  std::uint64_t chain = 0;
  bool operator==(const Content&) const = default;
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b);

inline std::uint64_t bit_of(Microbatch microbatch) {
  return std::uint64_t{1} << microbatch.value;
}

/// What a server has of a range.
struct Storage {
  std::map<Version, Content> versions;
  std::map<Microbatch, std::uint64_t> gradients;
  std::map<Version, Content> kept{};  ///< what outlives the process
  std::uint64_t known() const {
    std::uint64_t bits = versions.empty() ? 0 : versions.rbegin()->second.microbatches;
    for (const auto& [microbatch, gradient] : gradients) bits |= bit_of(microbatch);
    return bits;
  }
};

/// The promise that was broken.
struct Broken {
  std::string what;
};
template <class... Args>
[[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) {
  throw Broken{fmt::format(format, std::forward<Args>(args)...)};
}

/// All functions that check throw Broken.
class Promises {
 public:
  /// `rules` must outlive it.
  explicit Promises(const Rules& rules);

  /// What a range begins with.
  static Content first(int range) { return {0, static_cast<std::uint64_t>(range) + 1}; }

  void acknowledge(int range, Microbatch microbatch) { acknowledged_[range] |= bit_of(microbatch); }
  /// From now on the version has this content, if it had none.
  void remember(int range, Version version, const Content& content) {
    contents_.try_emplace({range, version}, content);
  }
  /// All that can be read of a version, at any time and place, is the same.
  void check_content(int range, Version version, const Content& content) const;
  void check_read(const Content& content, int range, Microbatch microbatch) const;
  void check_staleness(const Apply& action) const;
  /// Who takes a range has all that was acknowledged.
  void check_holder(Node node, int range, const Storage& storage);
  /// A start that finds what these servers have kept goes on with a step that is as new as `under_way`, the newest that
  /// anybody computes, and that has the right content.
  void check_kept(const std::vector<const std::map<int, Storage>*>& servers, std::int64_t under_way) const;
  /// Of a range, at the end of a run.
  void check_end(int range, const Content& content) const;

 private:
  void set_reference();

  const Rules& rules_;
  std::map<int, std::uint64_t> acknowledged_;
  std::map<std::pair<int, Version>, Content> contents_;
  std::vector<std::vector<Content>> reference_;  ///< per step and range
};

}  // namespace distdl::parallel::server::simulation
