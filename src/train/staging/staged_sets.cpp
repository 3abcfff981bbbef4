// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include <sys/stat.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/train/ranks/agreement.hpp>
#include <distdl/train/staging/staged_sets.hpp>

namespace distdl::train {
namespace {
constexpr std::size_t kPiece = std::size_t{4} << 20;  // bytes, of which each reader has two in memory for each reader
constexpr std::size_t kMostReaders = 8;

/// The part of a node in the copying of a set, which its first rank plays.
enum class Part : char { none = '-', has = 'h', lacks = 'l', cannot = 'c' };

/// Ranks by what they do.
struct Parts {
  std::vector<int> readers, writers;  ///< a rank that lacks a copy may be both
  std::size_t nodes = 0, had = 0, without = 0;
};

Parts parts_of(const std::vector<std::string>& told) {
  Parts parts;
  std::vector<int> holders;
  for (int rank = 0; rank < static_cast<int>(told.size()); ++rank) {
    const auto part = static_cast<Part>(told[static_cast<std::size_t>(rank)].at(0));
    parts.nodes += part != Part::none, parts.had += part == Part::has, parts.without += part == Part::cannot;
    if (part == Part::has) holders.push_back(rank);
    if (part == Part::lacks) parts.writers.push_back(rank);
  }
  parts.readers = holders.empty() ? parts.writers : holders;
  parts.readers.resize(std::min(parts.readers.size(), kMostReaders));
  return parts;
}

/// The pieces of a file on their way from the readers to the writers, in rounds of a piece of each reader. While those
/// of a round are broadcast, the round before is written, and the next one read.
class Transfer {
 public:
  /// `from`: what this rank reads; nothing: it reads nothing. `to`: where it writes; nullptr: it writes nothing.
  Transfer(comm::Communicator& communicator, std::vector<Rank> readers, std::uint64_t bytes,
           const std::optional<Path>& from, WholeFile* to)
      : communicator_(communicator), readers_(std::move(readers)), bytes_(bytes), to_(to) {
    for (auto& buffer : buffers_) buffer.resize(readers_.size() * kPiece);
    if (from) attempt([&] { from_.emplace(real_file_system(), *from, OpenFile::Mode::read); });
  }

  /// Why this rank could not read or write; empty: it could. The others have gone on all the same.
  std::string run() {
    const std::uint64_t round = readers_.size() * kPiece;
    const std::uint64_t rounds = (bytes_ + round - 1) / round;
    read(0);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      auto disk = std::async(std::launch::async, [&, i] {
        if (i > 0) write(i - 1);
        if (i + 1 < rounds) read(i + 1);
      });
      broadcast(i);
      disk.get();
    }
    if (rounds > 0) write(rounds - 1);
    return failure_;
  }

 private:
  /// A piece of a round, in the file and in memory.
  struct Place {
    std::uint64_t offset = 0;
    std::span<std::byte> bytes;
  };
  Place place_of(std::uint64_t round, std::size_t reader) {
    const std::uint64_t offset = (round * readers_.size() + reader) * kPiece;
    const std::uint64_t count = offset < bytes_ ? std::min<std::uint64_t>(kPiece, bytes_ - offset) : 0;
    return {offset, std::span(buffers_[round % 2]).subspan(reader * kPiece, count)};
  }
  template <class Work>
  void attempt(Work&& work) try {
    if (failure_.empty()) work();
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  void read(std::uint64_t round) {
    if (!from_) return;
    const auto own = std::ranges::find(readers_, communicator_.rank());
    const Place place = place_of(round, static_cast<std::size_t>(own - readers_.begin()));
    if (!place.bytes.empty()) attempt([&] { from_->read_at(place.bytes, place.offset); });
  }
  void write(std::uint64_t round) {
    for (std::size_t reader = 0; to_ != nullptr && reader < readers_.size(); ++reader)
      attempt([&] { to_->append(place_of(round, reader).bytes); });
  }
  void broadcast(std::uint64_t round) {
    std::vector<comm::Request> requests;
    for (std::size_t reader = 0; reader < readers_.size(); ++reader) {
      const auto bytes = place_of(round, reader).bytes;
      if (!bytes.empty())
        requests.push_back(
            communicator_.broadcast({bytes.data(), bytes.size(), comm::DataType::byte}, readers_[reader]));
    }
    for (auto& request : requests) request.wait();
  }

  comm::Communicator& communicator_;
  std::vector<Rank> readers_;
  std::uint64_t bytes_;
  WholeFile* to_;
  std::optional<OpenFile> from_;
  std::vector<std::byte> buffers_[2];
  std::string failure_;
};

/// The copies of one set.
class SetStaging {
 public:
  SetStaging(StagedSet set, comm::Communicator& communicator, const NodeCopies* copies)
      : set_(std::move(set)), communicator_(communicator), copies_(copies) {}

  /// Collective. The copy on the node of which this is the first rank; nothing: there is none, or it is another rank.
  std::optional<Path> operator()(bool is_first_of_node) {
    const Stopwatch watch;
    const Part mine = is_first_of_node ? look() : Part::none;
    const Parts parts = parts_of(communicator_.all_gather_strings(std::string(1, static_cast<char>(mine))));
    bool has = mine == Part::has;
    if (!parts.writers.empty()) has |= copy(parts);
    if (communicator_.rank() == Rank(0)) tell(parts, watch.seconds());
    return has ? std::optional(copies_->place_of(set_)) : std::nullopt;
  }

