// SPDX-License-Identifier: Apache-2.0
// Windows and active messages.
#include <atomic>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/ucx/connected_fabrics.hpp"
#include "tests/comm/ucx/rogue.hpp"
#include <distdl/comm/execution/active_messages.hpp>
#include <distdl/comm/execution/window.hpp>

namespace distdl::comm {
namespace {
using ::testing::HasSubstr;

/// What Communicator does with all_gather.
std::vector<std::string> gather(Fabric& fabric, const std::string& mine, std::uint32_t number) {
  std::vector<std::string> all(fabric.size());
  std::vector<std::uint64_t> sizes(fabric.size(), mine.size());
  Batch lengths(fabric), texts(fabric);
  for (int r = 0; r < fabric.size(); ++r) {
    if (Rank(r) == fabric.rank()) continue;
    fabric.receive(lengths, room_of(sizes[r]), Rank(r), {.number = number});
    fabric.send(lengths, bytes_of(sizes[fabric.rank().value]), Rank(r), {.number = number});
  }
  fabric.wait(lengths, {"gather", number});
  for (int r = 0; r < fabric.size(); ++r) {
    all[r] = Rank(r) == fabric.rank() ? mine : std::string(sizes[r], '\0');
    if (Rank(r) == fabric.rank()) continue;
    fabric.receive(texts, std::as_writable_bytes(std::span(all[r])), Rank(r), {.number = number});
    fabric.send(texts, std::as_bytes(std::span(mine)), Rank(r), {.number = number});
  }
  fabric.wait(texts, {"gather", number});
  return all;
}

void meet(Fabric& fabric, std::uint32_t number) {
  gather(fabric, "x", number);
}

TEST(Window, PutThenFlushThenTellBringsTheBytes) {
  for (std::size_t count : {1, 1000, 300000})
    on_fabrics(3, [&](Fabric& fabric) {
      const int self = fabric.rank().value;
      std::vector<int> memory(3 * count, -1), mine(count, self);
      Window window(fabric, std::as_writable_bytes(std::span(memory)));
      window.connect(gather(fabric, window.description(), 1));
      EXPECT_EQ(window.size_of(Rank(2)), memory.size() * sizeof(int));
      Batch batch(fabric);
      for (int r = 0; r < 3; ++r) {
        window.put(batch, std::as_bytes(std::span(mine)), Rank(r), self * count * sizeof(int));
        window.flush(batch, Rank(r));
      }
      fabric.wait(batch, {"put", 2});
      meet(fabric, 3);
      for (std::size_t i = 0; i < memory.size(); ++i) ASSERT_EQ(memory[i], static_cast<int>(i / count)) << i;
      meet(fabric, 4);
      fabric.close();
    });
}

TEST(Window, GetBringsWhatTheOwnerWrote) {
  on_fabrics(3, [](Fabric& fabric) {
    constexpr std::size_t kCount = 100000;
    std::vector<int> memory(kCount), got(3 * kCount, -1);
    std::iota(memory.begin(), memory.end(), fabric.rank().value * 1000000);
    Window window(fabric, std::as_writable_bytes(std::span(memory)));
    window.connect(gather(fabric, window.description(), 1));
    Batch batch(fabric);
    for (int r = 0; r < 3; ++r)  // but for the first element
      window.get(batch, std::as_writable_bytes(std::span(got).subspan(r * kCount + 1, kCount - 1)), Rank(r),
                 sizeof(int));
    fabric.wait(batch, {"get", 2});
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(got[r * kCount], -1);
      for (std::size_t i = 1; i < kCount; ++i) ASSERT_EQ(got[r * kCount + i], r * 1000000 + static_cast<int>(i));
    }
    meet(fabric, 3);
    fabric.close();
  });
}

// The window's owner has never spoken with the one who puts.
TEST(Window, OpensTheEndpointByItself) {
  std::vector<std::string> addresses(2);
  std::atomic<int> ready = 0;
  std::atomic<bool> told = false;
  on_fabrics(2, [&](Fabric& fabric) {
    int memory = -1;
    Window window(fabric, room_of(memory));
    addresses[fabric.rank().value] = window.description();
    ++ready;
    while (ready < 2) std::this_thread::yield();
    window.connect(addresses);
    if (fabric.rank() == Rank(0)) {
      const int value = 42;
      Batch batch(fabric);
      window.put(batch, bytes_of(value), Rank(1), 0);
      window.flush(batch, Rank(1));
      fabric.wait(batch, {"put", 1});
      told = true;
    } else {
      while (!told) fabric.poll();
      EXPECT_EQ(memory, 42);
    }
    fabric.close();
  });
}

TEST(Window, RefusesWhatLiesOutside) {
  on_fabrics(1, [](Fabric& fabric) {
    std::array<int, 4> memory{}, other{};
    Window window(fabric, std::as_writable_bytes(std::span(memory)));
    window.connect({window.description()});
    Batch batch(fabric);
    const auto bytes = std::as_bytes(std::span(other));
    EXPECT_NO_THROW(window.put(batch, bytes, Rank(0), 0));
    EXPECT_THROW(window.put(batch, bytes, Rank(0), 1), ConfigError);
    EXPECT_THROW(window.put(batch, bytes, Rank(0), ~std::size_t{0}), ConfigError);
    EXPECT_THROW(window.put(batch, bytes, Rank(1), 0), ConfigError);
    EXPECT_THROW(window.get(batch, std::as_writable_bytes(std::span(other)), Rank(0), 17), ConfigError);
    EXPECT_THROW(window.connect({"short"}), CommError);
    EXPECT_THROW(window.connect({}), CommError);
  });
}

TEST(Window, MayBeEmptyOnSomeRanks) {
  on_fabrics(2, [](Fabric& fabric) {
    std::vector<std::byte> memory(fabric.rank().value * 100);
    Window window(fabric, memory);
    window.connect(gather(fabric, window.description(), 1));
    EXPECT_EQ(window.size_of(Rank(0)), 0u);
    std::byte one{7};
    Batch batch(fabric);
    if (fabric.rank() == Rank(0)) {
      window.put(batch, bytes_of(one), Rank(1), 99);
      window.flush(batch, Rank(1));
    }
    fabric.wait(batch, {"put", 2});
    meet(fabric, 3);
    if (fabric.rank() == Rank(1)) {
      EXPECT_EQ(memory[99], std::byte{7});
    }
    fabric.close();
  });
}

TEST(Window, LostPeerEndsAPut) {
  on_fabrics(2, [](Fabric& fabric) {
    std::vector<std::byte> memory(1 << 20);
    Window window(fabric, memory);
    window.connect(gather(fabric, window.description(), 1));
    if (fabric.rank() == Rank(1)) return fabric.abort("enough", ExitCode::config);
    const Deadline deadline = Deadline::after(paced(Milliseconds(10000)));
    try {
      while (!deadline.expired()) {
        Batch batch(fabric);
        window.put(batch, memory, Rank(1), 0);
        window.flush(batch, Rank(1));
        fabric.wait(batch, {"put", 2});
      }
      ADD_FAILURE() << "no error";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), Rank(1));
    }
  });
}

