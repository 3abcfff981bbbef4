// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/observe/event_follower.hpp>

namespace distdl::observe {
namespace {
using MetricsJson = nlohmann::json;

constexpr std::size_t kFollowPiece = 1 << 20;   ///< bytes that are read at a time
constexpr std::size_t kSamples = 1024;          ///< rows of the part of a long file that is not read as a whole
constexpr std::size_t kSampleBytes = 4 << 10;   ///< in which a row begins and ends, usually
constexpr std::size_t kSearchBytes = 32 << 20;  ///< that one call searches for evaluations
constexpr std::string_view kEvaluation = "\"validation_";

/// Nothing where it is missing, no number, or not finite.
std::optional<double> number_of(const MetricsJson& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  const bool is_finite = std::abs(value) <= std::numeric_limits<double>::max();
  return is_finite ? std::optional(value) : std::nullopt;
}

double seconds_of(const MetricsJson& row, const char* key) {
  constexpr double kMost = 1e11;  // the year 5138
  return std::clamp(number_of(row, key).value_or(0), 0.0, kMost);
}

/// Up to `size` bytes; fewer at the end of the file, or where it cannot be read.
std::string read_at(int descriptor, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t n = ::pread(descriptor, bytes.data() + have, size - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

/// The first whole line behind the first newline.
std::string_view whole_line_in(std::string_view bytes) {
  const auto begin = bytes.find('\n');
  if (begin == std::string_view::npos) return {};
  const auto end = bytes.find('\n', begin + 1);
  return end == std::string_view::npos ? std::string_view() : bytes.substr(begin + 1, end - begin - 1);
}

/// The evaluations in whole lines.
void find_evaluations(std::string_view text, std::vector<MetricsRow>& rows) {
  for (auto at = text.find(kEvaluation); at != std::string_view::npos; at = text.find(kEvaluation, at)) {
    const auto before = text.rfind('\n', at);
    const auto begin = before == std::string_view::npos ? 0 : before + 1;
    const auto end = std::min(text.find('\n', at), text.size());
    if (const auto row = parse_metrics_row(text.substr(begin, end - begin)); row && row->is_evaluation())
      rows.push_back(*row);
    at = end;
  }
}
}  // namespace

std::optional<MetricsRow> parse_metrics_row(std::string_view line) {
  constexpr double kMostSteps = 1e15;  // a double has each of them
  if (line.empty() || line.size() > kLongestLine) return std::nullopt;
  const auto row = MetricsJson::parse(line, nullptr, false);
  if (!row.is_object()) return std::nullopt;
  const auto step = number_of(row, "step");
  if (!step || *step < 0 || *step > kMostSteps) return std::nullopt;
  return MetricsRow{
      .time = seconds_of(row, "time"),
      .step = static_cast<std::int64_t>(*step),
      .start = static_cast<std::int64_t>(std::clamp(number_of(row, "start").value_or(0), 0.0, kMostSteps)),
      .loss = number_of(row, "loss"),
      .accuracy = number_of(row, "accuracy"),
      .validation_loss = number_of(row, "validation_loss"),
      .validation_accuracy = number_of(row, "validation_accuracy"),
      .samples_per_s = number_of(row, "samples_per_s"),
      .mfu = number_of(row, "mfu"),
      .hfu = number_of(row, "hfu"),
      .learning_rate = number_of(row, "learning_rate"),
      .gradient_norm = number_of(row, "gradient_norm"),
      .waited_seconds = seconds_of(row, "waited_seconds"),
      .sum_waited_seconds = seconds_of(row, "sum_waited_seconds"),
      .pipeline_waited_seconds = seconds_of(row, "pipeline_waited_seconds")};
}

void LineFollower::begin_at(std::uint64_t offset) {
  offset_ = offset;
  skips_line_ = offset > 0;
}

bool LineFollower::poll(const std::function<void(std::string_view line)>& visit) try {
  const FileDescriptor descriptor = open_regular(file_);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) return true;
  const bool is_new = inode_ == 0, is_same = is_new || (inode_ == info.st_ino && device_ == info.st_dev);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (!is_same || size < offset_) return false;
  inode_ = info.st_ino;
  device_ = info.st_dev;
  if (is_new && size - offset_ > kMostRead) begin_at(size - kMostRead);
  while (offset_ < size) {
    const auto piece = read_at(descriptor.get(), offset_, kFollowPiece);
    if (piece.empty()) break;
    offset_ += piece.size();
    take(piece, visit);
  }
  return true;
} catch (const StorageError&) {  // it is not there (yet), or cannot be read
  return true;
}

void LineFollower::take(std::string_view piece, const std::function<void(std::string_view line)>& visit) {
  for (auto end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
    if (!skips_line_) {
      rest_.append(piece.substr(0, end));
      visit(rest_);
    }
    rest_.clear();
    skips_line_ = false;
    piece.remove_prefix(end + 1);
  }
  if (!skips_line_) rest_.append(piece);
  if (rest_.size() <= kLongestLine) return;
  rest_.clear();
  skips_line_ = true;
}

EventFollower::EventFollower(const std::filesystem::path& run_folder, std::size_t whole)
    : metrics_file_(run_folder / "metrics.jsonl"),
      whole_(whole),
      journal_(run_folder / "journal.jsonl"),
      metrics_(metrics_file_) {}

EventFollower::News EventFollower::poll() {
  News news;
  const auto take_event = [&](std::string_view line) {
    if (auto row = parse_record(line); row && !row->event.empty()) news.journal.push_back(std::move(*row));
  };
  const auto take_metrics = [&](std::string_view line) {
    if (const auto row = parse_metrics_row(line)) news.metrics.push_back(*row);
  };
  if (!has_begun_) begin_metrics(news);
  if (journal_.poll(take_event) && metrics_.poll(take_metrics)) {
    read_evaluations(news);
    return news;
  }
  journal_.restart();
  metrics_.restart();
  has_begun_ = false;
  news = {.begins_again = true};
  begin_metrics(news);
  journal_.poll(take_event);
  metrics_.poll(take_metrics);
  return news;
}

void EventFollower::begin_metrics(News& news) try {
  evaluations_from_ = evaluations_to_ = 0;
  const FileDescriptor descriptor = open_regular(metrics_file_);
  has_begun_ = true;
  const off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  if (size <= static_cast<off_t>(whole_)) return;
  const auto end = static_cast<std::uint64_t>(size) - whole_;
  read_samples(descriptor.get(), end, news);
  metrics_.begin_at(end);
  evaluations_to_ = end;
} catch (const StorageError&) {  // there is none yet
}

void EventFollower::read_samples(int descriptor, std::uint64_t end, News& news) {
  for (std::size_t i = 0; i < kSamples; ++i) {
    const auto bytes = read_at(descriptor, end / kSamples * i, kSampleBytes);
    const auto row = parse_metrics_row(whole_line_in(bytes));
    if (!row || row->is_evaluation()) continue;
    const bool is_known = !news.metrics.empty() && news.metrics.back().step == row->step;
    if (!is_known) news.metrics.push_back(*row);
  }
}

void EventFollower::read_evaluations(News& news) try {
  if (evaluations_from_ >= evaluations_to_) return;
  const FileDescriptor descriptor = open_regular(metrics_file_);
  const auto size = std::min<std::uint64_t>(kSearchBytes, evaluations_to_ - evaluations_from_ + kLongestLine);
  const auto bytes = read_at(descriptor.get(), evaluations_from_, size);
  const auto last = bytes.rfind('\n');
  if (last == std::string::npos) {  // no line of a run is so long
    evaluations_from_ = evaluations_to_;
    return;
  }
  // The line in which the last part of the file begins is searched too: the part is read from the next one on.
  auto text = std::string_view(bytes).substr(0, last);
  const auto left = evaluations_to_ - evaluations_from_;
  if (left < text.size()) text = text.substr(0, std::min(text.find('\n', left), text.size()));
  find_evaluations(text, news.evaluations);
  evaluations_from_ += last + 1;
} catch (const StorageError&) {
  evaluations_from_ = evaluations_to_;
}

}  // namespace distdl::observe
