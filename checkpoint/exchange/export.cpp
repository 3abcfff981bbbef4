// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fnmatch.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/exchange/safetensors.hpp>
#include <distdl/files/whole_file.hpp>

namespace distdl::checkpoint {
bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

std::vector<TensorEntry> select(const Summary& checkpoint, const Patterns& patterns) {
  std::vector<TensorEntry> selected;
  for (const TensorEntry& entry : checkpoint.tensors)
    if (patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                        [&](const std::string& pattern) { return matches(pattern, entry.name); }))
      selected.push_back(entry);
  for (const std::string& pattern : patterns)
    require<UsageError>(std::any_of(selected.begin(), selected.end(),
                                    [&](const TensorEntry& entry) { return matches(pattern, entry.name); }),
                        "no tensor of \"{}\" matches \"{}\"; \"distdl checkpoint show\" lists them",
                        checkpoint.folder.string(), pattern);
  return selected;
}

std::vector<TensorEntry> export_safetensors(const Summary& checkpoint, const std::filesystem::path& file,
                                            std::vector<ExportedTensor> tensors, Overwrite overwrite) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const ExportedTensor& a, const ExportedTensor& b) {
    return tensor::size_of(a.from.dtype) > tensor::size_of(b.from.dtype);
  });
  auto entries = entries_of(tensors);
  std::map<std::string, std::string> metadata{{"format", "pt"}, {"distdl.step", std::to_string(checkpoint.step.value)}};
  for (const auto& [key, value] : checkpoint.state)
    if (is_utf8(value))
      metadata["distdl.state." + key] = value;
    else
      log(Severity::warning, "\"{}\" does not contain the state \"{}\": its {} bytes are not text", file.string(), key,
          value.size());
  TensorReader reader(real_file_system(), checkpoint.folder);
  WholeFile out(real_file_system(), file, overwrite);
  out.append(safetensors_header(entries, metadata));
  for (const ExportedTensor& tensor : tensors)
    for_each_piece(reader, tensor, [&](std::span<std::byte> piece) { out.append(piece); });
  out.publish();
  return entries;
}

}  // namespace distdl::checkpoint
