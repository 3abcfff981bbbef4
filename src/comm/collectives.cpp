// SPDX-License-Identifier: Apache-2.0
// The operations of a Communicator: what was asked for becomes a problem, whose schedule an Execution performs.
#include <algorithm>
#include <functional>
#include <numeric>

#include <distdl/base/errors.hpp>
#include <distdl/comm/execution/communicator_impl.hpp>

namespace distdl::comm {
namespace {

template <class T>
T& take(std::vector<std::unique_ptr<T>>& pool, auto make) {
  for (auto& one : pool)
    if (!one->in_use()) return *one;
  return *pool.emplace_back(make());
}

/// But for the inputs.
void set_operands(Execution::Call& call, ConstVector values, Vector result) {
  call.inputs.clear();
  call.output = static_cast<std::byte*>(result.data());
  call.input_bytes = values.count() * size_of(values.type());
  call.output_bytes = result.count() * size_of(result.type());
  call.type = values.type();
}

void check_same_type(const char* name, ConstVector values, ConstVector result) {
  require(values.type() == result.type() || result.count() == 0, "{} of {} into {}: the types must be the same", name,
          name_of(values.type()), name_of(result.type()));
}

void check_count(const char* name, const char* what, std::size_t count, std::size_t expected) {
  require(count == expected, "{}: {} {} elements, but {} are expected", name, what, count, expected);
}

void check_root(const char* name, Rank root, int size) {
  require(root.value >= 0 && root.value < size, "{}: rank {} is not in a world of {} ranks", name, root, size);
}

/// Sets the caller's counts, or equal ones that together make `total`.
void set_counts(std::vector<std::size_t>& result, const char* name, std::span<const std::size_t> counts, int size,
                std::size_t total) {
  const auto ranks = static_cast<std::size_t>(size);
  require(!counts.empty() || total % ranks == 0,
          "{}: {} elements cannot be divided equally among {} ranks: give the counts", name, total, size);
  require(counts.empty() || counts.size() == ranks, "{}: {} counts for {} ranks", name, counts.size(), size);
  if (counts.empty())
    result.assign(ranks, total / ranks);
  else
    result.assign(counts.begin(), counts.end());
}

bool overlap(ConstVector a, ConstVector b) {
  const auto begin = [](ConstVector one) { return static_cast<const std::byte*>(one.data()); };
  const auto end = [&](ConstVector one) { return begin(one) + one.count() * size_of(one.type()); };
  return a.count() > 0 && b.count() > 0 && std::less<>()(begin(a), end(b)) && std::less<>()(begin(b), end(a));
}

std::size_t total_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

void Communicator::Impl::describe(Problem& problem, Collective collective, DataType type) const {
  problem.collective = collective;
  problem.rank = group.rank;
  problem.size = static_cast<int>(group.members.size());
  problem.element = size_of(type);
  problem.count = 0;
  problem.root = problem.leaves = 0;
  problem.ranges.clear();
  for (auto* counts : {&problem.counts, &problem.send_counts, &problem.receive_counts}) counts->clear();
}

Problem& Communicator::Impl::problem(Collective collective, DataType type) {
  describe(last.problem, collective, type);
  return last.problem;
}

void Communicator::Impl::describe(Problem& problem, const Leaves& leaves, std::size_t count, DataType type) const {
  describe(problem, Collective::all_reduce, type);
  problem.count = count;
  problem.leaves = leaves.count;
  problem.ranges = leaves.ranges;
}

void Communicator::Impl::describe_sum(const char* name, const Leaves& leaves, std::span<const ConstVector> partials,
                                      std::size_t count, Vector result) {
  require(leaves.ranges.size() == group.members.size(), "{}: {} leaf ranges were given for {} ranks", name,
          leaves.ranges.size(), group.members.size());
  const std::size_t expected = cover_size(leaves.ranges[place()], leaves.count);
  require(partials.size() == expected, "{}: {} partial sums were given, but the leaves need {}", name, partials.size(),
          expected);
  auto& [problem, call] = last;
  set_operands(call, {nullptr, count, result.type()}, result);
  for (ConstVector partial : partials) {
    check_same_type(name, partial, result);
    check_count(name, "a partial sum has", partial.count(), count);
    call.inputs.push_back(static_cast<const std::byte*>(partial.data()));
  }
  describe(problem, leaves, count, result.type());
}

Clock::duration Communicator::Impl::timeout(const CallOptions& options) const {
  return options.timeout.value_or(fabric->timeout());
}

Execution::Call& Communicator::Impl::call_of(ConstVector values, Vector result) {
  set_operands(last.call, values, result);
  last.call.inputs.push_back(static_cast<const std::byte*>(values.data()));
  last.call.reduction = Reduction::sum;
  last.call.scale = 1;
  return last.call;
}

Request Communicator::Impl::start(const char* name, Problem&& key, Execution::Call& call, const CallOptions& options) {
  call.on_device = on_device(name, call);
  if (takes_library(key, call, options)) return start_library(name, key, call, options);
  Traffic& counted = traffic(key.collective);
  const auto& shared_plan = plan(std::move(key), call.type, call.on_device, options);
  Execution& execution = take(executions_, [&] { return std::make_unique<Execution>(group); });
  execution.set(shared_plan, call, next(name));
  execution.count(counted, std::max(call.input_bytes, call.output_bytes));
  execution.start(timeout(options), group.spins);
  return Request(&execution);
}

Request Communicator::Impl::start_reduction(const char* name, Problem&& key, Execution::Call& call, int terms,
                                            const CallOptions& options) {
  call.reduction = options.reduction;
  call.scale = options.reduction == Reduction::average ? 1.0 / terms : 1.0;
  return start(name, std::move(key), call, options);
}

Transfer& Communicator::Impl::idle_transfer() {
  return take(transfers_, [&] { return std::make_unique<Transfer>(*fabric); });
}

Request Communicator::Impl::start(Transfer& transfer, const CallOptions& options) const {
  try {
    transfer.start(timeout(options), group.spins);
  } catch (...) {
    transfer.cancel();  // after a failure it does not even begin, and there will be no Request
    throw;
  }
  return Request(&transfer);
}

Rank Communicator::Impl::member(Rank rank) const {
  const int size = static_cast<int>(group.members.size());
  require(rank.value >= 0 && rank.value < size, "rank {} is not in a world of {} ranks", rank, size);
  return group.members[static_cast<std::size_t>(rank.value)];
}

void Communicator::Impl::require_host_memory(const char* what, const void* data) const {
  require(!group.device || !group.device->accelerator->owns(data),
          "{} is in the memory of a device, where only collectives work: copy it to host memory, or use a "
          "collective",
          what);
}

Request Communicator::Impl::transfer(Direction direction, std::span<std::byte> bytes, Rank peer, std::uint32_t tag,
                                     const CallOptions& options) {
  const bool sends = direction == Direction::send;
  const Rank rank = member(peer);
  require_host_memory("a message between two ranks", bytes.data());
  require(peer.value != group.rank, "rank {} {} itself", peer, sends ? "sends to" : "receives from");
  require(tag <= kMostTag, "tag {} is above {}", tag, kMostTag);
  Transfer& transfer = idle_transfer();
  const Operation operation{sends ? "send with tag" : "receive with tag", tag};
  const Label label{Channel::user, group.id, tag};
  transfer.begin(operation, direction, bytes, rank, label, *mail, group.local_of[static_cast<std::size_t>(peer.value)]);
  return start(transfer, options);
}

Request Communicator::send(std::span<const std::byte> bytes, Rank to, std::uint32_t tag, const CallOptions& options) {
  // Fabric only reads what it sends.
  const std::span<std::byte> same(
      const_cast<std::byte*>(bytes.data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      bytes.size());
  return impl_->transfer(Direction::send, same, to, tag, options);
}

Request Communicator::receive(std::span<std::byte> bytes, Rank from, std::uint32_t tag, const CallOptions& options) {
  return impl_->transfer(Direction::receive, bytes, from, tag, options);
}

Request Communicator::receive_any(std::span<std::byte> bytes, std::uint32_t tag, std::function<void(Rank)> found,
                                  const CallOptions& options) {
  impl_->require_host_memory("a message between two ranks", bytes.data());
  require(size() > 1, "a single rank receives from itself");
  require(tag <= kMostTag, "tag {} is above {}", tag, kMostTag);
  AnyReceive& receive =
      take(impl_->any_receives, [&] { return std::make_unique<AnyReceive>(impl_->group, *impl_->mail); });
  receive.begin(bytes, tag, std::move(found));
  return impl_->start(receive, options);
}

Request Communicator::barrier(const CallOptions& options) {
  return impl_->start("barrier", std::move(impl_->problem(Collective::barrier, DataType::byte)), impl_->call_of({}, {}),
                      options);
}

Request Communicator::broadcast(Vector values, Rank root, const CallOptions& options) {
  check_root("broadcast", root, size());
  Problem& problem = impl_->problem(Collective::broadcast, values.type());
  problem.root = root.value;
  problem.count = values.count();
  return impl_->start("broadcast", std::move(problem), impl_->call_of(values, values), options);
}

Request Communicator::reduce(ConstVector values, Vector result, Rank root, const CallOptions& options) {
  check_root("reduce", root, size());
  check_reduction(values.type(), options.reduction);
  check_same_type("reduce", values, result);
  if (root == rank()) check_count("reduce", "the result has", result.count(), values.count());
  Problem& problem = impl_->problem(Collective::reduce, values.type());
  problem.root = root.value;
  problem.count = values.count();
  return impl_->start_reduction("reduce", std::move(problem), impl_->call_of(values, result), size(), options);
}

Request Communicator::all_reduce(ConstVector values, Vector result, const CallOptions& options) {
  check_reduction(values.type(), options.reduction);
  check_same_type("all-reduce", values, result);
  check_count("all-reduce", "the result has", result.count(), values.count());
  Problem& problem = impl_->problem(Collective::all_reduce, values.type());
  problem.count = values.count();
  return impl_->start_reduction("all-reduce", std::move(problem), impl_->call_of(values, result), size(), options);
}

Request Communicator::all_reduce(const Leaves& leaves, std::span<const ConstVector> partials, Vector result,
                                 const CallOptions& options) {
  check_reduction(result.type(), options.reduction);
  impl_->describe_sum("all-reduce", leaves, partials, result.count(), result);
  auto& [problem, call] = impl_->last;
  return impl_->start_reduction("all-reduce", std::move(problem), call, leaves.count, options);
}

Request Communicator::reduce_scatter(const Leaves& leaves, std::span<const ConstVector> partials, Vector result,
                                     std::span<const std::size_t> counts, const CallOptions& options) {
  check_reduction(result.type(), options.reduction);
  require(counts.size() == impl_->group.members.size(), "reduce-scatter: {} counts for {} ranks", counts.size(),
          size());
  check_count("reduce-scatter", "the result has", result.count(), counts[impl_->place()]);
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  impl_->describe_sum("reduce-scatter", leaves, partials, total, result);
  auto& [problem, call] = impl_->last;
  problem.collective = Collective::reduce_scatter;
  problem.count = 0;
  problem.counts.assign(counts.begin(), counts.end());
  return impl_->start_reduction("reduce-scatter", std::move(problem), call, leaves.count, options);
}

Request Communicator::reduce_scatter(ConstVector values, Vector result, std::span<const std::size_t> counts,
                                     const CallOptions& options) {
  check_reduction(values.type(), options.reduction);
  check_same_type("reduce-scatter", values, result);
  Problem& problem = impl_->problem(Collective::reduce_scatter, values.type());
  set_counts(problem.counts, "reduce-scatter", counts, size(), values.count());
  check_count("reduce-scatter", "the input has", values.count(), total_of(problem.counts));
  check_count("reduce-scatter", "the result has", result.count(), problem.counts[impl_->place()]);
  return impl_->start_reduction("reduce-scatter", std::move(problem), impl_->call_of(values, result), size(), options);
}

Request Communicator::all_gather(ConstVector values, Vector result, std::span<const std::size_t> counts,
                                 const CallOptions& options) {
  check_same_type("all-gather", values, result);
  Problem& problem = impl_->problem(Collective::all_gather, result.type());
  set_counts(problem.counts, "all-gather", counts, size(), result.count());
  check_count("all-gather", "the result has", result.count(), total_of(problem.counts));
  check_count("all-gather", "the input has", values.count(), problem.counts[impl_->place()]);
  return impl_->start("all-gather", std::move(problem), impl_->call_of(values, result), options);
}

Request Communicator::all_to_all(ConstVector values, Vector result, std::span<const std::size_t> send_counts,
                                 std::span<const std::size_t> receive_counts, const CallOptions& options) {
  check_same_type("all-to-all", values, result);
  Problem& problem = impl_->problem(Collective::all_to_all, result.type());
  set_counts(problem.send_counts, "all-to-all", send_counts, size(), values.count());
  set_counts(problem.receive_counts, "all-to-all", receive_counts, size(), result.count());
  check_count("all-to-all", "the input has", values.count(), total_of(problem.send_counts));
  check_count("all-to-all", "the result has", result.count(), total_of(problem.receive_counts));
  require(
      !overlap(values, result) || (values.data() == result.data() && problem.send_counts == problem.receive_counts),
      "all-to-all in place: rank {} would overwrite what it has not sent yet, because it sends other counts than it "
      "receives, or the result begins elsewhere than the values: use separate memory for the result",
      rank());
  if (send_counts.empty() && receive_counts.empty()) problem.count = problem.send_counts[0];
  return impl_->start("all-to-all", std::move(problem), impl_->call_of(values, result), options);
}

Request Communicator::gather(ConstVector values, Vector result, Rank root, std::span<const std::size_t> counts,
                             const CallOptions& options) {
  check_root("gather", root, size());
  check_same_type("gather", values, result);
  Problem& problem = impl_->problem(Collective::gather, values.type());
  problem.root = root.value;
  set_counts(problem.counts, "gather", counts, size(), values.count() * static_cast<std::size_t>(size()));
  check_count("gather", "the input has", values.count(), problem.counts[impl_->place()]);
  if (root == rank()) check_count("gather", "the result has", result.count(), total_of(problem.counts));
  return impl_->start("gather", std::move(problem), impl_->call_of(values, result), options);
}

Request Communicator::scatter(ConstVector values, Vector result, Rank root, std::span<const std::size_t> counts,
                              const CallOptions& options) {
  check_root("scatter", root, size());
  check_same_type("scatter", values, result);
  Problem& problem = impl_->problem(Collective::scatter, result.type());
  problem.root = root.value;
  set_counts(problem.counts, "scatter", counts, size(), result.count() * static_cast<std::size_t>(size()));
  check_count("scatter", "the result has", result.count(), problem.counts[impl_->place()]);
  if (root == rank()) check_count("scatter", "the input has", values.count(), total_of(problem.counts));
  return impl_->start("scatter", std::move(problem), impl_->call_of(values, result), options);
}

std::vector<std::string> Communicator::all_gather_strings(const std::string& mine,
                                                          std::optional<Clock::duration> timeout) {
  CallOptions options;
  options.timeout = timeout;
  return all_gather_strings(mine, options, [](Request& request) { request.wait(); });
}

std::vector<std::string> Communicator::all_gather_strings(const std::string& mine, const CallOptions& options,
                                                          const std::function<void(Request&)>& wait) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size()));
  const auto own = static_cast<std::int64_t>(mine.size());
  const auto finish = [&](Request request) { wait(request); };
  finish(all_gather(std::span(&own, 1), lengths, {}, options));
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::string together(total_of(counts), '\0');
  finish(all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(together)), counts, options));
  std::vector<std::string> all;
  all.reserve(counts.size());
  std::size_t first = 0;
  for (std::size_t count : counts) all.push_back(together.substr(std::exchange(first, first + count), count));
  return all;
}

}  // namespace distdl::comm
