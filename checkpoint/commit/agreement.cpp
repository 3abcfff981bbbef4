// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>

namespace distdl::checkpoint {
namespace {
// A vote is "y<result>" or "n<exit code> <message>".
std::string vote(const std::function<std::string()>& work) {
  auto no = [](ExitCode code, const char* message) { return fmt::format("n{} {}", static_cast<int>(code), message); };
  try {
    return "y" + work();
  } catch (const Error& error) {
    return no(error.exit_code(), error.what());
  } catch (const std::exception& error) {
    return no(ExitCode::storage, error.what());
  }
}

[[noreturn]] void refuse(const std::string& what, const std::vector<std::string>& votes, std::size_t rank) {
  const std::string& no = votes[rank];
  int code = static_cast<int>(ExitCode::storage);
  const char* end = std::from_chars(no.data() + 1, no.data() + no.size(), code).ptr;
  std::string message(end, no.data() + no.size());
  std::size_t others = 0;
  for (std::size_t i = rank + 1; i < votes.size(); ++i) others += votes[i].starts_with('n');
  throw StorageError(fmt::format("cannot {}: rank {} of {}:{}{}", what, rank, votes.size(), message,
                                 others ? fmt::format(" (and {} more ranks failed)", others) : ""),
                     static_cast<ExitCode>(code));
}

std::vector<std::string> results_of(std::vector<std::string> votes, const std::string& what) {
  for (std::size_t rank = 0; rank < votes.size(); ++rank)
    if (!votes[rank].starts_with('y')) refuse(what, votes, rank);
  for (std::string& result : votes) result.erase(0, 1);
  return votes;
}
}  // namespace

void Group::exchange_buffers(std::span<const Outgoing>, std::span<const Incoming>) {
  throw Error(ExitCode::internal, "this group of ranks does not exchange snapshots");
}

std::vector<std::string> agree(Group& group, const std::string& what, const std::function<std::string()>& work) {
  return results_of(group.all_gather(vote(work)), what);
}

std::vector<std::string> agree_in_step(Group& group, const std::string& what,
                                       const std::function<std::string()>& work) {
  return results_of(group.all_gather_in_step(vote(work)), what);
}

std::string leader_decides(Group& group, const std::string& what, const std::function<std::string()>& work) {
  return agree(group, what, [&] { return group.rank() == 0 ? work() : std::string(); })[0];
}

}  // namespace distdl::checkpoint