TEST(ActiveMessages, ReachTheirHandlersInOrderWhateverTheirSize) {
  on_fabrics(3, [](Fabric& fabric) {
    ActiveMessages messages(fabric);
    std::vector<std::vector<int>> seen(3);
    messages.handle(7, [&](Rank from, std::string_view header, std::span<const std::byte> payload) {
      const int number = std::stoi(std::string(header));
      seen[from.value].push_back(number);
      EXPECT_EQ(payload.size(), number % 10 == 3 ? 1000000u : static_cast<std::size_t>(number));
      for (std::byte byte : payload) ASSERT_EQ(byte, static_cast<std::byte>(from.value * 100 + number));
    });
    meet(fabric, 1);
    std::vector<std::vector<std::byte>> payloads;
    Batch batch(fabric);
    for (int i = 0; i < 50; ++i) {
      payloads.emplace_back(i % 10 == 3 ? 1000000 : i, static_cast<std::byte>(fabric.rank().value * 100 + i));
      for (int r = 0; r < 3; ++r)
        if (Rank(r) != fabric.rank()) messages.send(batch, Rank(r), 7, std::to_string(i), payloads.back());
    }
    fabric.wait(batch, {"messages", 2});
    for (int r = 0; r < 3; ++r)
      while (Rank(r) != fabric.rank() && seen[r].size() < 50) fabric.poll();
    std::vector<int> all(50);
    std::iota(all.begin(), all.end(), 0);
    for (int r = 0; r < 3; ++r) {
      if (Rank(r) != fabric.rank()) {
        EXPECT_EQ(seen[r], all);
      }
    }
    EXPECT_EQ(fabric.refused().messages, 0);
    meet(fabric, 3);
    fabric.close();
  });
}

