// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/health/node_health.hpp>

namespace distdl::observe {

/// A node's state at a time. Its energy is that of all starts of the run so far, with what others used there meanwhile.
struct HealthRow {
  std::string host = {};
  double time = 0;  ///< seconds since 1970
  health::NodeHealth health = {};
};

inline constexpr const char* kHealthFolder = "health";  ///< in the run folder

std::string to_text(const HealthRow& row);
/// All rows of a node's file that can be read, in its order.
std::vector<HealthRow> health_rows_of(std::string_view text);

/// The newest row of each node of the run in a folder, by host, or of one host alone. The files are not trusted: what
/// cannot be read is left out.
std::vector<HealthRow> read_health(const std::filesystem::path& run_folder, const std::string& host = {});

/// Appends the state of this node to `health/<host>.jsonl` in the run folder, now and then, from a thread of its own: a
/// driver or a file system may not answer. Each node has its own file, because network file systems do not append for
/// several nodes at once.
class HealthLog {
 public:
  /// A file that cannot be written is no error. `most_bytes`: of the file, see ThinnedWriter. `read`: replaced by
  /// tests.
  HealthLog(const std::filesystem::path& run_folder, std::string host, std::uint64_t most_bytes,
            Clock::duration period = std::chrono::seconds(30), std::function<health::NodeHealth()> read = {});
  /// Waits for a reading that is under way, but not long.
  ~HealthLog();
  HealthLog(const HealthLog&) = delete;
  HealthLog& operator=(const HealthLog&) = delete;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool ends = false, has_ended = false;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace distdl::observe
