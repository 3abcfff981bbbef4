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

/// A stranger, who does not know the secret, greets and sends what it likes.
void greet(std::string_view input) {
  Handshake handshake(kSecret, Rank(0), Rank(1), 0);
  fuzz::Input rest(input);
  while (!rest.rest().empty()) {
    const std::string_view bytes = rest.text();
    const auto greeting = decode_handshake(bytes);
    if (greeting) fuzz::demand(encode(*greeting) == bytes, "a greeting is what encode() makes");
    if (greeting && std::holds_alternative<Hello>(*greeting)) {
      handshake.answer(std::get<Hello>(*greeting));
    } else if (greeting) {
      fuzz::demand(!handshake.accept(std::get<Proof>(*greeting)), "a stranger proves nothing");
    }
    fuzz::demand(!handshake.proved() && !handshake.unseal(bytes), "a stranger cannot seal");
  }
}

/// Sealed by a proved peer, then changed at one place.
void read_notice(std::string_view input) {
  static Handshake one(kSecret, Rank(0), Rank(1), 0), other(kSecret, Rank(1), Rank(0), 0);
  static const bool proved = other.accept(*one.answer(other.hello())) && one.accept(*other.answer(one.hello()));
  fuzz::demand(proved, "peers prove themselves");
  if (const auto notice = decode_control_message(input)) {
    const std::string again = encode(*notice);
    fuzz::demand(again == input, "a notice is what encode() makes");
    fuzz::demand(other.unseal(one.seal(again)) == std::optional<std::string_view>(again), "a seal holds");
  }
  if (input.size() < 2) return;
  std::string sealed = one.seal(std::string(input.substr(1)));
  const std::size_t place = static_cast<unsigned char>(input[0]) % sealed.size();
  sealed[place] = static_cast<char>(sealed[place] + 1);
  fuzz::demand(!other.unseal(sealed), "what was changed on the way is refused");
}

bool is_card(const std::string& bytes) {
  try {
    fuzz::demand(encode(decode_peer_address(bytes)) == bytes, "a card is what encode() makes");
    return true;
  } catch (const CommError&) {
    return false;
  }
}

/// Input: a byte of flags, one for a place, the card. Flag 1: the checksum is made to hold.
void read_card(std::string_view input) {
  fuzz::Input rest(input);
  const bool seals = rest.number<char>() & 1;
  const auto place = rest.number<unsigned char>();
  std::string bytes(rest.rest());
  if (seals) bytes = with_address_checksum(std::move(bytes));
  if (!is_card(bytes)) return;
  bytes[place % bytes.size()] ^= 1;
  fuzz::demand(!is_card(bytes), "a card that was changed on the way is refused");
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

const fuzz::Target greeting("greeting", &greet), notice("notice", &read_notice), card("card", &read_card),
    envelope("envelope", &read_envelope), rendezvous("rendezvous", &read_rendezvous),
    table("cost_table", &read_cost_table), file("cost_file", &read_cost_file);
}  // namespace
