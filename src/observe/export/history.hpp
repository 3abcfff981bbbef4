// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <distdl/checkpoint/summary.hpp>
#include <distdl/observe/run/run_summary.hpp>
#include <distdl/observe/tensorboard/scalars.hpp>

namespace distdl::observe {

/// Records of a run folder, as other programs expect them: no step twice, and none that a later start has undone.
struct History {
  std::filesystem::path folder;  ///< absolute
  std::string name, id;          ///< name of the folder; id of the run, or one made from the path if the run has none
  std::string job = {};          ///< as TOML; empty: not kept
  Phase phase = Phase::unknown;
  double begin = 0, end = 0;  ///< seconds since 1970, of the first and the last row
  struct Row {
    double time = 0;  ///< seconds since 1970
    std::vector<Scalar> scalars;
  };
  std::multimap<std::int64_t, Row> rows = {};  ///< by step
  /// Checkpoints whose parameters are to be shown as histograms. read_history() leaves them to its caller.
  std::vector<checkpoint::Summary> checkpoints = {};
  std::int64_t samples = 0;  ///< number of samples of the training set to show; likewise

  /// The keys of the job, with their values as TOML has them. Keys that no distdl writes are left out.
  std::map<std::string, std::string> keys() const;
};

/// Reads metrics.jsonl and journal.jsonl, which are not trusted, of a run that may be going on. Throws StorageError
/// (incomplete) if no row has a step.
History read_history(const std::filesystem::path& run_folder);

}  // namespace distdl::observe