TEST(ActiveMessages, HandlerMayAnswer) {
  on_fabrics(2, [](Fabric& fabric) {
    ActiveMessages messages(fabric);
    Batch answers(fabric);
    int last = 0;
    messages.handle(1, [&](Rank from, std::string_view header, std::span<const std::byte>) {
      last = std::stoi(std::string(header));
      if (last < 20) messages.send(answers, from, 1, std::to_string(last + 1), {});
    });
    meet(fabric, 1);
    if (fabric.rank() == Rank(0)) messages.send(answers, Rank(1), 1, "1", {});
    while (last < 19) fabric.poll();
    fabric.wait(answers, {"answers", 1});
    meet(fabric, 2);
    EXPECT_EQ(last, fabric.rank() == Rank(0) ? 20 : 19);
    fabric.close();
  });
}

TEST(ActiveMessages, NumberThatNobodyHandlesIsCounted) {
  on_fabrics(2, [](Fabric& fabric) {
    ActiveMessages messages(fabric);
    meet(fabric, 1);
    Batch batch(fabric);
    messages.send(batch, Rank(1 - fabric.rank().value), 5, "", {});
    fabric.wait(batch, {"message", 2});
    meet(fabric, 3);
    const Deadline deadline = Deadline::after(paced(Milliseconds(5000)));
    while (fabric.refused().messages < 1 && !deadline.expired()) fabric.poll();
    EXPECT_EQ(fabric.refused().messages, 1);
    meet(fabric, 4);
    fabric.close();
  });
}

TEST(ActiveMessages, OfStrangersAreDroppedAndCounted) {
  on_fabrics(2, [](Fabric& fabric) {
    ActiveMessages messages(fabric);
    int calls = 0;
    messages.handle(0, [&](Rank, std::string_view, std::span<const std::byte>) { ++calls; });
    meet(fabric, 1);
    if (fabric.rank() == Rank(0)) {
      std::atomic<bool> over = false;
      std::thread stranger([&, address = fabric.peer_address(Rank(0)).full_address] {
        Rogue rogue(test_options(), address);
        const ucp_request_param_t how{};
        const std::string payload(1 << 20, 'x');
        for (int i = 0; i < 40; ++i) {
          std::string header(i, '\0');  // from 16 bytes on: of rank 0 or 1, with token 0
          if (i >= 16) header[8] = static_cast<char>(i % 3);
          rogue.finish(ucp_am_send_nbx(rogue.endpoint(), 1, header.data(), header.size(), payload.data(),
                                       i % 4 ? 10 : payload.size(), &how));
        }
        const ucp_request_param_t flush{};
        rogue.finish(ucp_ep_flush_nbx(rogue.endpoint(), &flush));
        over = true;
      });
      while (!over || fabric.refused().messages < 40) fabric.poll();
      stranger.join();
      EXPECT_EQ(fabric.refused().messages, 40);
    }
    EXPECT_EQ(calls, 0);
    meet(fabric, 2);
    fabric.close();
  });
}

TEST(ActiveMessages, LoneHeaderMayNotBeTooLong) {
  on_fabrics(2, [](Fabric& fabric) {
    ActiveMessages messages(fabric);
    std::size_t longest = 0;
    messages.handle(0, [&](Rank, std::string_view header, std::span<const std::byte>) { longest = header.size(); });
    meet(fabric, 1);
    Batch batch(fabric);
    const Rank other(1 - fabric.rank().value);
    const std::string header(ActiveMessages::kLongestHeader + 1, 'x');
    EXPECT_THROW(messages.send(batch, other, 0, header, {}), ConfigError);
    messages.send(batch, other, 0, std::string_view(header).substr(1), {});
    fabric.wait(batch, {"message", 2});
    while (longest == 0) fabric.poll();
    EXPECT_EQ(longest, ActiveMessages::kLongestHeader);
    meet(fabric, 3);
    fabric.close();
  });
}

}  // namespace
}  // namespace distdl::comm
