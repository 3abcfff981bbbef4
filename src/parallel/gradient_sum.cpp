// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {
namespace {
constexpr std::size_t kAlignment = 16;  ///< floats: a cache line
constexpr std::size_t kAhead = 2;       ///< buckets that wait for their sums while the next one is computed

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
                         std::size_t count, Setup setup)
    : backend_(backend),
      communicator_(communicator),
      leaves_{plan.microbatches, plan.ranges},
      count_(count),
      stride_((count + kAlignment - 1) / kAlignment * kAlignment),
      has_thread_(!setup.in_callers_thread && backend.memory_is_host()) {
  if (communicator.size() == 1) setup.places.clear();
  const std::size_t least = setup.bucket_mib > 0 || setup.places.empty() ? floats_of(setup.bucket_mib)
                                                                         : best_bucket(communicator, leaves_, count);
  buckets_ = buckets_of(setup.places, count, least);
  if (setup.devices.empty()) setup.devices = {&backend};
  if (setup.pieces.empty()) setup.pieces = {{{0, count}}};
  assert(setup.devices.size() == 1 || (backend.memory_is_host() && setup.pieces.size() == 1));
  shares_ = std::vector<Share>(setup.devices.size());
  for (std::size_t device = 0; device < shares_.size(); ++device) {
    shares_[device].backend = setup.devices[device];
    for (const auto& elements : setup.pieces) shares_[device].pieces.push_back({elements});
  }
  divide();
}

void GradientSum::divide() {
  const comm::LeafRange own = leaves_.ranges.at(static_cast<std::size_t>(communicator_.rank().value));
  const auto ranges = divided(own, shares_.size());
  std::vector<comm::TreeNode> nodes;
  std::vector<int> arenas;  // the arena of each node
  std::size_t first = 0;
  for (std::size_t device = 0; device < shares_.size(); ++device) {
    Share& share = shares_[device];
    share.range = ranges[device];
    share.cover = comm::cover(share.range, leaves_.count);
    share.first = first;
    for (std::size_t i = 0; i < share.cover.size(); ++i) arenas.push_back(static_cast<int>(first + i));
    nodes.insert(nodes.end(), share.cover.begin(), share.cover.end());
    first += arenas_for(share.range, leaves_.count);
  }
  partial_ = comm::summation(nodes, own, leaves_.count);
  const auto arena_of = [&](int node) { return arenas[static_cast<std::size_t>(node)]; };
  for (auto& [into, from] : partial_.additions) into = arena_of(into), from = arena_of(from);
  for (int& result : partial_.results) result = arena_of(result);
}

GradientSum::~GradientSum() {
  if (!sums_) return;
  sums_.reset();
  communicator_.poll_while(nullptr);
}

bool GradientSum::are_done() const {
  return std::ranges::all_of(shares_, [](const Share& share) {
    return std::ranges::all_of(share.pieces, [&](const Progress& piece) { return piece.node == share.cover.size(); });
  });
}

void GradientSum::allocate(Reduction reduction) {
  assert(reduction.counts.empty() || reduction.counts.size() == buckets_.size());
  reduction_ = std::move(reduction);
  reduction_.discards = reduction_.discards && backend_.memory_is_host();
  const Share& last = shares_.back();
  capacity_ = last.first + arenas_for(last.range, leaves_.count);
  communicator_.use(backend_.accelerator());
  arenas_ = memory_for(capacity_);
  locate_partials();
  if (!is_divided() || !has_thread_) return;
  sums_.emplace([this](std::size_t number, const std::stop_token& stop) { work(number, stop); });
  communicator_.poll_while(&sums_->is_awaited());
}

void GradientSum::allocate_spare() {
  assert(arenas_.bytes() > 0 && spare_.bytes() == 0);
  spare_ = memory_for(1);
}

