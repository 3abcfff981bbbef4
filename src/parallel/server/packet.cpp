// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/packet.hpp>

namespace distdl::parallel::server {
namespace {

/// Calls each(field) for all fields of a message, in the order in which they are sent.
template <class Each>
void visit_fields(Lead& m, Each&& each) {
  each(m.leadership), each(m.round);
}
template <class Each>
void visit_fields(LeaseId& m, Each&& each) {
  each(m.leadership), each(m.number);
}
template <class Each>
void visit_fields(Directory& m, Each&& each) {
  each(m.leadership), each(m.edition), each(m.primaries);
}
template <class Each>
void visit_fields(Holders& m, Each&& each) {
  each(m.primary), each(m.partner), each(m.term);
}
template <class Each>
void visit_fields(Ask& m, Each&& each) {
  each(m.lease), each(m.microbatch), each(m.phase), each(m.is_done);
}
template <class Each>
void visit_fields(Lease& m, Each&& each) {
  each(m.id), each(m.microbatch), each(m.directory);
}
template <class Each>
void visit_fields(Finish& m, Each&& each) {
  each(m.leadership), each(m.steps);
}
template <class Each>
void visit_fields(End& /*m*/, Each&& /*each*/) {}
template <class Each>
void visit_fields(EndsEarly& /*m*/, Each&& /*each*/) {}
template <class Each>
void visit_fields(Ended& /*m*/, Each&& /*each*/) {}
template <class Each>
void visit_fields(AllEnded& /*m*/, Each&& /*each*/) {}
template <class Each>
void visit_fields(Pull& m, Each&& each) {
  each(m.range), each(m.lease), each(m.microbatch), each(m.piece), each(m.version);
}
template <class Each>
void visit_fields(Pulled& m, Each&& each) {
  each(m.range), each(m.lease), each(m.piece), each(m.version), each(m.complete), each(m.is_there);
}
template <class Each>
void visit_fields(Push& m, Each&& each) {
  each(m.range), each(m.lease), each(m.microbatch), each(m.version), each(m.complete);
}
template <class Each>
void visit_fields(Pushed& m, Each&& each) {
  each(m.range), each(m.microbatch);
}
template <class Each>
void visit_fields(Replicate& m, Each&& each) {
  each(m.range), each(m.term), each(m.position), each(m.microbatch), each(m.version);
}
template <class Each>
void visit_fields(RangeState& m, Each&& each) {
  each(m.committed), each(m.versions), each(m.complete);
}
template <class Each>
void visit_fields(Copy& m, Each&& each) {
  each(m.range), each(m.term), each(m.state);
}
template <class Each>
void visit_fields(Replicated& m, Each&& each) {
  each(m.range), each(m.term), each(m.updates);
}
template <class Each>
void visit_fields(Assign& m, Each&& each) {
  each(m.leadership), each(m.range), each(m.holders);
}
template <class Each>
void visit_fields(Holding& m, Each&& each) {
  each(m.range), each(m.term), each(m.is_copied);
}
template <class Each>
void visit_fields(Inventory::Held& m, Each&& each) {
  each(m.range), each(m.term), each(m.is_primary), each(m.partner), each(m.is_copied), each(m.committed);
}
template <class Each>
void visit_fields(Inventory& m, Each&& each) {
  each(m.leadership), each(m.round), each(m.ranges);
}

/// Whether a value is sent as its bytes.
template <class Value>
constexpr bool kIsPlain = std::is_scalar_v<Value>;
template <class Tag, class Value>
constexpr bool kIsPlain<StrongId<Tag, Value>> = true;
template <>
constexpr bool kIsPlain<Tail> = true;

class Writer {
 public:
  template <class Value>
  void operator()(Value& value) {
    if constexpr (kIsPlain<Value>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      visit_fields(value, *this);
  }
  template <class Value>
  void operator()(std::optional<Value>& value) {
    bool is_there = value.has_value();
    (*this)(is_there);
    if (value) (*this)(*value);
  }
  template <class Value>
  void operator()(std::vector<Value>& values) {
    auto count = static_cast<std::uint32_t>(values.size());
    (*this)(count);
    for (Value& value : values) (*this)(value);
  }
  void operator()(MicrobatchSet& set) {
    Microbatch below = set.below();
    std::vector<Microbatch> beyond(set.beyond().begin(), set.beyond().end());
    (*this)(below);
    (*this)(beyond);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  template <class Value>
  void operator()(Value& value) {
    if constexpr (kIsPlain<Value>) {
      require_bytes(sizeof value);
      if constexpr (std::is_same_v<Value, bool>)
        require<CommError>(static_cast<unsigned char>(left_.front()) <= 1, "{}",
                           "a message of the parameter server has a byte that is neither true nor false");
      std::memcpy(&value, left_.data(), sizeof value);
      left_.remove_prefix(sizeof value);
    } else {
      visit_fields(value, *this);
    }
  }
  template <class Value>
  void operator()(std::optional<Value>& value) {
    bool is_there = false;
    (*this)(is_there);
    if (is_there) (*this)(value.emplace());
  }
  template <class Value>
  void operator()(std::vector<Value>& values) {
    std::uint32_t count = 0;
    (*this)(count);
    require_bytes(count);  // each takes one at least
    values.resize(count);
    for (Value& value : values) (*this)(value);
  }
  void operator()(MicrobatchSet& set) {
    Microbatch below;
    std::vector<Microbatch> beyond;
    (*this)(below);
    (*this)(beyond);
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 2;  // further values do not overflow it
    require<CommError>(below.value >= 0 && below.value <= kMost, "{}",
                       "a message of the parameter server has a ledger that is not possible");
    set = MicrobatchSet(below);
    for (const Microbatch one : beyond) set.add(one);
  }
  void end() const {
    require<CommError>(left_.empty(), "a message of the parameter server has {} bytes too many", left_.size());
  }

 private:
  void require_bytes(std::size_t bytes) const {
    require<CommError>(left_.size() >= bytes, "{}", "a message of the parameter server is too short");
  }
  std::string_view left_;
};

template <std::size_t Index = 0>
Message message_of_kind(std::size_t kind) {
  if constexpr (Index < std::variant_size_v<Message>) {
    if (kind == Index) return Message(std::in_place_index<Index>);
    return message_of_kind<Index + 1>(kind);
  }
  throw CommError(fmt::format("a message of the parameter server is of the unknown kind {}", kind));
}

bool is_answer(const Message& message) {
  return std::holds_alternative<Pulled>(message);
}
bool has_tail(const Message& message) {
  return std::holds_alternative<Push>(message) || std::holds_alternative<Replicate>(message);
}
}  // namespace

std::string encode(const Packet& packet) {
  Packet copy = packet;
  Writer writer;
  auto kind = static_cast<std::uint8_t>(copy.message.index());
  writer(kind);
  writer(copy.round);
  writer(copy.from);
  writer(copy.to);
  if (has_tail(copy.message)) writer(copy.tail);
  if (is_answer(copy.message)) {
    writer(copy.idle_seconds);
    writer(copy.place);
  }
  std::visit([&](auto& message) { visit_fields(message, writer); }, copy.message);
  return writer.take();
}

Packet decode(std::string_view bytes) {
  Reader reader(bytes);
  Packet packet;
  std::uint8_t kind = 0;
  reader(kind);
  packet.message = message_of_kind(kind);
  reader(packet.round);
  reader(packet.from);
  reader(packet.to);
  if (has_tail(packet.message)) reader(packet.tail);
  if (is_answer(packet.message)) {
    reader(packet.idle_seconds);
    reader(packet.place);
  }
  std::visit([&](auto& message) { visit_fields(message, reader); }, packet.message);
  reader.end();
  return packet;
}

}  // namespace distdl::parallel::server