 private:
  Part look() const try {
    if (copies_ == nullptr) return Part::cannot;
    if (copies_->has(set_)) return Part::has;
    copies_->make_room_for(set_);
    return Part::lacks;
  } catch (const StorageError& error) {
    warn(error.what());
    return Part::cannot;
  }
  void warn(const std::string& why) const {
    log(Severity::warning, "data.stage: this node keeps no copy of \"{}\" and reads the shared file: {}",
        printable(set_.file.string()), why);
  }

  /// True if this rank has written a copy.
  bool copy(const Parts& parts) {
    const int me = communicator_.rank().value;
    const auto is_in = [&](const std::vector<int>& ranks) { return std::ranges::find(ranks, me) != ranks.end(); };
    const bool reads = is_in(parts.readers), writes = is_in(parts.writers);
    const auto group = communicator_.split(reads || writes ? 0 : -1);
    if (!group) return false;
    std::vector<int> members;
    std::ranges::set_union(parts.readers, parts.writers, std::back_inserter(members));
    std::vector<Rank> readers;
    for (const int reader : parts.readers)
      readers.emplace_back(static_cast<int>(std::ranges::find(members, reader) - members.begin()));
    std::unique_ptr<WholeFile> file;
    std::string failure;
    if (writes) failure = failure_of([&] { file = copies_->begin(set_); });
    const auto from = reads ? std::optional(writes ? set_.file : copies_->place_of(set_)) : std::nullopt;
    const std::string moved = Transfer(*group, readers, set_.bytes, from, file.get()).run();
    if (failure.empty()) failure = moved;
    // Whoever could not read has sent others nothing of use.
    const auto failures = group->all_gather_strings(reads ? moved : "");
    for (const Rank reader : readers)
      if (failure.empty()) failure = failures[static_cast<std::size_t>(reader.value)];
    if (failure.empty() && writes)
      failure = failure_of([&] {
        require<StorageError>(data::digest_of_file(file->unfinished()) == set_.digest, "\"{}\" was changed meanwhile",
                              set_.file.string());
        file->publish();
      });
    if (writes && !failure.empty()) warn(failure);
    return writes && failure.empty();
  }

  template <class Work>
  static std::string failure_of(Work&& work) try {
    work();
    return {};
  } catch (const StorageError& error) {
    return error.what();
  }

  void tell(const Parts& parts, double seconds) const {
    log(Severity::info, "data.stage: \"{}\", {:.1f} MiB: {} of {} nodes had a copy, {} made one in {:.1f} s from {}",
        printable(set_.file.string()), static_cast<double>(set_.bytes) / (1 << 20), parts.had, parts.nodes,
        parts.writers.size(), seconds, parts.had > 0 ? "the copies" : "the shared file, which was read once");
  }

  StagedSet set_;
  comm::Communicator& communicator_;
  const NodeCopies* copies_;
};

/// Digest and size of a set, as rank 0 finds them.
StagedSet describe(const std::string& file, comm::Communicator& communicator, Clock::duration timeout) {
  StagedSet set{file, {}, 0};
  agree(communicator, timeout, [&] {
    if (communicator.rank() != Rank(0)) return;
    set.digest = data::digest_of_file(file);
    set.bytes = data::describe_file(file).stored_bytes;
  });
  const auto told = communicator.all_gather_strings(fmt::format("{} {}", set.bytes, set.digest)).front();
  set.bytes = std::stoull(told);
  set.digest = told.substr(told.find(' ') + 1);
  return set;
}
}  // namespace

StagedSets::StagedSets(const data::Options& options, comm::Communicator& communicator, Clock::duration timeout,
                       const std::string& node)
    : options_(options) {
  if (options.stage.empty() || !options.source.empty()) return;  // a source of the user's has no known files
  const std::string host = node.empty() ? communicator.host(communicator.rank()) : node;
  const auto nodes = communicator.all_gather_strings(host);
  const auto first = std::ranges::find(nodes, host) - nodes.begin();
  const bool is_first = first == communicator.rank().value;
  std::optional<NodeCopies> copies;
  if (is_first) {
    try {
      copies.emplace(options.stage, host);
    } catch (const StorageError& error) {
      log(Severity::warning, "data.stage: node {} keeps no copies: {}", printable(host), error.what());
    }
  }
  std::vector<std::string*> files{&options_.train, &options_.validation};
  for (std::string& set : options_.sets) files.push_back(&set);
  for (std::string* const file : files) {
    if (file->empty()) continue;
    SetStaging staging(describe(*file, communicator, timeout), communicator, copies ? &*copies : nullptr);
    const auto own = staging(is_first);
    const auto places = communicator.all_gather_strings(own ? own->string() : "");
    const std::string& place = places[static_cast<std::size_t>(first)];
    if (place.empty()) continue;
    *file = place;
    copies_.emplace_back(place);
  }
}

std::vector<std::string> StagedSets::remove_damaged() const {
  std::vector<std::string> removed;
  for (const Path& copy : copies_) {
    if (!is_there(copy) || data::verify_file(copy).damage.empty()) continue;
    remove_file(copy);
    removed.push_back(copy.string());
  }
  return removed;
}

}  // namespace distdl::train
