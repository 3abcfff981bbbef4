// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/record_writer.hpp>
#include <distdl/records/record.hpp>

// Events of a run beside training: its jobs and launches. RunFolder writes the events of training to the same file,
// journal.jsonl. The ledger (ledger.hpp) and the commands status, ls, cancel and requeue read them.
namespace distdl::observe {

/// Appends rows to the journal of a run.
class Journal {
 public:
  explicit Journal(const std::filesystem::path& run_folder, TornLine torn = TornLine::end);

  /// `time`: when it happened, seconds since 1970; 0: now.
  void append(records::Record record, double time = 0);

 private:
  RecordWriter writer_;
};

/// All rows that can be read, in the order of the file.
std::vector<records::Row> read_journal(const std::filesystem::path& run_folder);

struct LaunchFailure {
  std::string cause, cause_code;
};
/// Why the newest launch or generation of the run failed: as rank 0 reported it, else its agents, else the supervisor.
/// The loss of a peer counts only if nothing else is reported. Nothing if there is no report.
std::optional<LaunchFailure> last_failure(const std::vector<records::Row>& journal);

/// The id of the launch that goes on, as far as the journal knows: empty if an older distdl has begun it; nothing if
/// none does since the newest start of the run.
std::optional<std::string> present_launch(const std::filesystem::path& run_folder);

/// True if the newest launch of the run ended at a poison step: ranks crashed twice after the same step.
bool has_met_poison(const std::vector<records::Row>& journal);

/// True if a job of this chain has ended the run for good since `job` was submitted, which must not start it again
/// then.
bool chain_has_ended(const std::vector<records::Row>& journal, const std::string& chain, const std::string& job);

/// Ids of the jobs of the chain that were submitted after `job` and have not started.
std::vector<std::string> links_after(const std::vector<records::Row>& journal, const std::string& chain,
                                     const std::string& job);

/// How the job before in the same chain has ended; null if there is none, or it could not tell.
const records::JobEnded* last_end_of_chain(const std::vector<records::Row>& journal, const std::string& chain);

}  // namespace distdl::observe
