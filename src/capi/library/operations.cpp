// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <span>
#include <vector>

#include <distdl/capi/library/arguments.hpp>
#include <distdl/capi/library/communicator.hpp>
#include <distdl/capi/library/request.hpp>
#include <distdl/capi/library/wide_integers.hpp>

namespace distdl::capi {
namespace {

/// Calls begin(communicator), which begins an operation.
template <class Begin>
int operate(const char* function, distdl_comm* handle, distdl_request** request, Begin&& begin) {
  return guarded(function, [&] {
    if (request) *request = nullptr;
    const auto object = object_of<CommunicatorObject>(handle, "comm");
    use(*object->family, [&] { finish_or_open(object, begin(object->get()), request); });
  });
}

Rank root_of(const comm::Communicator& communicator, int rank, const char* argument) {
  need(rank >= 0 && rank < communicator.size(), "{} is {}, but the communicator has {} ranks", argument, rank,
       communicator.size());
  return Rank(rank);
}

comm::CallOptions reducing(tensor::DataType type, int reduction) {
  comm::CallOptions options;
  options.reduction = reduction_of(reduction);
  comm::check_reduction(type, options.reduction);
  return options;
}

/// The operands of a reduction.
struct Operands {
  const void* values;
  std::size_t count;
  void* result;
  std::size_t result_count;
};

/// Calls reduce(values, result, options), which begins a reduction. Small integers are reduced as int32.
template <class Reduce>
Begun reduced(const Operands& all, int type, int reduction, Reduce&& reduce) {
  const auto parts = parts_of(type);
  const auto values = values_at(all.values, all.count, parts, "values");
  const auto result = result_at(all.result, all.result_count, parts, "result");
  if (!is_small_integer(type)) {
    const auto options = reducing(parts.type, reduction);
    need(!is_complex(type) || reduction == DISTDL_SUM || reduction == DISTDL_AVERAGE,
         "reduction is {}, but complex numbers have no maximum and no minimum", reduction);
    return reduce(values, result, options);
  }
  const auto options = reducing(tensor::DataType::int32, reduction);
  const auto wide = std::make_shared<WideIntegers>(type, all.values, all.count, all.result_count);
  return {reduce(wide->values(), wide->result(), options), [wide, to = all.result] { wide->narrow(to); }};
}

/// The elements of the ranks' slices.
class Slices {
 public:
  Slices(const comm::Communicator& communicator, const std::size_t* counts, std::size_t count, ElementParts parts)
      : counts_(static_cast<std::size_t>(communicator.size()), count), parts_(parts), rank_(communicator.rank()) {
    if (counts) counts_.assign(counts, counts + counts_.size());
    for (std::size_t& one : counts_) {
      need(one <= std::numeric_limits<std::size_t>::max() / 64 - all_, "counts: there are too many elements");
      all_ += one;
      one *= parts.count;
    }
  }
  std::size_t own() const { return counts_[place()] / parts_.count; }
  std::size_t all() const { return all_; }
  /// The own slice of an array of all.
  void* own_of(void* all) const {
    const std::size_t before = std::accumulate(counts_.begin(), counts_.begin() + rank_.value, std::size_t{0});
    return static_cast<std::byte*>(all) + before * tensor::size_of(parts_.type);
  }
  /// In parts of elements.
  operator std::span<const std::size_t>() const { return counts_; }  // NOLINT(google-explicit-constructor)

 private:
  std::size_t place() const { return static_cast<std::size_t>(rank_.value); }
  std::vector<std::size_t> counts_;
  ElementParts parts_;
  std::size_t all_ = 0;
  Rank rank_;
};

std::uint32_t tag_of(int tag) {
  need(tag >= 0 && tag < 1 << 28, "tag is {}, but must be 0 to 2^28-1", tag);
  return static_cast<std::uint32_t>(tag);
}

template <class Byte, class Pointer>
std::span<Byte> message(Pointer data, std::size_t bytes) {
  check_memory(data, bytes, {tensor::DataType::byte}, "data");
  return {static_cast<Byte*>(data), bytes};
}

}  // namespace
}  // namespace distdl::capi

using namespace distdl;        // NOLINT(google-build-using-namespace)
using namespace distdl::capi;  // NOLINT(google-build-using-namespace)
using comm::Communicator;
using comm::ConstVector;
using comm::Vector;

size_t distdl_type_size(int type) {
  return type >= 0 && type < static_cast<int>(kTypes.size()) ? kTypes.at(static_cast<std::size_t>(type)).bytes() : 0;
}

int distdl_barrier(distdl_comm* comm, distdl_request** request) {
  return operate(__func__, comm, request, [](Communicator& ranks) { return ranks.barrier(); });
}

