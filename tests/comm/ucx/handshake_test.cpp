// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <gtest/gtest.h>

#include <distdl/base/random.hpp>
#include <distdl/comm/ucx/handshake.hpp>

namespace distdl::comm {
namespace {

const std::string kSecret(kSecretBytes, 's');
constexpr std::uint32_t kGeneration = 7;

/// Ranks 3 and 5 of one job.
struct Pair {
  Handshake three{kSecret, Rank(3), Rank(5), kGeneration};
  Handshake five{kSecret, Rank(5), Rank(3), kGeneration};
};

Pair proved_pair() {
  Pair pair;
  EXPECT_TRUE(pair.five.accept(pair.three.answer(pair.five.hello()).value()));
  EXPECT_TRUE(pair.three.accept(pair.five.answer(pair.three.hello()).value()));
  return pair;
}

TEST(Handshake, BothProveThemselvesAndShareTokens) {
  const Pair pair = proved_pair();
  EXPECT_TRUE(pair.three.proved());
  EXPECT_TRUE(pair.five.proved());
  EXPECT_EQ(pair.three.send_token(), pair.five.receive_token());
  EXPECT_EQ(pair.five.send_token(), pair.three.receive_token());
  EXPECT_NE(pair.three.send_token(), pair.five.send_token());
}

TEST(Handshake, ProvesOneSideWhileTheOtherIsNotYet) {
  Pair pair;
  EXPECT_TRUE(pair.five.accept(pair.three.answer(pair.five.hello()).value()));
  EXPECT_TRUE(pair.five.proved());
  EXPECT_FALSE(pair.three.proved());
}

TEST(Handshake, RefusesAnotherSecret) {
  const std::string other(kSecretBytes, 'o');
  Handshake genuine(kSecret, Rank(3), Rank(5), kGeneration), impostor(other, Rank(5), Rank(3), kGeneration);
  EXPECT_FALSE(genuine.accept(impostor.answer(genuine.hello()).value()));
  EXPECT_FALSE(impostor.accept(genuine.answer(impostor.hello()).value()));
  EXPECT_FALSE(genuine.proved());
}

TEST(Handshake, RefusesARecordedProof) {
  Pair first;
  const Proof recorded = first.five.answer(first.three.hello()).value();
  EXPECT_TRUE(first.three.accept(recorded));
  Pair second;
  EXPECT_FALSE(second.three.accept(recorded));
  EXPECT_FALSE(second.three.proved());
}

// Who knows no secret lets a rank answer its own challenge.
TEST(Handshake, RefusesAReflectedProof) {
  Handshake three(kSecret, Rank(3), Rank(5), kGeneration);
  Hello reflected = three.hello();
  std::swap(reflected.from, reflected.to);
  Proof own = three.answer(reflected).value();
  EXPECT_FALSE(three.accept(own));
  std::swap(own.from, own.to);
  EXPECT_FALSE(three.accept(own));
  EXPECT_FALSE(three.proved());
}

TEST(Handshake, RefusesAProofOfAnotherRankOrGeneration) {
  Handshake three(kSecret, Rank(3), Rank(5), kGeneration);
  Handshake six(kSecret, Rank(6), Rank(3), kGeneration), older(kSecret, Rank(5), Rank(3), kGeneration - 1);
  Hello to_six = three.hello(), to_older = three.hello();
  to_six.to = Rank(6);
  to_older.generation = kGeneration - 1;
  Proof of_six = six.answer(to_six).value(), of_older = older.answer(to_older).value();
  EXPECT_FALSE(three.accept(of_six));
  EXPECT_FALSE(three.accept(of_older));
  of_six.from = Rank(5);
  of_older.generation = kGeneration;
  EXPECT_FALSE(three.accept(of_six));
  EXPECT_FALSE(three.accept(of_older));
}

TEST(Handshake, AnswersNoChallengeThatIsNotMeantForIt) {
  Handshake three(kSecret, Rank(3), Rank(5), kGeneration);
  EXPECT_FALSE(three.answer({Rank(4), Rank(3), kGeneration, {}}));
  EXPECT_FALSE(three.answer({Rank(5), Rank(4), kGeneration, {}}));
  EXPECT_FALSE(three.answer({Rank(5), Rank(3), kGeneration + 1, {}}));
}

TEST(Handshake, StrangersChallengesDoNotKeepTheGenuineOneOut) {
  Pair pair;
  Hello forged = pair.five.hello();
  for (int i = 0; i < 10; ++i) {
    ++forged.nonce[0];
    EXPECT_FALSE(pair.five.accept(pair.three.answer(forged).value()));
  }
  EXPECT_TRUE(pair.five.accept(pair.three.answer(pair.five.hello()).value()));
}

TEST(Handshake, StopsAnsweringAFlood) {
  Pair pair;
  int answers = 0;
  for (int i = 0; i < 1000; ++i) answers += pair.three.answer(pair.five.hello()).has_value();
  EXPECT_LT(answers, 100);
}

TEST(Handshake, SealedBytesOpenOnlyUnchangedAndAtTheOtherEnd) {
  const Pair pair = proved_pair();
  const std::string sealed = pair.three.seal("rank 2 is lost");
  EXPECT_EQ(pair.five.unseal(sealed), "rank 2 is lost");
  EXPECT_FALSE(pair.three.unseal(sealed)) << "reflected";
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(pair.five.unseal(changed)) << i;
    EXPECT_FALSE(pair.five.unseal(std::string_view(sealed).substr(0, i))) << i;
  }
  EXPECT_EQ(pair.five.unseal(pair.three.seal("")), "");
  EXPECT_FALSE(Pair().five.unseal(sealed)) << "not proved yet";
}

TEST(HandshakeMessage, ComesBackAsItWas) {
  Pair pair;
  const Hello hello = pair.three.hello();
  const auto again = std::get<Hello>(decode_handshake(encode(hello)).value());
  EXPECT_EQ(again.from, Rank(3));
  EXPECT_EQ(again.to, Rank(5));
  EXPECT_EQ(again.generation, kGeneration);
  EXPECT_EQ(again.nonce, hello.nonce);
  const Proof proof = pair.three.answer(pair.five.hello()).value();
  EXPECT_TRUE(pair.five.accept(std::get<Proof>(decode_handshake(encode(proof)).value())));
}

TEST(HandshakeMessage, GarbageIsNone) {
  Pair pair;
  const std::string hello = encode(pair.three.hello());
  const std::string proof = encode(pair.three.answer(pair.five.hello()).value());
  for (const auto& good : {hello, proof}) {
    for (std::size_t size = 0; size < good.size(); ++size)
      EXPECT_FALSE(decode_handshake(std::string_view(good).substr(0, size))) << size;
    EXPECT_FALSE(decode_handshake(good + "x"));
  }
  EXPECT_FALSE(decode_handshake(hello + std::string(proof.size() - hello.size(), 'x')));

  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = round % 2 ? hello : proof;
    if (round % 4 < 2) bytes.resize(random() % (kLongestHandshake + 1));
    for (int change = 0; change < 1 + round % 8 && !bytes.empty(); ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto handshake_message = decode_handshake(bytes);
    if (!handshake_message) continue;
    if (const auto* changed = std::get_if<Proof>(&*handshake_message)) {
      EXPECT_EQ(pair.five.accept(*changed), bytes == proof);
    }
    EXPECT_EQ(encode(*handshake_message), bytes);
  }
}

TEST(RandomBytes, AreNotTheSameTwice) {
  EXPECT_EQ(random_bytes(32).size(), 32u);
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

}  // namespace
}  // namespace distdl::comm
