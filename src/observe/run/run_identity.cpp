// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/run/run_identity.hpp>

namespace distdl::observe {
namespace {
constexpr const char* kIdentityName = "RUN";
constexpr std::size_t kIdBytes = 6;
constexpr std::size_t kMostIdentityBytes = 4096;  ///< also of an entry of the index

bool is_id(std::string_view text) {
  return text.size() == 2 * kIdBytes && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Text after "key=" in the first line that begins with it; nothing if there is none.
std::optional<std::string> value_of(const std::string& text, const std::string& key) {
  const std::string wanted = key + "=";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (text.compare(at, wanted.size(), wanted) == 0) return text.substr(at + wanted.size(), end - at - wanted.size());
    at = end + 1;
  }
  return std::nullopt;
}
}  // namespace

std::string to_text(const RunIdentity& identity) {
  return fmt::format("id={}\ncreated={:.3f}\n", identity.id, identity.created);
}

std::optional<RunIdentity> identity_from(const std::string& text) {
  const auto id = value_of(text, "id"), created = value_of(text, "created");
  if (!id || !is_id(*id) || !created) return std::nullopt;
  RunIdentity identity{*id};
  const auto [end, error] = std::from_chars(created->data(), created->data() + created->size(), identity.created);
  constexpr double kLatest = 1e11;  // the year 5138
  const bool is_time = error == std::errc{} && end == created->data() + created->size() && identity.created >= 0 &&
                       identity.created <= kLatest;
  return is_time ? std::optional(identity) : std::nullopt;
}

std::optional<RunIdentity> find_identity(const std::filesystem::path& run_folder) try {
  return identity_from(read_regular(run_folder / kIdentityName, kMostIdentityBytes));
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::incomplete) log(Severity::debug, "not read: {}", error.what());
  return std::nullopt;
}

RunIdentity identify_run(const std::filesystem::path& run_folder, const std::string& id) {
  if (auto known = find_identity(run_folder)) return *known;
  RunIdentity made{is_id(id) ? id : random_hex(kIdBytes), seconds_since_1970()};
  if (create_whole(resolved(run_folder) / kIdentityName, to_text(made))) return made;
  auto known = find_identity(run_folder);  // another command was quicker
  require<StorageError>(known.has_value(), "\"{}\" is damaged; remove it", (run_folder / kIdentityName).string());
  return *known;
}

std::optional<std::filesystem::path> run_index() {
  if (const auto state = env("XDG_STATE_HOME")) return std::filesystem::path(*state) / "distdl" / "runs";
  if (const auto home = env("HOME")) return std::filesystem::path(*home) / ".local" / "state" / "distdl" / "runs";
  return std::nullopt;
}

void remember_run(const RunIdentity& identity, const std::filesystem::path& run_folder) try {
  const auto known = run_index();
  if (!known) return;
  const auto index = resolved(*known);
  make_folders(real_file_system(), index);
  const auto text = fmt::format("folder={}\n", std::filesystem::absolute(run_folder).lexically_normal().string());
  replace_text(real_file_system(), index / identity.id, text);  // the folder may have been moved
} catch (const std::exception& error) {
  log(Severity::debug, "the run is not noted in the index of \"distdl ls\": {}", error.what());
}

void forget_run(const std::string& id) {
  if (const auto index = run_index(); index && is_id(id)) remove_file(resolved(*index) / id);
}

std::vector<KnownRun> known_runs() {
  std::vector<KnownRun> runs;
  const auto index = run_index();
  if (!index) return runs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(*index, error)) {
    const std::string id = entry.path().filename().string();
    if (!is_id(id)) continue;
    try {
      if (auto folder = value_of(read_regular(entry.path(), kMostIdentityBytes), "folder"))
        runs.push_back({id, *folder});
    } catch (const StorageError& problem) {
      log(Severity::debug, "not read: {}", problem.what());
    }
  }
  std::sort(runs.begin(), runs.end(), [](const KnownRun& a, const KnownRun& b) { return a.id < b.id; });
  return runs;
}

}  // namespace distdl::observe
