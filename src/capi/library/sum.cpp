// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <optional>
#include <span>

#include <distdl/capi/library/arguments.hpp>
#include <distdl/capi/library/communicator.hpp>
#include <distdl/capi/library/leaf_counter.hpp>
#include <distdl/capi/library/request.hpp>
#include <distdl/world/world.hpp>

namespace distdl::capi {
namespace {

/// A sum over leaves, on all ranks of a communicator.
class SumObject {
 public:
  using Handle = distdl_sum;
  static constexpr Kind kKind = Kind::sum;

  SumObject(std::shared_ptr<CommunicatorObject> of, comm::Leaves all, LeafCounter counting, comm::Reduction how,
            ElementParts element)
      : communicator(std::move(of)),
        use_of(communicator),
        leaves(std::move(all)),
        counter(std::move(counting)),
        parts(element) {
    options.reduction = how;
  }

  /// Throws CallError while the arrays are being summed over the ranks.
  void require_idle() const {
    const auto request = pending.lock();
    if (request && !request->is_done) fail(DISTDL_STATE, "the sum over the ranks is under way: wait for its request");
  }

  std::shared_ptr<CommunicatorObject> communicator;
  Use use_of;
  comm::Leaves leaves;
  LeafCounter counter;  ///< its elements are the parts of ours
  const ElementParts parts;
  comm::CallOptions options;
  std::weak_ptr<RequestObject> pending;
};

/// The numbers that each rank tells the others.
struct Share {
  std::int64_t leaves = 0, first = 0, own = 0, count = 0, type = 0, reduction = 0;
};
constexpr std::size_t kNumbers = sizeof(Share) / sizeof(std::int64_t);

/// The leaves of rank number `rank` if they are divided evenly.
comm::LeafRange even_share(int leaves, int rank, int ranks) {
  const auto begin = [&](std::int64_t number) { return static_cast<int>(leaves * number / ranks); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

/// Collective. The leaves of all ranks. Throws CallError on all ranks unless they fit together.
comm::Leaves leaves_of_all(comm::Communicator& ranks, const Share& mine) {
  std::vector<Share> all(static_cast<std::size_t>(ranks.size()));
  const comm::ConstVector own(&mine, kNumbers, comm::DataType::int64);
  ranks.all_gather(own, comm::Vector(all.data(), kNumbers * all.size(), comm::DataType::int64)).wait();
  comm::Leaves leaves{static_cast<int>(mine.leaves), {}};
  std::vector<char> has(static_cast<std::size_t>(leaves.count));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Share& one = all[rank];
    need(one.leaves == mine.leaves && one.count == mine.count && one.type == mine.type &&
             one.reduction == mine.reduction,
         "rank {} gave other leaves, count, type or reduction", rank);
    leaves.ranges.push_back({static_cast<int>(one.first), static_cast<int>(one.own)});
    for (std::int64_t leaf = one.first; leaf < one.first + one.own; ++leaf) {
      need(!has[static_cast<std::size_t>(leaf)], "leaf {} belongs to several ranks", leaf);
      has[static_cast<std::size_t>(leaf)] = 1;
    }
  }
  for (std::size_t leaf = 0; leaf < has.size(); ++leaf) need(has[leaf], "leaf {} belongs to no rank", leaf);
  return leaves;
}

class LoneWorld final : public world::World {
 public:
  Rank rank() const override { return Rank(0); }
  int size() const override { return 1; }
  std::string description() const override { return "one rank"; }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds) override { return {mine}; }
};

/// A communicator of this process alone.
std::shared_ptr<CommunicatorObject> alone() {
  LoneWorld world;
  return std::make_shared<CommunicatorObject>(comm::Communicator::connect(world, {}), nullptr);
}

/// Collective. Memory that the other ranks of the node read directly, if there is enough on all ranks.
tensor::Buffer allocate(comm::Communicator& ranks, std::size_t bytes) try {
  return ranks.allocate(bytes);
} catch (const comm::NoMemory&) {
  return tensor::allocate_host(bytes);
}

/// Calls begin(communicator, sum), which begins the sum over the ranks.
template <class Begin>
int finish(const char* function, distdl_sum* handle, distdl_request** request, Begin&& begin) {
  return guarded(function, [&] {
    if (request) *request = nullptr;
    const auto sum = object_of<SumObject>(handle, "sum");
    use(*sum->communicator->family, [&] {
      sum->require_idle();
      if (!sum->counter.is_complete())
        fail(DISTDL_STATE, "{} of {} leaves are added", sum->counter.added(), sum->counter.range().count);
      sum->pending = finish_or_open(sum->communicator, begin(sum->communicator->get(), *sum), request);
      sum->counter.restart();
    });
  });
}

}  // namespace
}  // namespace distdl::capi