tensor::Buffer GradientSum::memory_for(std::size_t arenas) {
  const std::size_t bytes = arenas * stride_ * sizeof(float);
  if (!reduction_.discards) return backend_.memory_is_host() ? communicator_.allocate(bytes) : backend_.allocate(bytes);
  return tensor::reserve_host(bytes);  // shared memory is reserved, and cannot be given back
}

void GradientSum::set_plan(const MicrobatchPlan& plan) {
  [[maybe_unused]] const comm::LeafRange range = plan.of(communicator_.rank());
  Share& share = shares_.front();
  assert(shares_.size() == 1 && (share.pieces.front().node == 0 || are_done()));
  assert(plan.microbatches == leaves_.count && arenas_for(range, plan.microbatches) <= capacity());
  leaves_.ranges = plan.ranges;
  divide();
  for (Progress& piece : share.pieces) piece.node = share.cover.size(), piece.leaf = 0;
  locate_partials();
}

void GradientSum::locate_partials() {
  partials_.clear();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::size_t first = buckets_[b].first, middle = end_of_slices(b), end = buckets_[b].end;
    for (const int index : partial_.results)
      partials_.emplace_back(arena(static_cast<std::size_t>(index)) + first, middle - first, comm::DataType::float32);
    for (const int index : partial_.results)
      partials_.emplace_back(arena(static_cast<std::size_t>(index)) + middle, end - middle, comm::DataType::float32);
  }
}

std::size_t GradientSum::end_of_slices(std::size_t bucket) const {
  const std::size_t first = buckets_[bucket].first;
  if (reduction_.compressed) return std::clamp(reduction_.compressed->end(), first, buckets_[bucket].end);
  return reduction_.counts.empty()
             ? first
             : std::accumulate(reduction_.counts[bucket].begin(), reduction_.counts[bucket].end(), first);
}

float* GradientSum::arena(std::size_t index) const {
  assert(index < capacity());
  if (index == capacity_) return static_cast<float*>(spare_.data());
  return static_cast<float*>(arenas_.data()) + index * stride_;
}

float* GradientSum::microbatch_arena(std::size_t piece, std::size_t device) {
  Share& share = shares_[device];
  Progress& own = share.pieces[piece];
  if (own.node == share.cover.size()) own.depth = own.node = 0;  // the first of a new step
  return arena(share.first + own.depth);
}

float* GradientSum::first_partial() {
  return arena(0);
}

void GradientSum::reduce_top(const Share& share, Progress& piece) {
  --piece.depth;
  const std::size_t from = share.first + piece.depth;
  for (const auto& [first, end] : piece.elements)
    share.backend->add(arena(from - 1) + first, arena(from) + first, end - first);
}

bool GradientSum::is_last(const Share& share, const Progress& piece) const {
  return piece.node + 1 == share.cover.size() &&
         piece.leaf + 1 == comm::leaves_of(share.cover[piece.node], leaves_.count).count;
}

/// Adds the partial sums of one bucket after the last leaf, as add() does for all elements.
void GradientSum::reduce_bucket(const Share& share, const Bucket& bucket) {
  const Progress& piece = share.pieces.front();
  for (std::size_t from = share.first + piece.depth; from > share.first + piece.node; --from)
    share.backend->add(arena(from - 1) + bucket.first, arena(from) + bucket.first, bucket.count());
}

void GradientSum::set_final(std::size_t place, std::size_t device) {
  Share& share = shares_[device];
  assert(is_last(share, share.pieces.front()));
  std::size_t done = share.reduced;
  for (; done < buckets_.size() && buckets_[done].first >= place; ++done) reduce_bucket(share, buckets_[done]);
  share.reduced = done;
  if (device == 0) advance();
}

