// SPDX-License-Identifier: Apache-2.0
#include <span>

#include <nlohmann/json.hpp>

#include <distdl/base/checksum.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/format/layout.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::uint64_t kLargestOwner = 64 << 10;

std::string name_of(const Owner& owner) {
  return fmt::format("job {}, restart {}, generation {}", owner.job, owner.restart, owner.generation);
}
}  // namespace

std::string to_text(const Owner& owner) {
  nlohmann::json document{{"job", owner.job},     {"restart", owner.restart},      {"generation", owner.generation},
                          {"nonce", owner.nonce}, {"lineage", owner.lineage},      {"start", owner.start},
                          {"keep", owner.keep},   {"keep_every", owner.keep_every}};
  if (!owner.launch.empty()) document["launch"] = owner.launch;
  if (owner.snapshots_since > 0) document["snapshots_since"] = owner.snapshots_since;
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Owner owner_from(const std::string& text) try {
  auto document = nlohmann::json::parse(text);
  return {document.at("job").get<std::string>(),
          whole<std::int64_t>(document.at("restart")),
          whole<std::uint32_t>(document.at("generation")),
          document.at("nonce").get<std::string>(),
          document.value("lineage", ""),
          whole_in<std::uint64_t>(document, "start"),
          whole_in<std::int64_t>(document, "keep"),
          whole_in<std::int64_t>(document, "keep_every"),
          whole_in<std::uint64_t>(document, "snapshots_since"),
          document.value("launch", "")};
} catch (const nlohmann::json::exception& error) {
  throw StorageError(fmt::format("{} is damaged: {}", kOwnerName, error.what()));
}

std::optional<Owner> owner_of(FileSystem& files, const Path& root) try {
  auto text = read_text(files, root / kOwnerName, kLargestOwner);
  return text ? std::optional(owner_from(*text)) : std::nullopt;
} catch (const StorageError& error) {
  pass_on_shortage(error);
  return std::nullopt;  // damaged: nothing that it could be asked for is worth failing
}

Start start_of(const Owner& owner) {
  return {owner.start, crc32c(std::as_bytes(std::span(owner.nonce)))};
}

std::string run_name(const std::string& lineage, const Path& root) {
  const std::string& path = root.native();
  return fmt::format("{}{:08x}", lineage, crc32c(std::as_bytes(std::span(path))));
}

void write_owner(FileSystem& files, const Path& root, const Owner& owner) {
  replace_text(files, root / kOwnerName, to_text(owner));
}

void require_no_newer_generation(const Owner& before, const Owner& mine, const Path& root) {
  const bool is_same_launch = !mine.launch.empty() && before.launch == mine.launch;
  if (is_same_launch && before.generation > mine.generation)
    throw StorageError(
        fmt::format("generation {} of the same launch owns \"{}\" now; this one ({}) was superseded and must stop",
                    before.generation, root.string(), name_of(mine)),
        ExitCode::superseded);
}

void check_owner(FileSystem& files, const Path& root, const Owner& owner) {
  auto text = read_text(files, root / kOwnerName, kLargestOwner);
  if (!text)
    throw StorageError(fmt::format("\"{}\" no longer has {}: it was removed, so this run ({}) may not write",
                                   root.string(), kOwnerName, name_of(owner)),
                       ExitCode::superseded);
  Owner found = owner_from(*text);
  if (found.nonce != owner.nonce)
    throw StorageError(fmt::format("another run owns \"{}\" now ({}); this run ({}) was superseded and must stop",
                                   root.string(), name_of(found), name_of(owner)),
                       ExitCode::superseded);
}

}  // namespace distdl::checkpoint
