// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/ranges.h>

#include <distdl/app/bench/comm_operation.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
constexpr std::array kOperationNames = {"barrier",    "broadcast",  "reduce", "all_reduce", "reduce_scatter",
                                        "all_gather", "all_to_all", "gather", "scatter",    "send_receive"};
constexpr double kBlockSeconds = 200e-6;  // long against the clock, short against the scheduler's slices
constexpr int kMostBlocks = 500;
constexpr std::uint32_t kOperationTag = 77;

bool is_sliced(Operation operation) {
  return operation >= Operation::reduce_scatter && operation <= Operation::scatter;
}

/// Element i of rank r: small, so that sums are exact in most types.
int pattern(int rank, std::size_t i) {
  return static_cast<int>((i + static_cast<std::size_t>(rank)) % 5);
}

/// The numbers 0 to 4 in 16 bits: IEEE half precision, and the upper half of single precision.
constexpr std::array<std::uint16_t, 5> kHalf = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
constexpr std::array<std::uint16_t, 5> kBrain = {0, 0x3f80, 0x4000, 0x4040, 0x4080};

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void store(comm::DataType type, std::byte* at, int number) {
  switch (type) {
    case comm::DataType::byte:
      return put(at, static_cast<std::uint8_t>(number));
    case comm::DataType::float32:
      return put(at, static_cast<float>(number));
    case comm::DataType::float64:
      return put(at, static_cast<double>(number));
    case comm::DataType::float16:
      return put(at, kHalf[static_cast<std::size_t>(number)]);
    case comm::DataType::bfloat16:
      return put(at, kBrain[static_cast<std::size_t>(number)]);
    case comm::DataType::int32:
      return put(at, std::int32_t{number});
    case comm::DataType::int64:
      return put(at, std::int64_t{number});
    default:
      break;  // not offered
  }
}

double half(std::uint16_t bits) {  // of a number that is not negative
  const int exponent = bits >> 10, mantissa = bits & 0x3ff;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
}

double load(comm::DataType type, const std::byte* at) {
  switch (type) {
    case comm::DataType::byte:
      return get<std::uint8_t>(at);
    case comm::DataType::float32:
      return get<float>(at);
    case comm::DataType::float64:
      return get<double>(at);
    case comm::DataType::float16:
      return half(get<std::uint16_t>(at));
    case comm::DataType::bfloat16: {
      std::array<std::uint16_t, 2> words{0, get<std::uint16_t>(at)};
      float value;
      std::memcpy(&value, words.data(), sizeof value);
      return value;
    }
    case comm::DataType::int32:
      return get<std::int32_t>(at);
    case comm::DataType::int64:
      return static_cast<double>(get<std::int64_t>(at));
    default:
      break;
  }
  return std::nan("");
}

/// Relative error that rounding after each of `additions` may leave.
double tolerance(comm::DataType type, int additions) {
  if (type == comm::DataType::float16) return additions * 0x1p-11;
  return type == comm::DataType::bfloat16 ? additions * 0x1p-8 : 0;
}
}  // namespace

std::string_view name_of(Operation operation) {
  return kOperationNames[static_cast<std::size_t>(operation)];
}

std::vector<std::string> operation_names() {
  return {kOperationNames.begin(), kOperationNames.end()};
}

Operation operation_of(std::string_view name) {
  const auto* const found = std::find(kOperationNames.begin(), kOperationNames.end(), name);
  require<UsageError>(found != kOperationNames.end(), "there is no operation \"{}\", only {}", name,
                      fmt::join(kOperationNames, ", "));
  return static_cast<Operation>(found - kOperationNames.begin());
}

double bus_factor(Operation operation, int ranks) {
  const double part = (ranks - 1.0) / ranks;
  switch (operation) {
    case Operation::all_reduce:
      return 2 * part;
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
      return part;
    default:
      return 1;
  }
}

double memory_traffic(Operation operation, int ranks) {
  const double part = (ranks - 1.0) / ranks;
  switch (operation) {
    case Operation::all_reduce:
      return 2 * ranks;
    case Operation::reduce:
    case Operation::reduce_scatter:
      return ranks + 1;
    case Operation::broadcast:
    case Operation::all_gather:
      return ranks;
    case Operation::all_to_all:
      return 2 * ranks;
    case Operation::gather:
    case Operation::scatter:
      return 2 * part;
    default:
      return 2;
  }
}

double network_traffic(Operation operation, int ranks, int local) {
  const double nodes = static_cast<double>(ranks) / local, part = (nodes - 1) / nodes;
  switch (operation) {
    case Operation::all_reduce:
      return 2 * part;
    case Operation::all_to_all:
      return local * part;
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter:
      return part;
    default:
      return 1;
  }
}

Workspace::Workspace(comm::Communicator& communicator, std::size_t bytes)
    : values(communicator.allocate(std::max<std::size_t>(bytes, 64))),
      others(communicator.allocate(std::max<std::size_t>(bytes, 64))) {
  std::memset(values.data(), 0, values.bytes());
  std::memset(others.data(), 0, others.bytes());
}

OperationRun::OperationRun(comm::Communicator& communicator, Workspace& workspace, Operation operation,
                           comm::DataType type, std::size_t bytes, const comm::CallOptions& options)
    : communicator_(communicator),
      workspace_(workspace),
      operation_(operation),
      type_(type),
      count_(operation == Operation::barrier ? 0 : bytes / comm::size_of(type)),
      slice_(count_ / static_cast<std::size_t>(communicator.size())),
      options_(options) {
  if (is_sliced(operation)) count_ = slice_ * static_cast<std::size_t>(communicator.size());
}

