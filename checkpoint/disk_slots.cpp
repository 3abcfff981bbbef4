// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include <distdl/base/log.hpp>
#include <distdl/checkpoint/disk_slots.hpp>
#include <distdl/checkpoint/file_operations.hpp>
#include <distdl/checkpoint/layout.hpp>

namespace distdl::checkpoint {
namespace {
constexpr const char* kHalf = ".half";  // being written

/// The number at the start of `text`, which is cut off together with the '-' behind it.
template <class Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data() + text.size() || *end != '-') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return true;
}
}  // namespace

DiskSlots::DiskSlots(FileSystem& files, Path folder, const std::string& run)
    : files_(files), folder_(std::move(folder)), run_(run), prefix_(slot_prefix(run)) {
  make_folders(files_, folder_);
}

std::string DiskSlots::write(std::span<const std::byte> slot) {
  const SlotLabel label = open_slot(slot).label;
  std::string name = fmt::format("{}{}-{}-{}-{}-{}-{}-{}", prefix_, label.rank, label.world, label.start.number,
                                 label.start.identity, label.step, label.sequence, random_hex(8));
  const Path half = folder_ / (name + kHalf);
  try {
    OpenFile file(files_, half, OpenFile::Mode::create);
    file.reserve(0, slot.size());
    file.write_at(slot, 0);
    file.sync();
    file.close();
    if (files_.rename(half.c_str(), (folder_ / name).c_str(), 0) != 0) throw FileError("rename", half, errno);
    sync_folder(files_, folder_);
  } catch (const StorageError&) {
    files_.unlink(half.c_str());
    throw;
  }
  return name;
}

std::vector<DiskSlots::Entry> DiskSlots::list() const {
  std::vector<Entry> entries;
  for (const Path& path : entries_with_prefix(folder_, prefix_)) {
    Entry entry{path.filename().string(), {run_, 0, 1, Step(0), 0, {}}, 0};
    std::string_view rest = std::string_view(entry.name).substr(prefix_.size());
    std::error_code error;
    entry.bytes = std::filesystem::file_size(path, error);
    if (path.extension() != kHalf && !error && take(rest, entry.label.rank) && take(rest, entry.label.world) &&
        take(rest, entry.label.start.number) && take(rest, entry.label.start.identity) &&
        take(rest, entry.label.step.value) && take(rest, entry.label.sequence))
      entries.push_back(std::move(entry));
  }
  return entries;
}

SlotMemory DiskSlots::load(const std::string& name) const {
  OpenFile file(files_, folder_ / name, OpenFile::Mode::read);
  if (file.size() == 0) throw StorageError(fmt::format("\"{}\" is empty", file.path().string()), ExitCode::corrupt);
  SlotMemory memory = SlotMemory::create_private(file.size());
  file.read_at(memory.writable(), 0);
  return memory;
}

void DiskSlots::remove(const std::string& name) noexcept {
  if (files_.unlink((folder_ / name).c_str()) != 0)
    log(Severity::warning, "cannot delete the old snapshot \"{}\": {}", name, errno_text(errno));
}

}  // namespace distdl::checkpoint
