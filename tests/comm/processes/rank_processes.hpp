// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include <distdl/base/clock.hpp>

namespace distdl::comm {

/// Ranks as processes of this machine that meet in a folder of their own; killed and removed at the end.
class RankProcesses {
 public:
  using Environment = std::map<std::string, std::string>;
  /// Starts `program arguments...` once for each rank of `ranks`, in a world of `size`.
  RankProcesses(const std::string& program, const std::vector<std::string>& arguments, int size,
                const std::vector<int>& ranks, const Environment& extra = {});
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// One more.
  void start(const std::string& program, const std::vector<std::string>& arguments, int size, int rank,
             const Environment& extra);

  /// Until each of `ranks` has printed a line that starts with `text`; false after `limit`.
  bool wait_for_line(const std::vector<int>& ranks, const std::string& text, Milliseconds limit) const;
  void signal(int rank, int number) const;
  /// Exit code, 128 + signal, or -1 if it still runs after `limit`.
  int wait(int rank, Milliseconds limit);

  std::string output(int rank) const { return read("out", rank); }
  std::string errors(int rank) const { return read("err", rank); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::string read(const char* kind, int rank) const;

  std::filesystem::path folder_;
  std::map<int, pid_t> running_;
};

}  // namespace distdl::comm
