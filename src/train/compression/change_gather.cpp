// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/train/compression/change_gather.hpp>

namespace distdl::train {

ChangeGather::ChangeGather(comm::Communicator& communicator, const parallel::Options& options,
                           const tensor::ArenaLayout& layout, const optim::Shards& shards)
    : communicator_(communicator),
      options_(options),
      layout_(layout),
      shards_(shards),
      ranks_(static_cast<std::size_t>(communicator.size())),
      self_(static_cast<std::size_t>(communicator.rank().value)),
      values_(compression::kMostElements) {
  use(options.compression.in_use(0));
}

void ChangeGather::set_state(float* parameters, std::span<float> lacks) {
  parameters_ = parameters;
  lacks_ = lacks;
}

void ChangeGather::use(parallel::Compression gradients) {
  const auto wanted = parallel::encoding_of_changes(gradients);
  if (!parts_.empty() && options_.compression.encoding == wanted) return;
  options_.compression.encoding = wanted;
  codec_ = parallel::codec_of(options_.compression);
  parts_.clear();
  std::size_t most = 0;
  for (std::size_t part = 0; part < shards_.parts.size(); ++part) {
    parts_.push_back(part_of(part));
    most = std::max(most, parts_.back().places.back() + parts_.back().bytes.back());
  }
  codes_.resize(most);
}

ChangeGather::Part ChangeGather::part_of(std::size_t part) const {
  Part made;
  for (const auto& slices : shards_.of) {
    std::size_t bytes = 0;
    for (const auto& view : layout_.tensors())
      for (const auto& unit : parallel::units_of(options_, view, slices[part])) {
        made.units.push_back(unit);
        bytes += codec_of(unit).bytes(unit.count);
      }
    made.ends.push_back(made.units.size());
    made.bytes.push_back(bytes);
  }
  made.places.resize(ranks_);
  std::exclusive_scan(made.bytes.begin(), made.bytes.end(), made.places.begin(), std::size_t{0});
  return made;
}

std::span<const parallel::CodedUnit> ChangeGather::units_of(const Part& part, std::size_t rank) const {
  const std::size_t first = rank == 0 ? 0 : part.ends[rank - 1];
  return std::span(part.units).subspan(first, part.ends[rank] - first);
}

std::span<float> ChangeGather::lacks_of(std::size_t part, const optim::Elements& elements) const {
  const std::size_t place = optim::place_in(shards_.of[self_], part) + elements.first - own(part).first;
  return lacks_.subspan(place, elements.count());
}

void ChangeGather::begin_update(const optim::Elements& elements) {
  for (std::size_t part = 0; part < shards_.parts.size(); ++part) {
    const auto here = optim::common(elements, own(part));
    if (here.count() == 0) continue;
    const auto lacks = lacks_of(part, here);
    float* const parameters = parameters_ + here.first;
    for (std::size_t i = 0; i < lacks.size(); ++i) {
      const float shared = parameters[i];
      parameters[i] += lacks[i];
      lacks[i] = shared;
    }
  }
}

void ChangeGather::encode(std::size_t part) {
  std::byte* code = codes_.data() + parts_[part].places[self_];
  for (const auto& unit : units_of(parts_[part], self_)) {
    const auto shared = lacks_of(part, {unit.first, unit.first + unit.count});
    const auto values = std::span(values_).first(unit.count);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = parameters_[unit.first + i] - (unit.is_exact ? 0 : shared[i]);
    codec_of(unit).encode(values, code);
    code += codec_of(unit).bytes(unit.count);
  }
}

/// The owner does the same arithmetic as the others.
void ChangeGather::decode(std::size_t part, std::size_t rank) {
  const std::byte* code = codes_.data() + parts_[part].places[rank];
  for (const auto& unit : units_of(parts_[part], rank)) {
    const auto values = std::span(values_).first(unit.count);
    codec_of(unit).decode(code, values);
    code += codec_of(unit).bytes(unit.count);
    const std::span<float> parameters(parameters_ + unit.first, unit.count);
    const auto lacks = rank == self_ ? lacks_of(part, {unit.first, unit.first + unit.count}) : std::span<float>();
    if (!unit.is_exact) compression::add(values, lacks.empty() ? parameters : lacks);
    for (std::size_t i = 0; i < lacks.size(); ++i) lacks[i] = parameters[i] - values[i];
    std::ranges::copy(values, parameters.begin());
  }
}

void ChangeGather::gather(std::size_t part, const std::stop_token& stop) {
  const Part& here = parts_[part];
  if (here.units.empty()) return;
  encode(part);
  const std::size_t all = here.places.back() + here.bytes.back();
  communicator_
      .all_gather({codes_.data() + here.places[self_], here.bytes[self_], comm::DataType::byte},
                  {codes_.data(), all, comm::DataType::byte}, here.bytes)
      .wait(stop);
  if (stop.stop_requested()) return;
  for (std::size_t rank = 0; rank < ranks_; ++rank) decode(part, rank);
}

}  // namespace distdl::train
