// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <chrono>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/tensorboard/event_records.hpp>
#include <distdl/observe/tensorboard/job_values.hpp>
#include <distdl/observe/tensorboard/live_histograms.hpp>
#include <distdl/observe/tensorboard/sample_records.hpp>
#include <distdl/observe/tensorboard/scalars.hpp>
#include <distdl/observe/tensorboard/tensorboard.hpp>

namespace distdl::observe {

bool is_shown(std::int64_t step) {
  constexpr std::int64_t kDense = 10'000;
  std::int64_t every = 1;
  while (step / every > kDense) every *= 10;
  return step % every == 0;
}

TensorBoard::TensorBoard(const std::filesystem::path& run_folder, const Options& options)
    : folder_(resolved(run_folder) / "tensorboard"),
      samples_(options.tensorboard_samples),
      histograms_(std::make_unique<LiveHistograms>(run_folder / "checkpoints", options.tensorboard_histograms)) {}

TensorBoard::~TensorBoard() = default;

void TensorBoard::begin(const Start& start) try {
  make_folders(real_file_system(), folder_);
  file_ = folder_ / event_file_name(start.number);
  descriptor_ = create_file(file_);
  if (start.was_evaluated) evaluated_ = start.first.value - 1;
  const EventPlace place{seconds_since_1970(), start.first.value};
  append(version_record(place.time) + start_record(place) + job_records(place, start.job));
  if (start.number == 1 && samples_ > 0) append_samples(start.job);
} catch (const StorageError& error) {
  log(Severity::warning, "{}; log.tensorboard is not written", error.what());
}

void TensorBoard::append_samples(const std::string& job) try {
  append(sample_records({seconds_since_1970(), 0}, job, samples_));
} catch (const Error& error) {
  log(Severity::warning, "{}; TensorBoard gets no samples", error.what());
}

void TensorBoard::take(const records::Row& row) {
  if (!descriptor_) return;
  append(histograms_->take());
  if (row.is<records::CheckpointSaved>()) histograms_->saved();
  const auto step = step_of(row.record);
  if (!step) return;
  if (row.is<records::StepDone>() && !is_shown(step->value)) return;
  if (row.is<records::Evaluated>() && step->value == evaluated_) return;
  if (const auto scalars = scalars_of(row.record); !scalars.empty())
    append(scalars_record({row.time, step->value}, scalars));
}

void TensorBoard::finish(Step step) {
  constexpr std::chrono::minutes kMost{1};
  if (descriptor_) append(histograms_->take(kMost) + end_record({seconds_since_1970(), step.value}));
}

/// A record that is not whole would hide all that follow: it is cut off, and the file is given up.
void TensorBoard::append(const std::string& records) {
  if (!descriptor_) return;
  for (std::string_view rest = records; !rest.empty();) {
    const ssize_t n = ::write(descriptor_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const auto why = errno_text(errno);
      const bool is_cut = ::ftruncate(descriptor_.get(), static_cast<off_t>(size_)) == 0;
      log(Severity::warning, "cannot write \"{}\": {}; log.tensorboard shows no more of this start{}", file_.string(),
          why, is_cut ? "" : ", and its last values are damaged");
      descriptor_ = FileDescriptor();
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  size_ += records.size();
}

}  // namespace distdl::observe
