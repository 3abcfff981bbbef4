// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/observe/event_follower.hpp>

namespace distdl::observe {
namespace {
constexpr std::size_t kFollowPiece = 1 << 20;   ///< bytes that are read at a time
constexpr std::size_t kSamples = 1024;          ///< rows of the part of a long file that is not read as a whole
constexpr std::size_t kSampleBytes = 4 << 10;   ///< bytes of a sample; usually a row begins and ends in them
constexpr std::size_t kSearchBytes = 32 << 20;  ///< bytes that one call searches for evaluations
constexpr std::string_view kEvaluation = "\"validation_";

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

bool is_of_metrics(const records::Row& row) {
  return row.is<records::StepDone, records::Evaluated>();
}

/// The evaluations in whole lines.
void find_evaluations(std::string_view text, std::vector<records::Row>& rows) {
  for (auto at = text.find(kEvaluation); at != std::string_view::npos; at = text.find(kEvaluation, at)) {
    const auto before = text.rfind('\n', at);
    const auto begin = before == std::string_view::npos ? 0 : before + 1;
    const auto end = std::min(text.find('\n', at), text.size());
    if (auto row = records::parse_row(text.substr(begin, end - begin)); row && row->is<records::Evaluated>())
      rows.push_back(std::move(*row));
    at = end;
  }
}
}  // namespace

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
  if (rest_.size() <= records::kLongestLine) return;
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
    auto row = records::parse_row(line);
    if (row && !is_of_metrics(*row) && !name_of(row->record).empty()) news.journal.push_back(std::move(*row));
  };
  const auto take_metrics = [&](std::string_view line) {
    if (auto row = records::parse_row(line); row && is_of_metrics(*row)) news.metrics.push_back(std::move(*row));
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
    auto row = records::parse_row(whole_line_in(bytes));
    if (!row || !row->is<records::StepDone>()) continue;
    const bool is_known = !news.metrics.empty() && step_of(news.metrics.back().record) == step_of(row->record);
    if (!is_known) news.metrics.push_back(std::move(*row));
  }
}

void EventFollower::read_evaluations(News& news) try {
  if (evaluations_from_ >= evaluations_to_) return;
  const FileDescriptor descriptor = open_regular(metrics_file_);
  const auto size = std::min<std::uint64_t>(kSearchBytes, evaluations_to_ - evaluations_from_ + records::kLongestLine);
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
