// SPDX-License-Identifier: Apache-2.0
// The table of transforms.
#include <algorithm>
#include <array>

#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {

std::span<const Transform> transforms() {
  static const std::array all{random_resized_crop(), random_mirror(), rand_augment(), color_jitter(), random_erasing()};
  return all;
}

namespace {
std::vector<Transform> used_transforms(const Options& options, bool trains) {
  std::vector<Transform> used;
  for (const Transform& transform : transforms())
    if (trains && transform.is_used(options)) used.push_back(transform);
  return used;
}
}  // namespace

SampleTransforms::SampleTransforms(const Options& options, std::uint64_t seed, bool trains)
    : options_(options),
      seed_(seed),
      used_(used_transforms(options, trains)),
      changes_pixels_(std::ranges::any_of(used_, [](const Transform& each) { return each.pixels != nullptr; })) {}

template <class Form, class Use>
void SampleTransforms::each(Form form, std::int64_t epoch, std::int64_t sample, const Use& use) const {
  for (const Transform& transform : used_) {
    if (transform.*form == nullptr) continue;
    Draws draws(seed_, transform.stream, epoch, sample);
    use(transform, draws);
  }
}

void SampleTransforms::frame(std::int64_t epoch, std::int64_t sample, std::int64_t width, std::int64_t height,
                             std::int64_t size, Frame& frame) const {
  each(&Transform::frame, epoch, sample,
       [&](const Transform& transform, Draws& draws) { transform.frame(options_, draws, width, height, size, frame); });
}

void SampleTransforms::pixels(std::int64_t epoch, std::int64_t sample, const Pixels& image) const {
  each(&Transform::pixels, epoch, sample,
       [&](const Transform& transform, Draws& draws) { transform.pixels(options_, draws, image); });
}

void SampleTransforms::values(std::int64_t epoch, std::int64_t sample, const Values& image) const {
  each(&Transform::values, epoch, sample,
       [&](const Transform& transform, Draws& draws) { transform.values(options_, draws, image); });
}

}  // namespace distdl::data
