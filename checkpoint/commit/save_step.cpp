// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>

#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/commit/commit.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/save_step.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/tensor_reader.hpp>
#include <distdl/checkpoint/format/verify.hpp>
#include <distdl/checkpoint/format/writer.hpp>

namespace distdl::checkpoint {
namespace {
/// A run that takes the folder moves our stage away. If that made `work` fail, say so, rather than that a file is
/// missing.
template <class Work>
std::string unless_superseded(const SaveContext& context, Work&& work) try {
  return work();
} catch (const StorageError& failure) {
  try {
    check_owner(context.files, context.root, context.owner);
  } catch (const FileError&) {  // the same trouble as before
  }
  throw;
}

/// Whether the bytes on disk are these.
bool holds(TensorReader& reader, const Slice& slice) {
  const StoredTensor* stored = reader.find(slice.name);
  if (!stored || stored->entry != TensorEntry{slice.name, slice.dtype, slice.shape}) return false;
  std::size_t bytes = bytes_of(std::span(&slice, 1));
  if (bytes == 0) return true;
  std::vector<std::byte> found(bytes);
  reader.read(*stored, slice.box, found.data());
  return std::memcmp(found.data(), slice.bytes, bytes) == 0;
}

/// Whether the bytes outside of tensors are as they were written, in this rank's share of the files.
bool rest_holds(const SaveContext& context, const Path& folder, const Manifest& manifest) {
  auto size = static_cast<std::size_t>(context.group.size());
  for (auto index = static_cast<std::size_t>(context.group.rank()); index < manifest.files.size(); index += size) {
    OpenFile file(context.files, folder / manifest.files[index].name, OpenFile::Mode::read);
    if (file.size() != manifest.files[index].bytes) return false;
    if (rest_checksum(file, manifest, index) != manifest.files[index].rest) return false;
  }
  return true;
}

/// Whether a folder is a whole checkpoint with this rank's slices and, in sum, no others. Damage counts as "no", be it
/// where no tensor lies: a restart would refuse it.
bool holds_all(const SaveContext& context, const Path& folder, std::span<const Slice> slices, std::uint64_t total,
               const State& state) try {
  TensorReader reader(context.files, folder);
  std::uint64_t stored_bytes = 0;
  for (const StoredTensor& stored : reader.manifest().tensors)
    for (const StoredBox& box : stored.boxes) stored_bytes += bytes_of(stored, box);
  return stored_bytes == total && reader.manifest().state == state && rest_holds(context, folder, reader.manifest()) &&
         std::all_of(slices.begin(), slices.end(), [&](const Slice& slice) { return holds(reader, slice); });
} catch (const StorageError& error) {
  pass_on_shortage(error);
  return false;
}

/// Bytes of the files of step-S, if it exists and already holds what is to be saved; else nothing.
std::optional<std::uint64_t> already_saved(const SaveContext& context, const std::string& what, Step step,
                                           std::span<const Slice> slices, std::uint64_t total, const State& state) {
  Path folder = context.root / step_folder_name(step);
  std::string exists = leader_decides(context.group, what, [&] {
    std::error_code ignored;
    return std::string(std::filesystem::is_directory(folder, ignored) ? "yes" : "no");
  });
  if (exists == "no") return std::nullopt;
  auto same = agree(context.group, what,
                    [&] { return std::string(holds_all(context, folder, slices, total, state) ? "yes" : "no"); });
  if (std::count(same.begin(), same.end(), "no") > 0) return std::nullopt;
  // An earlier save may have failed between its rename and the sync of the root.
  std::string bytes = leader_decides(context.group, what, [&] {
    check_owner(context.files, context.root, context.owner);
    sync_folder(context.files, context.root);
    return std::to_string(summary_of(load_manifest(context.files, folder), folder).bytes);
  });
  return std::stoull(bytes);
}

Manifest whole_manifest(const SaveContext& context, Step step, const std::vector<std::string>& parts,
                        const State& state) {
  std::vector<Manifest> manifests;
  manifests.reserve(parts.size());
  for (const std::string& part : parts) manifests.push_back(parse_manifest(part, "a rank's part of the manifest"));
  Manifest whole = join(manifests);
  whole.step = step;
  whole.written_at = static_cast<std::int64_t>(seconds_since_1970());
  whole.world_size = context.group.size();
  whole.start = context.owner.start;
  whole.state = state;
  try {
    check_manifest(whole, "the slices of all ranks together");
  } catch (const StorageError& error) {
    throw StorageError(error.what(), ExitCode::incompatible);  // the caller's mistake, nothing is damaged
  }
  return whole;
}

bool says_no_room(const StorageError& error) {
  const std::string_view what = error.what();
  const auto says = [&](const char* text) { return what.find(text) != std::string_view::npos; };
  return error.exit_code() == ExitCode::storage && (says("No space left") || says("EDQUOT"));
}

/// A quota does not show how much space is missing, so checkpoints are deleted one at a time. Returns false if none may
/// be deleted.
bool drop_oldest(const SaveContext& context, Step step) {
  const auto gone = leader_decides(context.group, fmt::format("free space for step {}", step), [&] {
    try {
      check_owner(context.files, context.root, context.owner);
      return std::to_string(context.collector.make_room([](std::uint64_t more) { return more > 0; }, 1));
    } catch (const StorageError& trouble) {
      log(Severity::warning, "no older checkpoint could be deleted: {}", trouble.what());
      return std::string("0");
    }
  });
  return gone != "0";
}
}  // namespace

std::uint64_t save_step(const SaveContext& context, Step step, std::span<const Slice> slices, const State& state) {
  std::string what = fmt::format("save step {}", step);
  auto sizes = agree(context.group, what, [&] {
    check_slices(slices);
    check_state(state);
    return std::to_string(bytes_of(slices));
  });
  std::uint64_t total = 0;
  for (const std::string& size : sizes) total += std::stoull(size);
  if (auto bytes = already_saved(context, what, step, slices, total, state)) return *bytes;

  Commit commit(context.files, context.root, context.owner, step);  // only rank 0 opens a stage
  Path stage = leader_decides(context.group, what, [&] {
    check_owner(context.files, context.root, context.owner);
    return unless_superseded(context, [&] {
      const auto room = expected_bytes(context.files, context.root, total, context.options.compression != "none");
      const auto enough = [&](std::uint64_t more) {
        return has_room(context.files, context.root, room - std::min(room, more));
      };
      if (!enough(0)) context.collector.make_room(enough, std::numeric_limits<int>::max());
      return commit.open_stage(room).string();
    });
  });
  // The first rank with data takes the copy of the state for readers of HDF5.
  auto state_writer = std::find_if(sizes.begin(), sizes.end(), [](const auto& size) { return size != "0"; });
  bool has_state = context.group.rank() == state_writer - sizes.begin();
  Contribution contribution{step, slices, has_state ? state : State{}};
  auto parts = agree(context.group, what, [&] {
    return unless_superseded(context, [&] {
      return to_text(
          write_data_file(context.files, stage, data_file_name(context.group.rank()), contribution, context.options));
    });
  });
  std::string bytes = leader_decides(context.group, what, [&] {
    Manifest whole = whole_manifest(context, step, parts, state);
    return unless_superseded(context, [&] {
      commit.publish(whole);
      return std::to_string(summary_of(whole, stage).bytes);
    });
  });
  return std::stoull(bytes);
}

std::uint64_t save_with_room(const SaveContext& context, Step step, std::span<const Slice> slices, const State& state) {
  for (;;) try {
      return save_step(context, step, slices, state);
    } catch (const StorageError& error) {  // the same on all ranks
      if (!says_no_room(error) || !drop_oldest(context, step)) throw;
    }
}

}  // namespace distdl::checkpoint
