// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/format/set_format.hpp>

namespace distdl::data {

Description describe_file(const std::filesystem::path& file) {
  return open_set(file).description;
}

std::string digest_of_file(const std::filesystem::path& file) {
  const OpenSet set = open_set(file, Metadata::read_anew);
  std::vector<ChunkReader> datasets;
  for (const auto& spec : datasets_of(set.description))
    if (spec.is_in_digest) datasets.push_back(open_chunks(set, file, spec, 0));
  std::vector<const ChunkReader*> in_order;
  in_order.reserve(datasets.size());
  for (const auto& chunks : datasets) in_order.push_back(&chunks);
  return digest_of(set.description, in_order);
}

Verification verify_file(const std::filesystem::path& file) {
  OpenSet set = open_set(file);
  Verification result;
  auto collect = [&](auto&& action) {
    try {
      action();
    } catch (const StorageError& error) {
      pass_on_shortage(error);
      result.damage.emplace_back(error.what());
    }
  };
  for (const auto& spec : datasets_of(set.description))
    collect([&] {
      ChunkReader chunks = open_chunks(set, file, spec, 0);
      for (std::int64_t number = 0; number < chunks.chunks(); ++number, ++result.chunks)
        collect([&] { work_done(WorkUnit::bytes, chunks.chunk(number).size()); });
    });
  return result;
}

}  // namespace distdl::data
