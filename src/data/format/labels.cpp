// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/labels.hpp>

namespace distdl::data {

std::vector<std::int32_t> read_integers(ChunkReader& chunks) {
  std::vector<std::int32_t> integers(static_cast<std::size_t>(chunks.rows()));
  auto rest = std::as_writable_bytes(std::span(integers));
  for (std::int64_t number = 0; number < chunks.chunks(); ++number) {
    auto bytes = chunks.chunk(number);
    std::copy(bytes.begin(), bytes.end(), rest.begin());
    rest = rest.subspan(bytes.size());
  }
  return integers;
}

std::vector<std::int32_t> read_labels(ChunkReader& chunks, const std::string& file, std::int64_t classes) {
  auto labels = read_integers(chunks);
  auto wrong = std::find_if(labels.begin(), labels.end(), [&](auto label) { return label < 0 || label >= classes; });
  if (wrong != labels.end())
    throw StorageError(
        fmt::format("\"{}\" is damaged: sample {} has the label {}, outside the classes 0 to {}; create the "
                    "file again",
                    file, wrong - labels.begin(), *wrong, classes - 1),
        ExitCode::corrupt);
  return labels;
}

}  // namespace distdl::data
