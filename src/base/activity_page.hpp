// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/ids.hpp>

namespace distdl {

/// Phase of work in which a thread of a rank is.
enum class RankPhase : std::uint32_t {
  idle,       ///< it waits for work
  start,      ///< before the ranks are connected
  connect,    ///< the ranks meet
  restore,    ///< a checkpoint, a snapshot or start values are loaded
  data,       ///< waits for samples
  compute,    ///< forward and backward
  reduce,     ///< the sum of the gradients over the ranks
  update,     ///< the parameters change
  report,     ///< between two steps: log, metrics
  copy,       ///< waits until an earlier save has copied the parameters
  snapshot,   ///< begins a snapshot without a checkpoint
  save,       ///< begins or makes a checkpoint
  last_save,  ///< the checkpoint at the end of a run
  evaluate,
  end,        ///< the ranks part
  end_round,  ///< ends a round of a parameter server without a lost rank
  corrupted,  ///< an audit found wrong bits in this rank, which ends
  read,       ///< the reader reads samples
  protect,    ///< the writer copies a snapshot elsewhere
  write,      ///< the writer writes a checkpoint
};
inline constexpr std::size_t kRankPhases = 20;
const char* name_of(RankPhase phase);

/// Activity of one thread of a rank, in memory shared with the process that started the rank. Only the thread writes
/// it, by relaxed stores. Zeroed memory is its initial state.
// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init)
struct alignas(128) ThreadActivity {
  static constexpr std::size_t kWords = 3;
  static constexpr std::size_t kFrames = 48;
  static constexpr std::size_t kFileWords = 16;

  std::atomic<std::int32_t> thread;      ///< gettid(); 0: nobody has this place
  std::atomic<std::uint32_t> phase;      ///< RankPhase
  std::atomic<std::uint64_t> entered;    ///< phases so far
  std::atomic<std::int64_t> since;       ///< begin of the phase; nanoseconds of Clock
  std::atomic<std::int64_t> step;        ///< steps done; -1: none is known
  std::atomic<std::int64_t> wait_since;  ///< begin of the wait in the operation below; nanoseconds of Clock; 0: no wait
  std::atomic<std::uint32_t> awaited;    ///< 1 + the rank it waits for; 0: none
  std::atomic<std::uint64_t> bytes;
  std::array<std::atomic<std::uint64_t>, kWords> operation;    ///< text; ends with a zero
  std::array<std::atomic<std::uint64_t>, 2> name;              ///< text; ends with a zero
  std::array<std::atomic<std::uint64_t>, kFileWords> file;     ///< text; ends with a zero
  std::array<std::atomic<std::uint32_t>, kRankPhases> counts;  ///< how often each phase was entered
  std::atomic<std::uint32_t> stack_asked, stack_told;  ///< number of requests for a stack, and of the last one answered
  std::atomic<std::uint32_t> depth;
  std::array<std::atomic<std::uint64_t>, kFrames> frames;  ///< return addresses, the innermost first
};

struct ActivityPage {
  static constexpr std::uint64_t kMagic = 0x3579746976697463;  ///< must be changed with this layout
  static constexpr std::size_t kThreads = 12;

  std::atomic<std::uint64_t> magic;
  std::atomic<std::int32_t> signal;  ///< makes a thread store its stack; 0: the process does not handle it yet
  std::array<ThreadActivity, kThreads> threads;  ///< the first one trains
};
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

/// A thread as seen at one moment.
struct ThreadSeen {
  struct Wait {
    std::string operation;  ///< "all-reduce 356"
    std::uint64_t bytes = 0;
    std::optional<Rank> rank;  ///< the rank that it waits for
    Clock::time_point since;
    friend bool operator==(const Wait&, const Wait&) = default;
  };
  std::size_t place = 0;  ///< in the page
  pid_t thread = 0;
  std::string name = {};
  RankPhase phase = RankPhase::idle;
  std::uint64_t entered = 0;
  Clock::time_point since = {};
  std::optional<Step> step = {};
  std::optional<Wait> wait = {};
  std::string file = {};    ///< the file that it reads or waits for; empty: none is known
  std::uint32_t count = 0;  ///< how often it has entered this phase
  friend bool operator==(const ThreadSeen&, const ThreadSeen&) = default;
};

/// The side of the process that starts a rank: memory in which the rank shows its activity.
class ActivityMemory {
 public:
  /// Throws SchedulerError if the system refuses the memory.
  ActivityMemory();
  ~ActivityMemory();
  ActivityMemory(const ActivityMemory&) = delete;
  ActivityMemory& operator=(const ActivityMemory&) = delete;

  /// Variables for the environment of the rank, which inherits descriptor(). Call close_descriptor() after its start.
  std::map<std::string, std::string> variables() const;
  int descriptor() const { return descriptor_.get(); }
  void close_descriptor() { descriptor_.reset(); }
  /// The threads that show their activity, the training one first. Empty before the rank has begun to show it.
  std::vector<ThreadSeen> look() const;
  /// The return addresses of a thread, the innermost first. Interrupts it by a signal, and waits for so long. Empty if
  /// it does not answer: it is stopped, or the system holds it. `process` must be a child of this process.
  std::vector<std::uint64_t> stack(pid_t process, const ThreadSeen& thread, Milliseconds timeout) const;

 private:
  FileDescriptor descriptor_;
  ActivityPage* page_ = nullptr;
  mutable std::mutex asking_;  ///< one question at a time: each has one place for its answer
};

/// Stores a text in `count` words of shared memory, cut to fit and ended by a zero.
void store_text(std::string_view text, std::atomic<std::uint64_t>* words, std::size_t count);

}  // namespace distdl
