// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/agent/decision.hpp>

namespace distdl::agent {

/// State of the ranks of one node.
enum class Phase : std::uint8_t {
  none,     ///< this node has no ranks
  running,  ///< started
  ending,   ///< they were told to end, or are of an older generation and will be
  ended     ///< those of the newest generation have all ended
};

/// State of an agent, which it sends to the others in each heartbeat and at once when it changes. A status is the whole
/// state, so statuses may be lost, repeated or late: only the one with the highest sequence number counts.
struct Status {
  NodeId node;
  std::uint64_t sequence = 0;  ///< 0: none was sent yet
  Decision decision;           ///< decision on the newest generation that this node knows
  Phase phase = Phase::none;
  int code = 0;                ///< the worst exit code so far of its ranks in this generation
  std::string cause;           ///< how they got this code, for people
  Origin origin;               ///< the same, as far as it is known
  std::string fault;           ///< why this generation must end; empty: it goes on
  bool regrow = false;         ///< this generation is to save and stop, for one with more nodes
  bool stop = false;           ///< the launch is to save and stop
  std::int64_t progress = -1;  ///< the furthest step of its ranks, in all generations
  std::int64_t step = -1;      ///< where its ranks are in this generation, also after a restore; -1: not that far yet
  bool has_trained = false;    ///< its ranks have made a step in this generation
  std::vector<bool> hears;     ///< for each node that this one knows: whether its statuses arrive here
  bool drain = false;          ///< this node may fail soon: a spare is to take its place
  bool leave = false;          ///< this node, which has joined, is about to go: the others are to go on without it
};

}  // namespace distdl::agent
