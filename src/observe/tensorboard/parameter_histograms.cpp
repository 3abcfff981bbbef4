// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/tensor_reader.hpp>
#include <distdl/observe/tensorboard/event_records.hpp>
#include <distdl/observe/tensorboard/histogram.hpp>
#include <distdl/observe/tensorboard/parameter_histograms.hpp>

namespace distdl::observe {
namespace {
constexpr std::string_view kParameters = "parameter/";

Histogram histogram_of(checkpoint::TensorReader& reader, const checkpoint::StoredTensor& stored,
                       const std::stop_token& stop) {
  constexpr std::int64_t kSlabElements = 1 << 20;
  const std::size_t size = tensor::size_of(stored.entry.dtype);
  Histogram histogram;
  std::vector<std::byte> bytes;
  checkpoint::for_each_slab(stored.entry.shape, kSlabElements, [&](const tensor::Box& box) {
    if (stop.stop_requested()) return;
    bytes.resize(static_cast<std::size_t>(tensor::element_count(box.extent)) * size);
    reader.read(stored, box, bytes.data());
    for (std::size_t at = 0; at < bytes.size(); at += size)
      histogram.add(tensor::value_of(stored.entry.dtype, &bytes[at]));
  });
  return histogram;
}
}  // namespace

std::string parameter_histograms(const checkpoint::Summary& checkpoint, const std::stop_token& stop) {
  checkpoint::TensorReader reader(real_file_system(), checkpoint.folder);
  const EventPlace place{static_cast<double>(checkpoint.written_at), checkpoint.step.value};
  std::string records;
  for (const auto& stored : reader.manifest().tensors)
    if (stored.entry.name.starts_with(kParameters))
      records += histogram_record(place, stored.entry.name, histogram_of(reader, stored, stop));
  return stop.stop_requested() ? "" : records;
}

std::uint64_t parameter_bytes(const checkpoint::Summary& checkpoint) {
  std::uint64_t bytes = 0;
  for (const auto& entry : checkpoint.tensors)
    if (entry.name.starts_with(kParameters))
      bytes += static_cast<std::uint64_t>(tensor::element_count(entry.shape)) * tensor::size_of(entry.dtype);
  return bytes;
}

}  // namespace distdl::observe
