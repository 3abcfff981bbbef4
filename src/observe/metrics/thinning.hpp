// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <distdl/observe/record_writer.hpp>

namespace distdl::observe {

/// Makes a file of rows, as metrics.jsonl, smaller than three quarters of `most` bytes: of its older rows, which are
/// all but the last quarter, every second one is dropped, and again if need be. So the rows of a long run are the
/// sparser the older they are. Evaluations and the first row of each start stay, as long as they are few. Of two steps
/// in a row both are kept only where a start begins with the second, so that the loss after a step is never taken from
/// a start before the one that did this step last (read_loss_after). What is no whole row is dropped. After a crash the
/// file is the old or the new one. Only for the one process that appends to the file, which must open it again. Throws
/// StorageError.
void thin_out(const std::filesystem::path& file, std::uint64_t most);

/// Appends to a file of rows that is thinned out whenever it has `most` bytes; 0: no limit. For the one process that
/// appends to it. A file system that refuses it is no error.
class ThinnedWriter {
 public:
  ThinnedWriter(std::filesystem::path file, std::uint64_t most, TornLine torn = TornLine::end);
  void append(const std::string& rows);

 private:
  std::filesystem::path file_;
  std::uint64_t most_, thin_at_;
  RecordWriter writer_;
};

}  // namespace distdl::observe