int distdl_broadcast(distdl_comm* comm, void* values, size_t count, int type, int root, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    return ranks.broadcast(result_at(values, count, parts_of(type), "values"), root_of(ranks, root, "root"));
  });
}

int distdl_reduce(distdl_comm* comm, const void* values, void* result, size_t count, int type, int reduction, int root,
                  distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    const Rank at = root_of(ranks, root, "root");
    const bool is_root = at == ranks.rank();
    const Operands all{values || !is_root ? values : result, count, result, is_root || result ? count : 0};
    return reduced(all, type, reduction, [&](ConstVector own, Vector sum, const auto& options) {
      return ranks.reduce(own, sum, at, options);
    });
  });
}

int distdl_all_reduce(distdl_comm* comm, const void* values, void* result, size_t count, int type, int reduction,
                      distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    need(result != nullptr || count == 0, "result is null");
    return reduced(
        {values ? values : result, count, result, count}, type, reduction,
        [&](ConstVector own, Vector sum, const auto& options) { return ranks.all_reduce(own, sum, options); });
  });
}

int distdl_reduce_scatter(distdl_comm* comm, const void* values, void* result, size_t count, const size_t* counts,
                          int type, int reduction, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    const Slices slices(ranks, counts, count, is_small_integer(type) ? parts_of(DISTDL_I32) : parts_of(type));
    return reduced({values, slices.all(), result, slices.own()}, type, reduction,
                   [&](ConstVector own, Vector sum, const auto& options) {
                     return ranks.reduce_scatter(own, sum, slices, options);
                   });
  });
}

int distdl_all_gather(distdl_comm* comm, const void* values, void* result, size_t count, const size_t* counts, int type,
                      distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    const auto kind = parts_of(type);
    const Slices slices(ranks, counts, count, kind);
    const auto all = result_at(result, slices.all(), kind, "result");
    const void* const own = values || !result ? values : slices.own_of(result);
    return ranks.all_gather(values_at(own, slices.own(), kind, "values"), all, slices);
  });
}

int distdl_gather(distdl_comm* comm, const void* values, void* result, size_t count, const size_t* counts, int type,
                  int root, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    const auto kind = parts_of(type);
    const Slices slices(ranks, counts, count, kind);
    const Rank at = root_of(ranks, root, "root");
    const bool is_root = at == ranks.rank();
    const auto all = result_at(result, is_root ? slices.all() : 0, kind, "result");
    const void* const own = values || !is_root || !result ? values : slices.own_of(result);
    return ranks.gather(values_at(own, slices.own(), kind, "values"), all, at, slices);
  });
}

int distdl_scatter(distdl_comm* comm, const void* values, void* result, size_t count, const size_t* counts, int type,
                   int root, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    const auto kind = parts_of(type);
    const Slices slices(ranks, counts, count, kind);
    const Rank at = root_of(ranks, root, "root");
    const auto all = values_at(values, at == ranks.rank() ? slices.all() : 0, kind, "values");
    return ranks.scatter(all, result_at(result, slices.own(), kind, "result"), at, slices);
  });
}

int distdl_all_to_all(distdl_comm* comm, const void* values, void* result, size_t count, const size_t* send_counts,
                      const size_t* receive_counts, int type, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    need((send_counts == nullptr) == (receive_counts == nullptr), "send_counts and receive_counts: one is null");
    const auto kind = parts_of(type);
    const Slices sent(ranks, send_counts, count, kind), received(ranks, receive_counts, count, kind);
    const auto all = result_at(result, received.all(), kind, "result");
    const auto own = values_at(values ? values : result, sent.all(), kind, "values");
    if (!send_counts) return ranks.all_to_all(own, all);
    return ranks.all_to_all(own, all, sent, received);
  });
}

int distdl_send(distdl_comm* comm, const void* data, size_t bytes, int to, int tag, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    return ranks.send(message<const std::byte>(data, bytes), root_of(ranks, to, "to"), tag_of(tag));
  });
}

int distdl_receive(distdl_comm* comm, void* data, size_t bytes, int from, int tag, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    return ranks.receive(message<std::byte>(data, bytes), root_of(ranks, from, "from"), tag_of(tag));
  });
}

int distdl_receive_any(distdl_comm* comm, void* data, size_t bytes, int tag, int* from, distdl_request** request) {
  return operate(__func__, comm, request, [&](Communicator& ranks) {
    need(ranks.size() > 1, "comm has one rank, which no other can send to");
    return ranks.receive_any(message<std::byte>(data, bytes), tag_of(tag), [from](Rank rank) {
      if (from) *from = rank.value;
    });
  });
}
