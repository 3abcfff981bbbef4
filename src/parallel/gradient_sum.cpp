// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cassert>
#include <span>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {
namespace {
constexpr std::size_t kAlignment = 16;  ///< floats: a cache line

std::size_t floats_of(double mib) {
  return static_cast<std::size_t>(std::min(mib * (1 << 20) / sizeof(float), 1e18));
}
}  // namespace

std::size_t arenas_for(comm::LeafRange range, int microbatches) {
  std::size_t arenas = 1;  // for the result, where a rank has no microbatch
  const auto nodes = comm::cover(range, microbatches);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto leaves = static_cast<unsigned>(comm::leaves_of(nodes[i], microbatches).count);
    arenas = std::max(arenas, i + static_cast<std::size_t>(std::bit_width(leaves)));
  }
  return arenas;
}

GradientSum::GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
                         std::size_t count, std::vector<std::size_t> places, double bucket_mib)
    : backend_(backend),
      communicator_(communicator),
      leaves_{plan.microbatches, plan.ranges},
      count_(count),
      cover_(comm::cover(plan.of(communicator.rank()), plan.microbatches)),
      stride_((count + kAlignment - 1) / kAlignment * kAlignment) {
  const bool can_overlap = communicator.size() > 1 && backend.memory_is_host();
  if (!can_overlap) places.clear();
  const std::size_t least =
      bucket_mib > 0 || places.empty() ? floats_of(bucket_mib) : best_bucket(communicator, leaves_, count);
  buckets_ = buckets_of(places, count, least);
  pieces_.push_back({{{0, count}}});
}

void GradientSum::set_pieces(Pieces pieces) {
  assert(arenas_.bytes() == 0 && !is_divided());
  pieces_.clear();
  for (auto& elements : pieces) pieces_.push_back({std::move(elements)});
}

bool GradientSum::are_done() const {
  return std::ranges::all_of(pieces_, [&](const Progress& piece) { return piece.node == cover_.size(); });
}

void GradientSum::allocate() {
  capacity_ = arenas_for(leaves_.ranges.at(static_cast<std::size_t>(communicator_.rank().value)), leaves_.count);
  communicator_.use(backend_.accelerator());
  arenas_ = memory_for(capacity_);
  locate_partials();
  if (is_divided()) sums_.emplace([this](std::size_t bucket, const std::stop_token& stop) { sum(bucket, stop); });
}

void GradientSum::allocate_spare() {
  assert(arenas_.bytes() > 0 && spare_.bytes() == 0);
  spare_ = memory_for(1);
}

tensor::Buffer GradientSum::memory_for(std::size_t arenas) {
  const std::size_t bytes = arenas * stride_ * sizeof(float);
  return backend_.memory_is_host() ? communicator_.allocate(bytes) : backend_.allocate(bytes);
}

void GradientSum::set_plan(const MicrobatchPlan& plan) {
  const comm::LeafRange range = plan.of(communicator_.rank());
  assert(only_piece().node == 0 || are_done());
  assert(plan.microbatches == leaves_.count && arenas_for(range, plan.microbatches) <= capacity());
  leaves_.ranges = plan.ranges;
  cover_ = comm::cover(range, plan.microbatches);
  for (Progress& piece : pieces_) piece.node = cover_.size(), piece.leaf = 0;
  locate_partials();
}

void GradientSum::locate_partials() {
  partials_.clear();
  for (const Bucket& bucket : buckets_)
    for (std::size_t i = 0; i < cover_.size(); ++i)
      partials_.emplace_back(arena(i) + bucket.first, bucket.count(), comm::DataType::float32);
}

float* GradientSum::arena(std::size_t index) const {
  assert(index < capacity());
  if (index == capacity_) return static_cast<float*>(spare_.data());
  return static_cast<float*>(arenas_.data()) + index * stride_;
}

float* GradientSum::microbatch_arena(std::size_t piece) {
  Progress& own = pieces_[piece];
  if (own.node == cover_.size()) own.depth = own.node = 0;  // the first of a new step
  return arena(own.depth);
}

float* GradientSum::first_partial() {
  return arena(0);
}

void GradientSum::reduce_top(Progress& piece) {
  --piece.depth;
  for (const auto& [first, end] : piece.elements)
    backend_.add(arena(piece.depth - 1) + first, arena(piece.depth) + first, end - first);
}

bool GradientSum::is_last(const Progress& piece) const {
  return piece.node + 1 == cover_.size() && piece.leaf + 1 == comm::leaves_of(cover_[piece.node], leaves_.count).count;
}

/// What add() does after the last leaf, of one bucket of the arenas.
void GradientSum::reduce_bucket(const Bucket& bucket) {
  const Progress& piece = only_piece();
  for (std::size_t depth = piece.depth + 1; depth > piece.node + 1; --depth)
    backend_.add(arena(depth - 2) + bucket.first, arena(depth - 1) + bucket.first, bucket.count());
}

void GradientSum::set_final(std::size_t place) {
  assert(is_last(only_piece()));
  const std::size_t before = reduced_;
  for (; reduced_ < buckets_.size() && buckets_[reduced_].first >= place; ++reduced_) reduce_bucket(buckets_[reduced_]);
  if (sums_ && reduced_ > before) sums_->release(reduced_);
}

void GradientSum::add(std::size_t piece) {
  Progress& own = pieces_[piece];
  assert(own.node < cover_.size());
  const bool closes = own.leaf + 1 == comm::leaves_of(cover_[own.node], leaves_.count).count;
  if (pieces_.size() == 1 && is_last(own)) {
    for (; reduced_ < buckets_.size(); ++reduced_) reduce_bucket(buckets_[reduced_]);
    own.depth = own.node + 1;
  } else {
    ++own.depth;
    // A binary counter: after leaf number k, as many sibling pairs are complete as k has trailing one bits.
    for (int k = own.leaf; k & 1; k >>= 1) reduce_top(own);
    while (closes && own.depth > own.node + 1) reduce_top(own);  // the right edge of the tree: no full sibling
  }
  own.leaf = closes ? 0 : own.leaf + 1;
  if (closes) ++own.node;
}

void GradientSum::sum(std::size_t bucket, const std::stop_token& stop) {
  const auto& [first, end] = buckets_[bucket];
  const comm::Vector result(arena(0) + first, end - first, comm::DataType::float32);
  const std::span partials(partials_.data() + bucket * cover_.size(), cover_.size());
  communicator_.all_reduce(leaves_, partials, result).wait(stop);
}

const Bucket* GradientSum::next_sum() {
  assert(are_done());
  if (next_ == buckets_.size()) {
    if (sums_) seconds_ = sums_->restart();
    next_ = reduced_ = 0;
    return nullptr;
  }
  if (sums_) {
    sums_->release(buckets_.size());
    sums_->wait(next_ + 1);
  } else if (communicator_.size() > 1) {
    const Stopwatch watch;
    sum(next_, {});
    seconds_ = watch.seconds();
  }
  return &buckets_[next_++];
}

float* GradientSum::finish() {
  while (next_sum() != nullptr) {
  }
  return arena(0);
}

}  // namespace distdl::parallel
