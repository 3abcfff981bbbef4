// SPDX-License-Identifier: Apache-2.0
// What one rank does without a call of the other: put, get, messages to handlers.
#include <distdl/base/errors.hpp>
#include <distdl/comm/execution/communicator_impl.hpp>
#include <distdl/comm/execution/window.hpp>

namespace distdl::comm {

struct RemoteMemory::Impl {
  Impl(Communicator::Impl& the_owner, std::span<std::byte> memory)
      : owner(the_owner), window(*the_owner.fabric, memory) {}

  Rank member(Rank rank) const { return owner.member(rank); }
  Request start(const char* name, auto add) {
    Transfer& transfer = owner.idle_transfer();
    add(transfer.begin({name, 0}));
    return owner.start(transfer, {});
  }

  Communicator::Impl& owner;
  Window window;
};

RemoteMemory::RemoteMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RemoteMemory::RemoteMemory(RemoteMemory&&) noexcept = default;
RemoteMemory& RemoteMemory::operator=(RemoteMemory&&) noexcept = default;
RemoteMemory::~RemoteMemory() = default;

std::size_t RemoteMemory::size_of(Rank rank) const {
  return impl_->window.size_of(impl_->member(rank));
}

Request RemoteMemory::put(std::span<const std::byte> bytes, Rank to, std::size_t offset) {
  impl_->owner.require_host_memory("the source of a put", bytes.data());
  return impl_->start("put", [&](Batch& batch) { impl_->window.put(batch, bytes, impl_->member(to), offset); });
}

Request RemoteMemory::get(std::span<std::byte> room, Rank from, std::size_t offset) {
  impl_->owner.require_host_memory("the target of a get", room.data());
  return impl_->start("get", [&](Batch& batch) { impl_->window.get(batch, room, impl_->member(from), offset); });
}

Request RemoteMemory::flush(Rank peer) {
  return impl_->start("flush", [&](Batch& batch) { impl_->window.flush(batch, impl_->member(peer)); });
}

RemoteMemory Communicator::expose(std::span<std::byte> memory) {
  impl_->require_host_memory("the exposed memory", memory.data());
  auto remote = std::make_unique<RemoteMemory::Impl>(*impl_, memory);
  // The window counts the ranks of the whole world; those outside this communicator expose nothing.
  const std::string nothing(2 * sizeof(std::uint64_t), '\0');
  std::vector<std::string> descriptions(static_cast<std::size_t>(impl_->fabric->size()), nothing);
  const auto all = all_gather_strings(remote->window.description());
  for (int r = 0; r < size(); ++r)
    descriptions[static_cast<std::size_t>(impl_->member(Rank(r)).value)] = all[static_cast<std::size_t>(r)];
  remote->window.connect(descriptions);
  return RemoteMemory(std::move(remote));
}

void Communicator::on_message(std::uint16_t number, MessageHandler handler) {
  impl_->active_messages().handle(number, std::move(handler));
}

Request Communicator::send_message(Rank to, std::uint16_t number, std::string_view header,
                                   std::span<const std::byte> payload, const CallOptions& options) {
  impl_->require_host_memory("the payload of an active message", payload.data());
  Transfer& transfer = impl_->idle_transfer();
  impl_->active_messages().send(transfer.begin({"active message", number}), impl_->member(to), number, header, payload);
  return impl_->start(transfer, options);
}

void Communicator::await_messages(Clock::duration most) {
  impl_->fabric->await_messages(most);
}

void Communicator::tolerate(const std::vector<Rank>& ranks) {
  require(impl_->group.id == 0, "{}",
          "losses are tolerated by the communicator of the whole world, not by one that was split from it");
  for (const Rank rank : ranks) static_cast<void>(impl_->member(rank));
  impl_->fabric->tolerate({ranks.begin(), ranks.end()});
}

std::vector<Rank> Communicator::lost() const {
  return impl_->fabric->tolerated_losses();
}

void Communicator::wake() const noexcept {
  impl_->fabric->wake();
}

Clock::duration Communicator::timeout() const noexcept {
  return impl_->fabric->timeout();
}

ActiveMessages& Communicator::Impl::active_messages() {
  require(group.id == 0, "{}",
          "active messages need the communicator of the whole world, not one that was split from it");
  if (!messages) messages = std::make_unique<ActiveMessages>(*fabric);
  return *messages;
}

}  // namespace distdl::comm
