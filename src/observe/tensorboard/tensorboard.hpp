// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/observe/options.hpp>
#include <distdl/records/record.hpp>

namespace distdl::observe {
class LiveHistograms;

/// The rows of a run as event files of TensorBoard, one file for each start, in a folder of the run. The names of the
/// files have the order of the starts, because readers read them in the order of their names. A file begins with
/// SessionLog START: readers then forget the steps that earlier starts had done beyond the checkpoint that this one
/// resumes from. Lines that cannot be written are lost with one warning, and end no run.
class TensorBoard {
 public:
  /// Description of a start, for the records with which its file begins.
  struct Start {
    std::int64_t number;   ///< number of the start, from 1
    Step first;            ///< the first step that this start will do
    bool was_evaluated;    ///< an earlier start has shown the evaluation before this step
    std::string job = {};  ///< as TOML; empty: not known
  };
  /// Writes into the folder tensorboard of a run folder.
  TensorBoard(const std::filesystem::path& run_folder, const Options& options);
  ~TensorBoard();
  TensorBoard(const TensorBoard&) = delete;
  TensorBoard& operator=(const TensorBoard&) = delete;

  void begin(const Start& start);
  /// Writes the scalars of a row with a step: all evaluations, the first 10,000 steps, every tenth one up to 100,000,
  /// and so on. So the files of a run of a million steps have less than 10 MB.
  void take(const records::Row& row);
  /// All steps are done. Waits up to a minute for histograms.
  void finish(Step step);

 private:
  void append_samples(const std::string& job);
  void append(const std::string& records);

  std::filesystem::path folder_, file_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
  std::int64_t samples_;
  std::unique_ptr<LiveHistograms> histograms_;
  std::int64_t evaluated_ = -1;  ///< the step whose evaluation readers have already; -1: none
};

/// True if a step of this number is shown, see TensorBoard::take().
bool is_shown(std::int64_t step);

}  // namespace distdl::observe
