// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <distdl/checkpoint/format/hdf5_filters.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::checkpoint {
namespace {
std::vector<H5Z_filter_t> filters_of(Codec codec) {
  const CodecEntry& entry = entry_of(codec);
  if (entry.shuffles) return {H5Z_FILTER_SHUFFLE, entry.compressor->hdf5_filter};
  return {entry.compressor->hdf5_filter};
}

/// HDF5 creates no dataset with a filter that it does not know, though it never calls it. Where the user's HDF5 has the
/// plug-in, that stays.
void register_filter(const Compressor& compressor) {
  if (H5Zfilter_avail(compressor.hdf5_filter) > 0) return;
  H5Z_class2_t filter{};
  filter.version = H5Z_CLASS_T_VERS;
  filter.id = compressor.hdf5_filter;
  filter.encoder_present = filter.decoder_present = 1;
  filter.name = compressor.name;
  filter.filter = [](unsigned, std::size_t, const unsigned*, std::size_t, std::size_t*, void**) {
    return std::size_t{0};  // "failed"
  };
  hdf5::check(H5Zregister(&filter), "introduce", compressor.name);
}
}  // namespace

void set_filters(hid_t creation, Codec codec) {
  const Compressor& compressor = *entry_of(codec).compressor;
  register_filter(compressor);
  for (H5Z_filter_t id : filters_of(codec))
    hdf5::check(id == H5Z_FILTER_SHUFFLE ? H5Pset_shuffle(creation)
                                         : H5Pset_filter(creation, id, H5Z_FLAG_MANDATORY, 1, &compressor.level),
                "prepare", "filters");
}

std::uint32_t all_filters(Codec codec) {
  return (1U << filters_of(codec).size()) - 1;
}

bool has_filters(hid_t creation, Codec codec) {
  auto expected = filters_of(codec);
  if (H5Pget_nfilters(creation) != static_cast<int>(expected.size())) return false;
  for (unsigned i = 0; i < expected.size(); ++i)
    if (H5Pget_filter2(creation, i, nullptr, nullptr, nullptr, 0, nullptr, nullptr) != expected[i]) return false;
  return true;
}

}  // namespace distdl::checkpoint