void GradientSum::advance() {
  std::size_t done = buckets_.size();
  for (const Share& share : shares_)
    if (share.range.count > 0) done = std::min(done, share.reduced.load());
  const std::size_t before = reduced_;
  for (; reduced_ < done; ++reduced_)
    for (const auto& [into, from] : partial_.additions) {
      const auto& [first, end] = buckets_[reduced_];
      backend_.add(arena(static_cast<std::size_t>(into)) + first, arena(static_cast<std::size_t>(from)) + first,
                   end - first);
    }
  if (reduced_ > before) release();
}

void GradientSum::add(std::size_t piece, std::size_t device) {
  Share& share = shares_[device];
  Progress& own = share.pieces[piece];
  assert(own.node < share.cover.size());
  const bool closes = own.leaf + 1 == comm::leaves_of(share.cover[own.node], leaves_.count).count;
  if (share.pieces.size() == 1 && is_last(share, own)) {
    for (std::size_t done = share.reduced; done < buckets_.size(); ++done) reduce_bucket(share, buckets_[done]);
    own.depth = own.node + 1;
    share.reduced = buckets_.size();
  } else {
    ++own.depth;
    // A binary counter: after leaf number k, as many sibling pairs are complete as k has trailing one bits.
    for (int k = own.leaf; k & 1; k >>= 1) reduce_top(share, own);
    while (closes && own.depth > own.node + 1) reduce_top(share, own);  // the right edge of the tree: no full sibling
  }
  own.leaf = closes ? 0 : own.leaf + 1;
  if (closes) ++own.node;
}

std::vector<std::size_t> GradientSum::followers_after(std::size_t lag, std::size_t count) const {
  std::vector<std::size_t> before;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    before.push_back(std::min(count, bucket > lag ? bucket - lag : 0));
  return before;
}

void GradientSum::set_followers(Followers followers) {
  assert(followers.before.size() == buckets_.size() && std::ranges::is_sorted(followers.before));
  reduction_.followers = std::move(followers);
}

void GradientSum::wait_for_followers(std::size_t count) {
  if (sums_ && count > 0) sums_->wait(jobs_before_follower(count - 1) + 1);
}

std::size_t GradientSum::jobs_before_sum(std::size_t bucket) const {
  const auto& before = reduction_.followers.before;
  return bucket + (before.empty() ? 0 : before[bucket]);
}

std::size_t GradientSum::jobs_before_follower(std::size_t number) const {
  const auto& before = reduction_.followers.before;
  return number + static_cast<std::size_t>(std::ranges::upper_bound(before, number) - before.begin());
}

void GradientSum::work(std::size_t number, const std::stop_token& stop) {
  std::size_t bucket = 0;
  while (bucket < buckets_.size() && jobs_before_sum(bucket) < number) ++bucket;
  if (bucket < buckets_.size() && jobs_before_sum(bucket) == number) return sum(bucket, stop);
  reduction_.followers.run(number - bucket, stop);
}

void GradientSum::release() {
  if (!sums_) return;
  std::size_t jobs = 0;
  for (std::size_t bucket = 0, number = 0; bucket < reduced_ || number < followed_; ++jobs) {
    if (bucket < reduced_ && jobs_before_sum(bucket) == jobs)
      ++bucket;
    else if (number < followed_ && jobs_before_follower(number) == jobs)
      ++number;
    else
      break;
  }
  sums_->release(jobs);
}

bool GradientSum::has_sum() {
  if (next_ == buckets_.size()) return false;
  if (!sums_) return reduced_ > next_;
  return sums_->is_done(jobs_before_sum(next_) + 1) || (reduction_.discards && reduced_ > next_ + kAhead);
}

