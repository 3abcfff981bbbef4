// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace distdl::checkpoint {

/// The processes that save or restore together. The checkpoint library does not depend on comm: the caller implements
/// this class.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Collective. Returns all ranks' strings in rank order. Throws if a peer is lost. The timeout is long, because other
  /// ranks may write or read gigabytes before they call it (Options::timeout_seconds).
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  /// Like all_gather(), for calls before which no rank has long work on files. The timeout is that of a training step,
  /// so that a hanging rank is found as early.
  virtual std::vector<std::string> all_gather_in_step(const std::string& mine) { return all_gather(mine); }

  struct Outgoing {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  struct Incoming {
    int from = 0;
    std::span<std::byte> bytes;
  };
  /// Sends and receives all these buffers at the same time, for Levels. Messages between two ranks arrive in order, and
  /// both ranks make their calls in the same order. Errors are as in all_gather().
  virtual void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in);
  /// May be called from any thread. The current all_gather() and all later ones throw soon afterwards. Without it, the
  /// end of a Saver may take as long as the timeout.
  virtual void cancel() noexcept {}
};

/// A group of one process, for tools.
class SingleProcessGroup final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }
  void exchange_buffers(std::span<const Outgoing>, std::span<const Incoming>) override {}  // there are no other ranks
};

}  // namespace distdl::checkpoint
