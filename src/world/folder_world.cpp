// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <set>
#include <thread>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/private_folder.hpp>
#include <distdl/world/folder_world.hpp>
#include <distdl/world/rank_names.hpp>

namespace distdl::world {
namespace {
constexpr Milliseconds kLongestPause{50};
constexpr std::size_t kLargest = 1 << 20;  ///< bytes of a file; a peer address has some hundreds

/// First line of each file; the blob follows.
std::string header(int size) {
  return fmt::format("distdl-rendezvous 1 {}\n", size);
}

std::string file_of(std::string_view kind, Rank rank) {
  return fmt::format("{}-{}", kind, rank);
}

class FolderWorld : public World {
 public:
  explicit FolderWorld(const FolderMeeting& meeting)
      : path_(meeting.folder / meeting.launch_id), rank_(meeting.rank), size_(meeting.size) {}
  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return fmt::format("folder {}", path_.string()); }

  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    const auto folder = PrivateFolder::make(path_);
    lay_down(folder, rendezvous_text(size_, mine));
    wait_for(folder, "rank", "arrive", deadline, timeout);
    std::vector<std::string> all;
    all.reserve(static_cast<std::size_t>(size_));
    for (int r = 0; r < size_; ++r)
      all.push_back(blob_from(folder.read(file_of("rank", Rank(r)), kLargest), Rank(r), size_));
    if (rank_ != Rank(0)) {
      folder.put(file_of("read", rank_), "");
    } else {
      wait_for(folder, "read", "read it", deadline, timeout);
      remove(folder);
    }
    return all;
  }

 private:
  void lay_down(const PrivateFolder& folder, const std::string& text) const {
    const auto names = folder.names();
    const std::string own = file_of("rank", rank_);
    require<SchedulerError>(std::ranges::count(names, own) == 0,
                            "\"{}\" already exists: the launch id \"{}\" was used before; give each launch a new one",
                            (path_ / own).string(), path_.filename().string());
    folder.put(own, text);
  }

  static void remove(const PrivateFolder& folder) try { folder.remove(); } catch (const StorageError& error) {
    log(Severity::warning, "{}", error.what());
  }

  std::vector<Rank> missing(const PrivateFolder& folder, std::string_view kind) const {
    const auto found = folder.names();
    const std::set<std::string> names(found.begin(), found.end());
    std::vector<Rank> ranks;
    for (int r = kind == "read" ? 1 : 0; r < size_; ++r)
      if (!names.contains(file_of(kind, Rank(r)))) ranks.emplace_back(r);
    return ranks;
  }

  void wait_for(const PrivateFolder& folder, std::string_view kind, std::string_view verb, const Deadline& deadline,
                Milliseconds timeout) const {
    for (Milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
      const std::vector<Rank> absent = missing(folder, kind);
      if (absent.empty()) return;
      if (deadline.expired())
        throw RanksMissing(
            absent,
            fmt::format("{} did not {} within {:.1f} s at the rendezvous in \"{}\": the ranks were not "
                        "started or ended early, or the folder is not "
                        "shared between all hosts",
                        name_ranks(absent), verb, std::chrono::duration<double>(timeout).count(), path_.string()));
      std::this_thread::sleep_for(pause);
    }
  }

  std::filesystem::path path_;
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