void GradientSum::sum(std::size_t bucket, const std::stop_token& stop) {
  const std::size_t count = partial_.results.size();
  const std::span partials(partials_.data() + 2 * bucket * count, 2 * count);
  const std::size_t first = buckets_[bucket].first, middle = end_of_slices(bucket), end = buckets_[bucket].end;
  if (first < middle && reduction_.compressed) {
    sum_compressed(bucket, stop);
    if (communicator_.size() == 1) return;
  } else if (first < middle) {
    const auto& counts = reduction_.counts[bucket];
    const auto self = counts.begin() + communicator_.rank().value;
    const comm::Vector own(arena(0) + std::accumulate(counts.begin(), self, first), *self, comm::DataType::float32);
    communicator_.reduce_scatter(leaves_, partials.first(count), own, counts).wait(stop);
    if (reduction_.discards && !stop.stop_requested()) discard(bucket);
  }
  if (middle == end || stop.stop_requested()) return;
  const comm::Vector result(arena(0) + middle, end - middle, comm::DataType::float32);
  communicator_.all_reduce(leaves_, partials.last(count), result).wait(stop);
}

void GradientSum::sum_compressed(std::size_t bucket, const std::stop_token& stop) {
  const std::size_t first = buckets_[bucket].first, middle = end_of_slices(bucket);
  if (reduction_.compressed->in_use() == Compression::none) {
    reduction_.compressed->pass_on_residuals(bucket, arena(0));
    const std::span exact(partials_.data() + 2 * bucket * partial_.results.size(), partial_.results.size());
    const comm::Vector result(arena(0) + first, middle - first, comm::DataType::float32);
    if (communicator_.size() > 1) communicator_.all_reduce(leaves_, exact, result).wait(stop);
    return;
  }
  std::vector<const float*> partials;
  for (const int index : partial_.results) partials.push_back(arena(static_cast<std::size_t>(index)));
  (*reduction_.compressed)(bucket, partials, arena(0), stop);
}

/// Gives back the memory of a bucket, except in the first arena: the own slice and the totals.
void GradientSum::discard(std::size_t bucket) {
  const auto& counts = reduction_.counts[bucket];
  const auto self = counts.begin() + communicator_.rank().value;
  const std::size_t first = buckets_[bucket].first, own = std::accumulate(counts.begin(), self, first);
  const auto drop = [&](std::size_t index, std::size_t begin, std::size_t end) {
    tensor::discard(std::as_writable_bytes(std::span(arena(index) + begin, end - begin)));
  };
  drop(0, first, own);
  drop(0, own + *self, end_of_slices(bucket));
  for (std::size_t index = 1; index < capacity(); ++index) drop(index, first, buckets_[bucket].end);
}

const Bucket* GradientSum::next_sum() {
  if (next_ == buckets_.size()) {
    if (!reduction_.followers.run) end_step();
    return nullptr;
  }
  advance();
  if (sums_) {
    assert(reduced_ > next_);
    release();
    sums_->wait(jobs_before_sum(next_) + 1);
  } else if (communicator_.size() > 1 || reduction_.compressed) {
    const Stopwatch watch;
    sum(next_, {});
    own_seconds_ += watch.seconds();
  }
  return &buckets_[next_++];
}

void GradientSum::release_followers(std::size_t count) {
  if (!reduction_.followers.run || count > reduction_.followers.count)  // else end_step() would wait for ever
    throw std::logic_error("the sums of the gradients have fewer followers than are released");
  if (sums_) {
    followed_ = std::max(followed_, count);
    return release();
  }
  const Stopwatch watch;
  for (; followed_ < count; ++followed_) reduction_.followers.run(followed_, {});
  own_seconds_ += watch.seconds();
}

void GradientSum::end_step() {
  if (sums_) {
    sums_->wait(followed_ == 0
                    ? buckets_.size()
                    : std::max(jobs_before_sum(buckets_.size() - 1), jobs_before_follower(followed_ - 1)) + 1);
    seconds_ = sums_->restart();
  } else {
    seconds_ = std::exchange(own_seconds_, 0);
  }
  next_ = reduced_ = followed_ = 0;
  for (Share& share : shares_) share.reduced = 0;
}

float* GradientSum::finish() {
  while (next_sum() != nullptr) {
  }
  return arena(0);
}

}  // namespace distdl::parallel
