// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/comm/accelerator.hpp>
#include <distdl/tensor/granules.hpp>

namespace distdl::comm {

/// A device for tests without one: a thread that does its work late, in any order that the contract allows, on memory
/// that has two addresses. At the one that everybody else sees, nothing can be read or written.
class FarAccelerator final : public Accelerator {
 public:
  enum class Memory {
    hidden,   ///< an access by others ends the program
    visible,  ///< host memory as UCX knows it, which it may send and receive
  };
  explicit FarAccelerator(Memory memory = Memory::hidden, unsigned seed = 1);
  ~FarAccelerator() override;

  std::string description() const override { return "far: a test"; }
  std::string memory_type() const override { return memory_ == Memory::visible ? "host" : "far"; }
  bool owns(const void* address) const override;
  tensor::Buffer allocate(std::size_t bytes) override;
  tensor::Buffer allocate_staging(std::size_t bytes) override;
  void follow_caller() override;
  Mark copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void reduce(tensor::DataType type, tensor::Reduction reduction, std::span<const tensor::ReduceSource> sources,
              std::span<void* const> targets, std::size_t count, double scale) override;
  Mark mark() override;
  bool reached(Mark mark) override;
  void drain() noexcept override;
  void* library_queue() override;
  Mark mark_library() override;

  /// Addresses whose memory neither others nor the device can use until it is committed.
  tensor::Buffer reserve(std::size_t bytes);
  void commit(std::span<std::byte> memory);
  void discard(std::span<std::byte> memory);
  /// Bytes of it that are committed now.
  std::size_t committed() const;

  /// What library_queue() gives to the stand-in for NCCL.
  struct LibraryQueue {
    std::function<void(std::function<void()>)> put;
    std::function<std::byte*(const void*)> inside;  ///< where the device finds the memory
  };
  /// Before it has called this, it has no such queue.
  void offer_library_queue();

  /// What the caller itself has the device do: bytes into its memory, after `delay`.
  void write_late(void* to, std::vector<std::byte> bytes, Clock::duration delay);
  /// Does nothing for so long.
  void freeze(Clock::duration time);
  /// Most staging memory at a time, in bytes.
  std::size_t staged() const;
  /// Where the device finds its own memory.
  std::byte* inside(const void* address) const;
  /// Until end_recording() the work that the caller queues is recorded: no operation of other ranks may be among it.
  void begin_recording() { is_recording_ = true; }
  void end_recording() { is_recording_ = false; }
  bool is_recording() const { return is_recording_; }

 private:
  enum Queue { kMain, kToHost, kCaller, kLibrary, kQueues };
  struct Work {
    std::function<void()> run;
    std::array<std::uint64_t, kQueues> after{};  ///< numbers that must be done before
  };
  std::uint64_t put(Queue queue, std::function<void()> run, std::array<std::uint64_t, kQueues> after = {});
  void work();
  bool may_run(int queue) const;
  bool all_done() const;

  struct Range {
    std::size_t bytes;
    std::byte* inside;
    std::optional<tensor::Granules> reserved = {};  ///< none: all of it has memory
  };
  tensor::Buffer map_twice(std::size_t bytes, std::optional<tensor::Granules> reserved);
  /// `offset`: of the address in it.
  Range& reserved_at(const std::byte* address, std::size_t& offset);
  const Memory memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const std::byte*, Range> ranges_;
  std::array<std::deque<Work>, kQueues> queues_;
  std::array<std::uint64_t, kQueues> put_{}, done_{};
  std::size_t staged_ = 0;
  std::unique_ptr<LibraryQueue> library_;
  Clock::time_point frozen_until_{};
  bool is_recording_ = false;
  std::mt19937 random_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace distdl::comm
