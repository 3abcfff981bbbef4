// SPDX-License-Identifier: Apache-2.0
// Notices: how ranks tell each other, beside the data, who is lost and whom they wait for.
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/comm/fabric.hpp>

namespace distdl::comm {
namespace {
constexpr Milliseconds kFarewell{300};
}

void Fabric::listen() {
  inbox_text_.assign(kLongestNotice, '\0');
  receive(inbox_, std::as_writable_bytes(std::span(inbox_text_)), self_, Channel::notice, 0, 0);
}

void Fabric::read_notices() {
  while (inbox_.done() && !inbox_.transfers_.empty()) {
    const auto arrived = inbox_.transfers_.front();
    inbox_.transfers_.clear();
    if (arrived.status == UCS_OK) handle(decode_notice(std::string_view(inbox_text_).substr(0, arrived.received)));
    listen();
  }
}

void Fabric::handle(const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::stopped:
      mark_lost(notice.subject, Evidence::certain,
                notice.subject == self_ ? "the other ranks gave this rank up: " + notice.text : notice.text,
                notice.code);
      return;
    case Notice::Kind::waiting:
      peers_.at(notice.sender.value).answer = notice;
      return;
    case Notice::Kind::ask: {
      if (!waiting_.batch) return;
      const auto ranks = awaited(*waiting_.batch);
      if (!ranks.empty())
        tell(notice.sender, {Notice::Kind::waiting, self_, ranks.front(), to_string(*waiting_.operation)});
    }
  }
}

void Fabric::tell(Rank rank, const Notice& notice) {
  if (outbox_.done()) {
    outbox_.transfers_.clear();
    sent_text_.clear();
  }
  const std::string& text = sent_text_.emplace_back(encode(notice));
  send(outbox_, std::as_bytes(std::span(text)), rank, Channel::notice, 0, 0);
}

void Fabric::tell_all(Rank subject, const std::string& why, ExitCode code) noexcept {
  if (std::exchange(told_, true)) return;
  try {
    for (const Peer& peer : peers_)
      if (peer.rank != self_ && !is_lost(peer.rank))
        tell(peer.rank, {Notice::Kind::stopped, self_, subject, why, code});
  } catch (const std::exception& error) {
    log(Severity::warning, "cannot tell the other ranks of the loss: {}", error.what());
  }
  drain(outbox_, kFarewell);
  flush(kFarewell);
}

void Fabric::abort(const std::string& reason, ExitCode code) noexcept {
  if (!worker_ || std::exchange(closed_, true)) return;
  tell_all(self_, fmt::format("{} stopped: {}", name(self_), reason), code);
  force_close_all();
}

}  // namespace distdl::comm
