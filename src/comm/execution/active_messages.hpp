// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/comm/execution/envelope.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// Messages for a handler instead of a posted receive. A rank must construct this object before it receives any. A
/// fabric has at most one, which must be destroyed before it. Handlers run in waits and polls, one at a time, in the
/// order in which one sender sent. They may start transfers and activities, but must not wait. An exception of a
/// handler ends all activities.
class ActiveMessages final : public Activity {
 public:
  using Handler =
      std::function<void(Rank from, std::string_view header,
                         std::span<const std::byte> payload)>;  // the arguments are valid only during the call
  static constexpr std::size_t kLongestHeader = comm::kLongestHeader;

  explicit ActiveMessages(Fabric& fabric);
  ~ActiveMessages() override;
  ActiveMessages(const ActiveMessages&) = delete;
  ActiveMessages& operator=(const ActiveMessages&) = delete;

  /// Sets the handler of messages with this number; an empty one removes it.
  void handle(std::uint16_t number, Handler handler);
  /// Short payloads are sent at once; long ones when the receiver fetches them. When the transfer is done, `payload`
  /// may be reused.
  void send(Batch& batch, Rank to, std::uint16_t number, std::string_view header, std::span<const std::byte> payload);

  bool advance() override;
  void add_awaited(std::vector<Rank>& /*ranks*/) const override {}
  Operation operation() const override { return {"active messages", 0}; }
  std::uint64_t steps() const override { return handled_; }
  void cancel() noexcept override;

 private:
  struct Incoming {
    Envelope envelope{};
    std::string header{};
    std::shared_ptr<std::vector<std::byte>> payload{};
    std::size_t size = 0;        ///< bytes of a long payload
    void* descriptor = nullptr;  ///< a long payload that is still at the sender
    void* request = nullptr;     ///< the request that fetches it
    bool trusted = false;
  };
  static ucs_status_t on_message(void* argument, const void* header, std::size_t header_size, void* data,
                                 std::size_t size, const ucp_am_recv_param_t* param);
  bool trust(const Incoming& incoming);
  enum class Payload { here, on_its_way, gone };
  Payload fetch(Incoming& incoming);
  Payload arrived(ucs_status_t status, Rank from) const;
  void drop(Incoming& incoming) noexcept;
  void deliver(Incoming incoming);

  Fabric& fabric_;
  std::map<std::uint16_t, Handler> handlers_;
  std::map<Rank, std::deque<Incoming>> incoming_;  ///< by sender
  std::shared_ptr<std::vector<std::byte>> spare_;  ///< memory of a handled long message: its pages are there
  std::uint64_t handled_ = 0;
};

}  // namespace distdl::comm
