// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/log.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/comm/communicator_impl.hpp>

namespace distdl::comm {
namespace {

Milliseconds milliseconds(double seconds) {
  return Milliseconds(static_cast<Milliseconds::rep>(seconds * 1000));
}

void check(const Options& options) {
  constexpr double kMost = 1e6;  // seconds
  for (auto [key, seconds] : {std::pair("comm.timeout_seconds", options.timeout_seconds),
                              std::pair("comm.connect_timeout_seconds", options.connect_timeout_seconds)})
    require(seconds > 0 && seconds <= kMost, "{} is {}, but must be above 0 and at most {}", key, seconds, kMost);
}

/// Opens the endpoints to all peers.
void greet_all(Fabric& fabric, Clock::duration timeout) {
  Batch batch(fabric);
  for (int r = 0; r < fabric.size(); ++r) {
    if (Rank(r) == fabric.rank()) continue;
    fabric.receive(batch, {}, Rank(r), {});
    fabric.send(batch, {}, Rank(r), {});
  }
  fabric.wait(batch, {"greeting", 0}, timeout);
}

}  // namespace

std::unique_ptr<Communicator> Communicator::connect(world::World& world, const Options& options) {
  check(options);
  const Deadline deadline = Deadline::after(milliseconds(options.connect_timeout_seconds));
  auto impl = std::make_unique<Impl>(options);
  const std::string card = encode(impl->fabric.card(world.rank()));
  std::vector<PeerCard> cards;
  for (const auto& bytes : world.exchange(card, milliseconds(options.connect_timeout_seconds)))
    cards.push_back(decode_card(bytes));
  impl->fabric.connect(world.rank(), std::move(cards));
  greet_all(impl->fabric, deadline.remaining());
  std::unique_ptr<Communicator> communicator(new Communicator(std::move(impl)));
  log(Severity::debug, "connected: {}, {}", world.description(), communicator->description());
  return communicator;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

Rank Communicator::rank() const noexcept {
  return impl_->fabric.rank();
}
int Communicator::size() const noexcept {
  return impl_->fabric.size();
}

const std::string& Communicator::host(Rank rank) const {
  return impl_->fabric.card_of(rank).host;
}

std::vector<Rank> Communicator::ranks_on_host_of(Rank rank) const {
  std::vector<Rank> ranks;
  for (int r = 0; r < size(); ++r)
    if (host(Rank(r)) == host(rank)) ranks.push_back(Rank(r));
  return ranks;
}

std::string Communicator::description() const {
  const Fabric& fabric = impl_->fabric;
  std::string near, far;
  for (int r = 0; r < size(); ++r) {
    if (Rank(r) == rank()) continue;
    std::string& lanes = host(Rank(r)) == host(rank()) ? near : far;
    if (lanes.empty()) lanes = fabric.lanes_to(Rank(r));
  }
  return fmt::format("UCX: {} ranks, generation {}{}{}{}{}", size(), fabric.card_of(rank()).generation,
                     near.empty() ? "" : ", within this host ", near, far.empty() ? "" : ", to other hosts ", far);
}

void Communicator::abort(const std::string& reason, ExitCode code) noexcept {
  impl_->fabric.abort(reason, code);
}
void Communicator::close() {
  impl_->fabric.close();
}

void run_connected(world::World& world, const Options& options, const std::function<void(Communicator&)>& body) {
  const auto communicator = Communicator::connect(world, options);
  try {
    body(*communicator);
    communicator->close();
  } catch (const std::exception& error) {
    communicator->abort(error.what(), exit_code_of(error));
    throw;
  }
}

}  // namespace distdl::comm