using namespace distdl;        // NOLINT(google-build-using-namespace)
using namespace distdl::capi;  // NOLINT(google-build-using-namespace)

int distdl_sum_create(distdl_comm* comm, size_t count, int type, int reduction, int leaves, int first, int own,
                      distdl_sum** sum) {
  return guarded(__func__, [&] {
    clear(sum, "sum");
    const auto parts = parts_of(type);
    need(!is_small_integer(type), "type is {}, of which there are no sums over leaves: give DISTDL_I32 or DISTDL_I64",
         type);
    const auto kind = parts.type;
    const auto how = reduction_of(reduction);
    comm::check_reduction(kind, how);
    need(how == comm::Reduction::sum || how == comm::Reduction::average, "reduction must be a sum or an average");
    check_memory(sum, count, parts, "count");
    count *= parts.count;
    constexpr int kMostLeaves = 1 << 24;
    need(leaves > 0 && leaves <= kMostLeaves, "leaves is {}, but must be 1 to {}", leaves, kMostLeaves);
    need(own < 0 || (first >= 0 && own <= leaves && first <= leaves - own), "leaves {} to {} are not in 0 to {}", first,
         first + std::int64_t{own}, leaves);
    const auto object = comm ? object_of<CommunicatorObject>(comm, "comm") : alone();
    use(*object->family, [&] {
      const auto range = own < 0 ? even_share(leaves, object->rank, object->size) : comm::LeafRange{first, own};
      auto all = leaves_of_all(object->get(),
                               {leaves, range.first, range.count, static_cast<std::int64_t>(count), type, reduction});
      LeafCounter counter(range, leaves, count, kind,
                          [&](std::size_t bytes) { return allocate(object->get(), bytes); });
      *sum = open_handle(std::make_shared<SumObject>(object, std::move(all), std::move(counter), how, parts));
    });
  });
}

int distdl_sum_leaves(distdl_sum* sum, int* first, int* own) {
  return guarded(__func__, [&] {
    const auto range = object_of<SumObject>(sum, "sum")->counter.range();
    if (first) *first = range.first;
    if (own) *own = range.count;
  });
}

int distdl_sum_add(distdl_sum* sum, const void* values) {
  return guarded(__func__, [&] {
    const auto object = object_of<SumObject>(sum, "sum");
    LeafCounter& counter = object->counter;
    check_memory(values, counter.count(), {counter.type()}, "values");
    const auto lock = object->communicator->family->lock();
    object->require_idle();
    if (counter.is_complete()) fail(DISTDL_STATE, "all {} leaves of this rank are added", counter.range().count);
    counter.add(values);
  });
}

int distdl_sum_all_reduce(distdl_sum* sum, void* result, distdl_request** request) {
  return finish(__func__, sum, request, [&](comm::Communicator& ranks, const SumObject& object) {
    const LeafCounter& counter = object.counter;
    const auto all = result_at(result, counter.count(), {counter.type()}, "result");
    return ranks.all_reduce(object.leaves, counter.partials(), all, object.options);
  });
}

int distdl_sum_reduce_scatter(distdl_sum* sum, void* result, const size_t* counts, distdl_request** request) {
  return finish(__func__, sum, request, [&](comm::Communicator& ranks, const SumObject& object) {
    const LeafCounter& counter = object.counter;
    const auto size = static_cast<std::size_t>(ranks.size());
    need(counts != nullptr || counter.count() % size == 0, "{} elements cannot be divided equally among {} ranks",
         counter.count(), size);
    std::vector<std::size_t> slices(size, counter.count() / size);
    if (counts) slices.assign(counts, counts + size);
    for (std::size_t& slice : slices) slice *= counts ? object.parts.count : 1;
    need(std::reduce(slices.begin(), slices.end()) == counter.count(), "counts do not add up to {} elements",
         counter.count());
    const std::size_t own = slices[static_cast<std::size_t>(ranks.rank().value)];
    return ranks.reduce_scatter(object.leaves, counter.partials(), result_at(result, own, {counter.type()}, "result"),
                                slices, object.options);
  });
}

int distdl_sum_close(distdl_sum* sum) {
  return guarded(__func__, [&] {
    auto object = object_of<SumObject>(sum, "sum");
    const auto family = object->communicator->family;
    const auto lock = family->lock();
    if (!family->has_failed()) object->require_idle();
    close_handle(sum);
    object.reset();
  });
}
