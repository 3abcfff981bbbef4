// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/train/ranks/stage_message.hpp>

namespace distdl::train {
namespace {
constexpr std::uint32_t kAnswers = 0x4000000;  ///< tag; plus the number of the sender's place
}  // namespace

std::span<std::byte> StageMessage::staging(std::size_t bytes) {
  if (staging_.bytes() < bytes) staging_ = backend_.allocate_staging(bytes);
  return {static_cast<std::byte*>(staging_.data()), bytes};
}

void StageMessage::use(CommonRoom& room, std::size_t bytes) {
  if (room.memory.empty()) return;
  room_ = room.memory;
  place_ = room_.subspan(room.next, bytes);
  location_ = {room.next, 0, room.places++};
  room.next += room_for(bytes);
}

std::size_t StageMessage::room_for(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

void StageMessage::settle() {
  if (place_.empty()) end();
}

void StageMessage::end() {
  if (!std::exchange(is_under_way_, false)) return;
  sent_.wait();
  answered_.wait();
}

void StageMessage::send(std::span<const std::byte> values, Rank to) {
  end();
  if (!room_.empty()) {
    assert(values.size() <= place_.size());
    if (backend_.memory_is_host())
      std::ranges::copy(values, place_.begin());
    else
      backend_.copy_to_host(place_.data(), values.data(), values.size());
    location_.bytes = values.size();
    sent_ = communicator_.send(std::as_bytes(std::span(&location_, 1)), to, tag_);
    answered_ = communicator_.receive(std::span(&answer_, 1), to, kAnswers + location_.place);
    is_under_way_ = true;
    return;
  }
  if (!backend_.memory_is_host()) {
    const auto copy = staging(values.size());
    backend_.copy_to_host(copy.data(), values.data(), values.size());
    values = copy;
  }
  sent_ = communicator_.send(values, to, tag_);
  is_under_way_ = true;
}

void StageMessage::receive_from_room(std::span<std::byte> values, Rank from) {
  static constexpr std::byte kReceived{1};
  Location location;
  communicator_.receive(std::as_writable_bytes(std::span(&location, 1)), from, tag_).wait();
  require<CommError>(
      location.bytes == values.size() && location.offset <= room_.size() &&
          location.bytes <= room_.size() - location.offset,
      "a message of rank {} of the pipeline has {} bytes at {} in their memory of {}, but {} were expected: "
      "run the same version on all ranks",
      from, location.bytes, location.offset, room_.size(), values.size());
  const auto there = room_.subspan(location.offset, location.bytes);
  if (backend_.memory_is_host())
    std::ranges::copy(there, values.begin());
  else
    backend_.copy_from_host(values.data(), there.data(), there.size());
  answers_.wait();
  answers_ = communicator_.send(std::span(&kReceived, 1), from, kAnswers + location.place);
}

void StageMessage::receive(std::span<std::byte> values, Rank from) {
  if (!room_.empty()) return receive_from_room(values, from);
  if (backend_.memory_is_host()) return communicator_.receive(values, from, tag_).wait();
  const auto copy = staging(values.size());
  communicator_.receive(copy, from, tag_).wait();
  backend_.copy_from_host(values.data(), copy.data(), copy.size());
}

}  // namespace distdl::train
