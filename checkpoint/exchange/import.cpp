// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <sys/mman.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/exchange/import.hpp>
#include <distdl/checkpoint/exchange/safetensors.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/store.hpp>

namespace distdl::checkpoint {
namespace {
constexpr const char* kStepKey = "distdl.step";
constexpr std::string_view kStateKey = "distdl.state.";
constexpr std::string_view kParameter = "parameter/";
/// State of optimizers (src/optim), and of groups of local SGD (src/train/state/group_state.hpp), which a start from
/// weights does without.
constexpr std::string_view kOptimizer[] = {"momentum/", "velocity/",       "first_moment/", "second_moment/",
                                           "average/",  "outer_momentum/", "group/"};

bool is_optimizers(std::string_view name) {
  return std::ranges::any_of(kOptimizer, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// The bytes of a file, read by the kernel when they are used.
class Mapping {
 public:
  explicit Mapping(const Path& file, std::uint64_t bytes) : bytes_(bytes) {
    FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!descriptor) throw FileError("open", file, errno);
    void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
    if (address == MAP_FAILED) throw FileError("map", file, errno);
    address_ = static_cast<std::byte*>(address);
    ::madvise(address_, bytes_, MADV_SEQUENTIAL);
  }
  ~Mapping() { ::munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const std::byte* data() const { return address_; }

 private:
  std::byte* address_ = nullptr;
  std::uint64_t bytes_;
};

std::string name_here(const std::string& name, const std::string& prefix) {
  bool own = name.starts_with(kParameter) || is_optimizers(name);
  return own ? name : prefix + name;
}

/// The step in the metadata.
std::optional<Step> step_of(const std::map<std::string, std::string>& metadata) {
  auto found = metadata.find(kStepKey);
  if (found == metadata.end()) return std::nullopt;
  Step step;
  const std::string& text = found->second;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step.value);
  if (error != std::errc() || end != text.data() + text.size() || step.value < 0) return std::nullopt;
  return step;
}

State state_of(const std::map<std::string, std::string>& metadata) {
  State state;
  for (const auto& [key, value] : metadata)
    if (key.starts_with(kStateKey)) state[key.substr(kStateKey.size())] = value;
  for (const auto& [key, value] : state)
    require<StorageError>(is_valid_name(key), "the metadata has a state \"{}\", which is not a valid name", key);
  return state;
}

void check_root(const Path& root, Step step, bool take) {
  std::error_code ignored;
  if (!std::filesystem::exists(root, ignored)) return;
  require<UsageError>(
      take || !std::filesystem::exists(root / kOwnerName, ignored),
      "\"{}\" already belongs to a run or an import, which would have to stop if it is still active; choose a new "
      "folder, or --take this one",
      root.string());
  auto steps = step_folders(root);
  require<UsageError>(steps.empty() || steps.rbegin()->first < step,
                      "\"{}\" already has a checkpoint of step {}, and a restart uses the newest; choose a new folder, "
                      "or a larger --step",
                      root.string(), steps.empty() ? step : steps.rbegin()->first);
}
}  // namespace

Summary save_imported(const std::filesystem::path& root, Step step, std::span<const Slice> slices, const State& state,
                      bool take) {
  check_root(root, step, take);
  SingleProcessGroup alone;
  Rule rule = last_rule(real_file_system(), root);
  Store store(root, {.keep = rule.keep, .keep_every = rule.keep_every});
  if (rule.audited) store.keep_newest_until(*rule.audited);
  store.take(alone, {"import", 0, 0, ""});
  store.save(alone, step, slices, state);
  return open(store.root() / step_folder_name(step));
}

Summary import_safetensors(const std::filesystem::path& file, const std::filesystem::path& root,
                           const ImportOptions& options) {
  const Path target = resolved(file);  // caches of downloads name their files by links
  OpenFile in(real_file_system(), target, OpenFile::Mode::read);
  SafetensorsFile content = read_safetensors(in);
  require_known_types(content, file);
  auto own_step = step_of(content.metadata);
  Step step = options.step.value_or(options.weights_only ? Step(0) : own_step.value_or(Step(0)));
  State state;
  if (!options.weights_only && step == own_step.value_or(step)) state = state_of(content.metadata);
  Mapping bytes(target, in.size());
  std::vector<Slice> slices;
  for (const SafetensorsTensor& tensor : content.tensors)
    if (std::string name = name_here(tensor.entry.name, options.prefix); !options.weights_only || !is_optimizers(name))
      slices.push_back({name, tensor.entry.dtype, tensor.entry.shape, tensor::whole(tensor.entry.shape),
                        bytes.data() + tensor.offset});
  return save_imported(root, step, slices, state, options.take);
}

}  // namespace distdl::checkpoint
