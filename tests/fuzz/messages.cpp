// SPDX-License-Identifier: Apache-2.0
// Any bytes as what ranks tell each other, before and after they know each other, and as communication costs.
#include "target.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/comm/execution/envelope.hpp>
#include <distdl/comm/selection/cost_cache.hpp>
#include <distdl/comm/ucx/control_message.hpp>
#include <distdl/comm/ucx/handshake.hpp>
#include <distdl/comm/ucx/peer_address.hpp>
#include <distdl/world/folder_world.hpp>

namespace {
using namespace distdl;
using namespace distdl::comm;

const std::string kSecret(kSecretBytes, 's');

/// A stranger, who does not know the secret, sends handshake messages.
void read_handshake(std::string_view input) {
  Handshake handshake(kSecret, Rank(0), Rank(1), 0);
  fuzz::Input rest(input);
  while (!rest.rest().empty()) {
    const std::string_view bytes = rest.text();
    const auto message = decode_handshake(bytes);
    if (message) fuzz::demand(encode(*message) == bytes, "a handshake message is what encode() makes");
    if (message && std::holds_alternative<Hello>(*message)) {
      handshake.answer(std::get<Hello>(*message));
    } else if (message) {
      fuzz::demand(!handshake.accept(std::get<Proof>(*message)), "a stranger proves nothing");
    }
    fuzz::demand(!handshake.proved() && !handshake.unseal(bytes), "a stranger cannot seal");
  }
}

/// Sealed by a proved peer, then changed at one place.
void read_control_message(std::string_view input) {
  static Handshake one(kSecret, Rank(0), Rank(1), 0), other(kSecret, Rank(1), Rank(0), 0);
  static const bool proved = other.accept(*one.answer(other.hello())) && one.accept(*other.answer(one.hello()));
  fuzz::demand(proved, "peers prove themselves");
  if (const auto message = decode_control_message(input)) {
    const std::string again = encode(*message);
    fuzz::demand(again == input, "a control message is what encode() makes");
    fuzz::demand(other.unseal(one.seal(again)) == std::optional<std::string_view>(again), "a seal holds");
  }
  if (input.size() < 2) return;
  std::string sealed = one.seal(std::string(input.substr(1)));
  const std::size_t place = static_cast<unsigned char>(input[0]) % sealed.size();
  sealed[place] = static_cast<char>(sealed[place] + 1);
  fuzz::demand(!other.unseal(sealed), "what was changed on the way is refused");
}

bool is_peer_address(const std::string& bytes) {
  try {
    fuzz::demand(encode(decode_peer_address(bytes)) == bytes, "a peer address is what encode() makes");
    return true;
  } catch (const CommError&) {
    return false;
  }
}

/// Input: a byte of flags, one for a place, the peer address. Flag 1: the checksum is made to hold.
void read_peer_address(std::string_view input) {
  fuzz::Input rest(input);
  const bool seals = rest.number<char>() & 1;
  const auto place = rest.number<unsigned char>();
  std::string bytes(rest.rest());
  if (seals) bytes = with_address_checksum(std::move(bytes));
  if (!is_peer_address(bytes)) return;
  bytes[place % bytes.size()] ^= 1;
  fuzz::demand(!is_peer_address(bytes), "a peer address that was changed on the way is refused");
}

void read_envelope(std::string_view input) {
  if (const auto opened = decode_envelope(input))
    fuzz::demand(encode(opened->envelope, opened->header) == input, "an envelope is what encode() makes");
}

/// Input: a byte with the size of the world, the file.
void read_rendezvous(std::string_view input) {
  fuzz::Input rest(input);
  const int size = 1 + rest.number<unsigned char>();
  const std::string text(rest.rest());
  fuzz::demand(world::rendezvous_text(size, world::blob_from(text, Rank(0), size)) == text,
               "a rendezvous file is what was laid down");
}

void read_cost_table(std::string_view input) {
  fuzz::demand(CostTable::decode(input).encode() == input, "a cost table is what encode() makes");
}

void read_cost_file(std::string_view input) {
  const CostTable costs = costs_from_json(std::string(input));
  fuzz::demand(costs_from_json(to_json(costs, {})) == costs, "costs can be written and read again");
}

const fuzz::Target handshake("handshake", &read_handshake), control_message("control_message", &read_control_message),
    peer_address("peer_address", &read_peer_address), envelope("envelope", &read_envelope),
    rendezvous("rendezvous", &read_rendezvous), table("cost_table", &read_cost_table),
    file("cost_file", &read_cost_file);
}  // namespace
