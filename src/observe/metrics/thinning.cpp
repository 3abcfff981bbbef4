// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/metrics/thinning.hpp>
#include <distdl/observe/record_lines.hpp>

namespace distdl::observe {
namespace {
bool is_first_of_start(std::string_view row) {
  return row.find("\"version\":") != std::string_view::npos;
}

bool is_evaluation(std::string_view row) {
  return row.find("\"validation_loss\":") != std::string_view::npos;
}

bool is_whole(std::string_view row) {
  return row.starts_with('{') && row.ends_with('}');
}

/// Decides row by row, the oldest first.
class Choice {
 public:
  Choice(std::uint64_t old_bytes, bool keeps_rare) : old_bytes_(old_bytes), keeps_rare_(keeps_rare) {}
  bool keeps(std::string_view row) {
    seen_ += row.size() + 1;
    if (!is_whole(row)) return false;
    if (seen_ > old_bytes_) return true;
    if (keeps_rare_ && is_evaluation(row)) return rare(row);
    if (keeps_rare_ && is_first_of_start(row)) return kept_last_ = rare(row);
    return kept_last_ = !kept_last_;
  }
  std::uint64_t rare_bytes() const { return rare_bytes_; }

 private:
  bool rare(std::string_view row) {
    rare_bytes_ += row.size() + 1;
    return true;
  }

  std::uint64_t old_bytes_, seen_ = 0, rare_bytes_ = 0;
  bool keeps_rare_, kept_last_ = false;
};

/// A new file, in the order of its rows. At its end it has the name of another one, or it is gone.
class NewRows {
 public:
  explicit NewRows(const std::filesystem::path& file)
      : file_(file),
        out_(real_file_system(), file.parent_path() / fmt::format(".{}.{}", file.filename().string(), random_hex(8)),
             OpenFile::Mode::create) {}
  ~NewRows() { remove_file(out_.path()); }
  NewRows(const NewRows&) = delete;
  NewRows& operator=(const NewRows&) = delete;
  void add(std::string_view row) {
    constexpr std::size_t kMostRows = 1 << 20;
    rows_.append(row).push_back('\n');
    if (rows_.size() >= kMostRows) write();
  }
  void replace() {
    write();
    out_.sync();
    if (real_file_system().rename(out_.path().c_str(), file_.c_str(), 0) != 0) throw FileError("replace", file_, errno);
  }

 private:
  void write() {
    out_.write_at(std::as_bytes(std::span(rows_)), bytes_);
    bytes_ += rows_.size();
    rows_.clear();
  }

  std::filesystem::path file_;
  OpenFile out_;
  std::string rows_;
  std::uint64_t bytes_ = 0;
};

/// Returns the bytes of rows that were kept because they are rare.
std::uint64_t thin_once(const std::filesystem::path& file, std::uint64_t size, std::uint64_t most, bool keeps_rare) {
  static_cast<void>(open_regular(file));  // refuses what is no regular file
  NewRows made(file);
  std::ifstream in(file, std::ios::binary);
  const std::uint64_t read = std::min(size, std::max<std::uint64_t>(most, kMostRead));  // nobody reads what is before
  in.seekg(static_cast<std::streamoff>(size - read));
  constexpr std::uint64_t kNewestShare = 4;
  Choice choice(read - read / kNewestShare, keeps_rare);
  for (std::string row; std::getline(in, row);)
    if (choice.keeps(row)) made.add(row);
  require<StorageError>(in.eof(), "cannot read \"{}\"", file.string());
  made.replace();
  return choice.rare_bytes();
}
}  // namespace

void thin_out(const std::filesystem::path& file, std::uint64_t most) {
  constexpr int kMostPasses = 64;
  bool keeps_rare = true;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    require<StorageError>(!error, "cannot look at \"{}\": {}", file.string(), error.message());
    if (size <= most - most / 4) return;
    keeps_rare = thin_once(file, size, most, keeps_rare) < most / 4 && keeps_rare;
  }
}

ThinnedWriter::ThinnedWriter(std::filesystem::path file, std::uint64_t most, TornLine torn)
    : file_(std::move(file)), most_(most), thin_at_(most), writer_(file_, torn) {}

/// A file that cannot be made smaller is tried again when it has grown by an eighth of the limit.
void ThinnedWriter::append(const std::string& rows) {
  writer_.append(rows);
  if (most_ == 0 || writer_.bytes() < thin_at_) return;
  bool is_short = false;
  try {
    thin_out(file_, most_);
    is_short = true;
  } catch (const StorageError& error) {
    log(Severity::warning, "{}; \"{}\" grows beyond log.records_mib", error.what(), file_.string());
  }
  writer_ = RecordWriter(file_);  // after an error too: it may have replaced the file before
  thin_at_ = is_short ? most_ : writer_.bytes() + most_ / 8;
}

}  // namespace distdl::observe
