// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/comm/execution/mail.hpp>
#include <distdl/comm/execution/pending.hpp>

namespace distdl::comm {

enum class Direction { send, receive };

/// One message between two ranks.
class Transfer : public Request::Pending, private Letter {
 public:
  explicit Transfer(Fabric& fabric) : Pending(fabric), batch_(fabric), fabric_(fabric) {}

  /// For something by UCX that is no message between two ranks.
  Batch& begin(Operation operation) {
    operation_ = operation;
    mail_ = nullptr;
    message_ = {};
    return batch_;
  }
  /// Begins a message to a rank, which has the index `local` on this node or is on another one (-1), or from it.
  void begin(Operation operation, Direction direction, std::span<std::byte> message, Rank other, const Label& label,
             Mail& mail, int local) {
    operation_ = operation;
    rank_ = other;
    label_ = label;
    trace(direction, message.size());
    mail_ = mail.reaches(local) ? &mail : nullptr;
    if (!mail_)
      return direction == Direction::send ? fabric_.send(batch_, message, other, label)
                                          : fabric_.receive(batch_, message, other, label);
    peer = local;
    tag = label.number;
    bytes = message;
    if (direction == Direction::send) return mail.send(*this);
    if (!is_short()) fabric_.receive(batch_, message, other, label);
    mail.receive(*this);
  }
  void add_awaited(std::vector<Rank>& ranks) const override {
    if (mail_ && waits)
      ranks.push_back(rank_);
    else
      batch_.add_awaited(ranks);
  }
  Operation operation() const override { return operation_; }
  Span wait_span() const override {
    Span span = message_;
    span.name = operation_.name;
    span.kind = SpanKind::message_wait;
    return span;
  }
  bool polls() const override { return mail_ && waits && (is_short() || !receives); }
  void cancel() noexcept override {
    if (mail_) mail_->cancel(*this, batch_.done());
    fabric_.cancel(batch_);
  }

 protected:
  bool proceed() override {
    if (mail_ && waits) mail_->poll(peer);
    if (mail_ && receives && !waits && other_size) fabric_.refuse_size(operation_, rank_, *other_size, bytes.size());
    if (!batch_.done() || (mail_ && waits)) return false;
    fabric_.check(batch_, operation_);
    end_span(message_);
    return true;
  }

 private:
  /// Groups of collectives have other numbers.
  static constexpr std::uint16_t kUsers = 0x100;

  void trace(Direction direction, std::size_t size) {
    message_ = {.begin = begin_of_span(),
                .name = direction == Direction::send ? "send" : "receive",
                .bytes = size,
                .number = label_.number,
                .peer = rank_.value,
                .kind = direction == Direction::send ? SpanKind::send : SpanKind::receive,
                .group = static_cast<std::uint16_t>(kUsers | label_.communicator)};
  }
  void on_posted() override {
    if (!is_short()) fabric_.send(batch_, bytes, rank_, label_);
  }

  Batch batch_;
  Fabric& fabric_;
  Operation operation_;
  Mail* mail_ = nullptr;  ///< null for a message by UCX alone
  Rank rank_;
  Label label_;
  Span message_;  ///< for a trace; its end is not set
};

}  // namespace distdl::comm
