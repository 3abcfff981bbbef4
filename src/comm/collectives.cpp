// SPDX-License-Identifier: Apache-2.0
// The operations of a Communicator, each in its textbook form.
#include <distdl/base/errors.hpp>
#include <distdl/comm/communicator_impl.hpp>
#include <distdl/comm/tree_all_reduce.hpp>

namespace distdl::comm {
namespace {

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

void check_peer(Rank rank, int size) {
  require(rank.value >= 0 && rank.value < size, "rank {} is not in a world of {} ranks", rank, size);
}

}  // namespace

void Communicator::send(std::span<const std::byte> bytes, Rank to, std::uint16_t tag) {
  check_peer(to, size());
  require(to != rank(), "rank {} sends to itself", to);
  Batch batch(impl_->fabric);
  impl_->fabric.send(batch, bytes, to, {.channel = Channel::user, .number = tag});
  impl_->fabric.wait(batch, {"send with tag", tag});
}

void Communicator::receive(std::span<std::byte> bytes, Rank from, std::uint16_t tag) {
  check_peer(from, size());
  require(from != rank(), "rank {} receives from itself", from);
  Batch batch(impl_->fabric);
  impl_->fabric.receive(batch, bytes, from, {.channel = Channel::user, .number = tag});
  impl_->fabric.wait(batch, {"receive with tag", tag});
}

/// Dissemination: after round k each rank knows of 2^k others. Hensgen, Finkel, Manber, IJPP 1988.
void Communicator::barrier() {
  const Operation operation = impl_->next("barrier");
  Fabric& fabric = impl_->fabric;
  for (int distance = 1; distance < size(); distance *= 2) {
    Batch batch(fabric);
    fabric.receive(batch, {}, Rank((rank().value - distance + size()) % size()), {.number = operation.sequence});
    fabric.send(batch, {}, Rank((rank().value + distance) % size()), {.number = operation.sequence});
    fabric.wait(batch, operation);
  }
}

/// Binomial tree, with ranks counted from the root.
void Communicator::broadcast(std::span<std::byte> bytes, Rank root) {
  check_peer(root, size());
  const Operation operation = impl_->next("broadcast");
  Fabric& fabric = impl_->fabric;
  const int self = (rank().value - root.value + size()) % size();
  const auto real = [&](int r) { return Rank((r + root.value) % size()); };
  int distance = 1;
  while (distance < size() && !(self & distance)) distance *= 2;
  Batch batch(fabric);
  if (self != 0) {
    fabric.receive(batch, bytes, real(self - distance), {.number = operation.sequence});
    fabric.wait(batch, operation);
  }
  for (distance /= 2; distance > 0; distance /= 2)
    if (self + distance < size()) fabric.send(batch, bytes, real(self + distance), {.number = operation.sequence});
  fabric.wait(batch, operation);
}

std::vector<std::string> Communicator::all_gather(const std::string& mine, std::optional<Clock::duration> timeout) {
  const Operation operation = impl_->next("all-gather");
  Fabric& fabric = impl_->fabric;
  std::vector<std::uint64_t> lengths(size(), mine.size());
  std::vector<std::string> all(size(), mine);
  const auto with_each_peer = [&](auto exchange) {
    Batch batch(fabric);
    for (int r = 0; r < size(); ++r)
      if (Rank(r) != rank()) exchange(batch, Rank(r));
    fabric.wait(batch, operation, timeout.value_or(fabric.timeout()));
  };
  std::uint64_t own_length = mine.size();
  with_each_peer([&](Batch& batch, Rank peer) {
    fabric.receive(batch, bytes_of(lengths[peer.value]), peer, {.number = operation.sequence});
    fabric.send(batch, bytes_of(own_length), peer, {.number = operation.sequence});
  });
  with_each_peer([&](Batch& batch, Rank peer) {
    auto& theirs = all[peer.value];
    theirs.resize(lengths[peer.value]);
    fabric.receive(batch, std::as_writable_bytes(std::span(theirs)), peer, {.number = operation.sequence});
    fabric.send(batch, std::as_bytes(std::span(mine)), peer, {.number = operation.sequence});
  });
  return all;
}

void Communicator::tree_all_reduce(int leaves, std::span<const LeafRange> ranges,
                                   std::span<const std::span<float>> partials, std::span<float> result,
                                   const AddFunction& add) {
  comm::tree_all_reduce(impl_->fabric, impl_->next("all-reduce"), {leaves, ranges, partials, result}, add,
                        impl_->scratch);
}

}  // namespace distdl::comm
