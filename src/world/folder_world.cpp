// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <set>
#include <thread>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/world/folder_world.hpp>
#include <distdl/world/rank_names.hpp>

namespace distdl::world {
namespace {
namespace fs = std::filesystem;

constexpr Milliseconds kLongestPause{50};
constexpr std::size_t kLargest = 1 << 20;  ///< bytes of a file; a peer address has some hundreds

/// First line of each file; the blob follows.
std::string header(int size) {
  return fmt::format("distdl-rendezvous 1 {}\n", size);
}

/// Writes a file so that its name exists only when it is complete.
void write_whole(const fs::path& file, const std::string& text) {
  const fs::path temporary = file.string() + fmt::format(".tmp{}", ::getpid());
  errno = 0;
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw StorageError(fmt::format("cannot write \"{}\": {}", temporary.string(), errno_text(errno)));
  std::error_code error;
  fs::rename(temporary, file, error);
  if (error) throw StorageError(fmt::format("cannot rename \"{}\": {}", temporary.string(), error.message()));
}

class FolderWorld : public World {
 public:
  explicit FolderWorld(const FolderMeeting& meeting)
      : folder_(meeting.folder / meeting.launch_id), rank_(meeting.rank), size_(meeting.size) {}
  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return fmt::format("folder {}", folder_.string()); }

  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    lay_down(rendezvous_text(size_, mine));
    wait_for("rank", "arrive", deadline, timeout);
    std::vector<std::string> all;
    all.reserve(static_cast<std::size_t>(size_));
    for (int r = 0; r < size_; ++r)
      all.push_back(blob_from(read_regular(file("rank", Rank(r)), kLargest), Rank(r), size_));
    if (rank_ != Rank(0)) {
      write_whole(file("read", rank_), "");
    } else {
      wait_for("read", "read it", deadline, timeout);
      std::error_code error;
      fs::remove_all(folder_, error);
      if (error) log(Severity::warning, "cannot remove \"{}\": {}", folder_.string(), error.message());
    }
    return all;
  }

 private:
  fs::path file(std::string_view kind, Rank rank) const { return folder_ / fmt::format("{}-{}", kind, rank); }

  void lay_down(const std::string& text) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw StorageError(fmt::format("cannot make folder \"{}\": {}", folder_.string(), error.message()));
    const fs::path own = file("rank", rank_);
    require<SchedulerError>(!fs::exists(own),
                            "\"{}\" already exists: the launch id \"{}\" was used before; give each launch a new one",
                            own.string(), folder_.filename().string());
    write_whole(own, text);
  }

  /// Listing the folder, rather than asking for each name, also renews what a network file system remembers of it.
  std::vector<Rank> missing(std::string_view kind) const {
    std::set<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error))
      names.insert(entry->path().filename().string());
    if (error) throw StorageError(fmt::format("cannot list \"{}\": {}", folder_.string(), error.message()));
    std::vector<Rank> ranks;
    for (int r = kind == "read" ? 1 : 0; r < size_; ++r)
      if (!names.contains(fmt::format("{}-{}", kind, r))) ranks.emplace_back(r);
    return ranks;
  }

  void wait_for(std::string_view kind, std::string_view verb, const Deadline& deadline, Milliseconds timeout) const {
    for (Milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
      const std::vector<Rank> absent = missing(kind);
      if (absent.empty()) return;
      if (deadline.expired())
        throw RanksMissing(
            absent,
            fmt::format("{} did not {} within {:.1f} s at the rendezvous in \"{}\": the ranks were not "
                        "started or ended early, or the folder is not "
                        "shared between all hosts",
                        name_ranks(absent), verb, std::chrono::duration<double>(timeout).count(), folder_.string()));
      std::this_thread::sleep_for(pause);
    }
  }

  fs::path folder_;
  Rank rank_;
  int size_;
};

}  // namespace

std::string rendezvous_text(int size, const std::string& blob) {
  return header(size) + blob;
}

std::string blob_from(const std::string& text, Rank rank, int size) {
  const std::string expected = header(size);
  constexpr std::size_t kShown = 100;
  require<SchedulerError>(
      text.starts_with(expected),
      "rank {} wrote \"{}\" to the rendezvous, but \"{}\" was expected: it was started with another world "
      "size or by another version of distdl",
      rank, text.substr(0, std::min(text.find('\n'), kShown)), expected.substr(0, expected.size() - 1));
  return text.substr(expected.size());
}

std::unique_ptr<World> make_folder_world(const FolderMeeting& meeting) {
  require(meeting.size > 0 && meeting.rank.value >= 0 && meeting.rank.value < meeting.size,
          "rank {} is not in a world of {} ranks", meeting.rank, meeting.size);
  const bool plain = std::all_of(meeting.launch_id.begin(), meeting.launch_id.end(),
                                 [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; });
  require(plain && !meeting.launch_id.empty() && meeting.launch_id[0] != '.',
          "launch id \"{}\": expected letters, digits, '.', '_' and '-'", meeting.launch_id);
  return std::make_unique<FolderWorld>(meeting);
}

}  // namespace distdl::world