comm::Vector OperationRun::own() const {
  const auto first = static_cast<std::size_t>(communicator_.rank().value) * slice_ * comm::size_of(type_);
  return {static_cast<std::byte*>(workspace_.values.data()) + first, slice_, type_};
}

void OperationRun::call() {
  const bool root = communicator_.rank() == Rank(0);
  switch (operation_) {
    case Operation::barrier:
      return communicator_.barrier(options_).wait();
    case Operation::broadcast:
      return communicator_.broadcast(all(), Rank(0), options_).wait();
    case Operation::reduce:
      return communicator_.reduce(all(), root ? all() : none(), Rank(0), options_).wait();
    case Operation::all_reduce:
      return communicator_.all_reduce(all(), options_).wait();
    case Operation::reduce_scatter:
      return communicator_.reduce_scatter(all(), own(), {}, options_).wait();
    case Operation::all_gather:
      return communicator_.all_gather(own(), all(), {}, options_).wait();
    case Operation::all_to_all:
      return communicator_.all_to_all(others(), all(), {}, {}, options_).wait();
    case Operation::gather:
      return communicator_.gather(own(), root ? all() : none(), Rank(0), {}, options_).wait();
    case Operation::scatter:
      return communicator_.scatter(root ? all() : none(), own(), Rank(0), {}, options_).wait();
    case Operation::send_receive:
      return there_and_back();
  }
}

void OperationRun::there_and_back() {
  const Rank first(0), last(communicator_.size() - 1);
  const std::span bytes(static_cast<std::byte*>(workspace_.values.data()), this->bytes());
  if (communicator_.rank() == first) {
    communicator_.send(bytes, last, kOperationTag).wait();
    communicator_.receive(bytes, last, kOperationTag).wait();
  } else if (communicator_.rank() == last) {
    communicator_.receive(bytes, first, kOperationTag).wait();
    communicator_.send(bytes, first, kOperationTag).wait();
  }
}

std::optional<double> OperationRun::expected(std::size_t i) const {
  const int self = communicator_.rank().value, ranks = communicator_.size();
  const bool root = self == 0;
  const auto sum = [&] {
    double total = 0;
    for (int r = 0; r < ranks; ++r) total += pattern(r, i);
    return total;
  };
  const auto owner = [&] { return static_cast<int>(i / slice_); };
  switch (operation_) {
    case Operation::broadcast:
      return pattern(0, i);
    case Operation::reduce:
      return root ? std::optional(sum()) : std::nullopt;
    case Operation::all_reduce:
      return sum();
    case Operation::reduce_scatter:
      return owner() == self ? std::optional(sum()) : std::nullopt;
    case Operation::all_gather:
      return pattern(owner(), i);
    case Operation::all_to_all:
      return pattern(owner(), i % slice_ + static_cast<std::size_t>(self) * slice_);
    case Operation::gather:
      return root ? std::optional<double>(pattern(owner(), i)) : std::nullopt;
    case Operation::scatter:
      return owner() == self ? std::optional<double>(pattern(0, i)) : std::nullopt;
    case Operation::send_receive:
      return root || self == ranks - 1 ? std::optional<double>(pattern(0, i)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool OperationRun::is_right() {
  const std::size_t element = comm::size_of(type_);
  auto* values = static_cast<std::byte*>(workspace_.values.data());
  auto* others = static_cast<std::byte*>(workspace_.others.data());
  const int self = communicator_.rank().value;
  for (std::size_t i = 0; i < count_; ++i) {
    store(type_, values + i * element, pattern(self, i));
    store(type_, others + i * element, pattern(self, i));
  }
  communicator_.barrier().wait();
  call();
  choice_ = communicator_.last_choice();
  const double allowed = tolerance(type_, communicator_.size());
  double wrong = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (const auto want = expected(i))
      wrong += std::abs(load(type_, values + i * element) - *want) > allowed * *want ? 1 : 0;
  communicator_.barrier().wait();  // the others may still read it
  std::memset(values, 0, bytes());
  std::memset(others, 0, bytes());
  communicator_.all_reduce(comm::Vector(&wrong, 1, comm::DataType::float64)).wait();
  return wrong == 0;
}

double OperationRun::block(int calls) {
  communicator_.barrier().wait();
  const Stopwatch watch;
  for (int i = 0; i < calls; ++i) call();
  return watch.seconds();
}

std::vector<double> OperationRun::measure(double seconds) {
  block(1);
  int calls = 1;
  double taken = 0;
  for (;; calls *= 2) {
    taken = block(calls);
    communicator_.all_reduce(comm::Vector(&taken, 1, comm::DataType::float64), {.reduction = comm::Reduction::maximum})
        .wait();
    if (taken >= kBlockSeconds) break;
  }
  const int blocks = std::clamp(static_cast<int>(seconds / taken), 3, kMostBlocks);
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(blocks));
  const double trips = operation_ == Operation::send_receive ? 2 : 1;
  for (int i = 0; i < blocks; ++i) times.push_back(block(calls) / calls / trips);
  communicator_.all_reduce(comm::Vector(times), {.reduction = comm::Reduction::maximum}).wait();
  return times;
}

}  // namespace distdl::app
