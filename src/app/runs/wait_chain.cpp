// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <distdl/app/runs/wait_chain.hpp>

namespace distdl::app {
namespace {
using agent::RankReport;
using agent::WaitReport;

const RankReport* find(const std::vector<RankReport>& ranks, Rank rank) {
  const auto found = std::ranges::lower_bound(ranks, rank, {}, &RankReport::rank);
  return found != ranks.end() && found->rank == rank ? &*found : nullptr;
}

bool is_stopped(const RankReport& rank) {
  return !text_of_state(rank.state).empty() && rank.state != "D";
}

/// Nothing if it waits for no other rank, or its process could not go on anyway.
const WaitReport* wait_of(const RankReport& rank) {
  if (is_stopped(rank) || rank.threads.empty()) return nullptr;
  const auto& wait = rank.threads.front().wait;
  return wait && wait->rank ? &*wait : nullptr;
}

bool is_circle(const WaitChain& chain) {
  return chain.end == WaitChain::End::circle || chain.end == WaitChain::End::passing;
}

/// Kind of circle of a chain that already contained its last rank.
WaitChain::End kind_of_circle(const std::vector<RankReport>& ranks, const std::vector<Rank>& chain) {
  constexpr double kLasting = 1;
  const auto begin = std::ranges::find(chain, chain.back());
  const bool lasts =
      std::all_of(begin, chain.end(), [&](Rank rank) { return wait_of(*find(ranks, rank))->seconds >= kLasting; });
  return lasts ? WaitChain::End::circle : WaitChain::End::passing;
}

WaitChain chain_from(const std::vector<RankReport>& ranks, Rank first) {
  WaitChain chain{{first}, WaitChain::End::unknown, 0};
  while (const RankReport* rank = find(ranks, chain.ranks.back())) {
    const WaitReport* wait = wait_of(*rank);
    if (!wait) {
      chain.end = is_stopped(*rank) ? WaitChain::End::stopped : WaitChain::End::busy;
      break;
    }
    const bool seen = std::ranges::count(chain.ranks, *wait->rank) > 0;
    chain.ranks.push_back(*wait->rank);
    if (!seen) continue;
    chain.end = kind_of_circle(ranks, chain.ranks);
    break;
  }
  return chain;
}

/// By which chains to one end are told from others: its rank, or the lowest one of the circle.
Rank name_of_end(const WaitChain& chain) {
  if (!is_circle(chain)) return chain.ranks.back();
  const auto begin = std::ranges::find(chain.ranks, chain.ranks.back());
  return *std::min_element(begin, chain.ranks.end());
}

std::string text_of_end(const RankReport& rank) {
  const std::string state = text_of_state(rank.state);
  std::string text = state;
  if (rank.threads.empty()) return state.empty() ? "has not begun to tell what it is at" : "is " + state;
  const auto& thread = rank.threads.front();
  text += fmt::format("{}in {}", state.empty() ? "" : ", ", thread.phase);
  if (thread.step) text += fmt::format(" at step {}", *thread.step);
  text += fmt::format(" for {}", short_seconds(thread.seconds));
  for (std::size_t i = 1; i < rank.threads.size(); ++i)
    if (rank.threads[i].phase != "idle")
      text += fmt::format("; its {} is in {} for {}", rank.threads[i].name, rank.threads[i].phase,
                          short_seconds(rank.threads[i].seconds));
  return "is " + text;
}
}  // namespace

std::vector<WaitChain> wait_chains(const std::vector<RankReport>& ranks) {
  std::map<Rank, WaitChain> by_end;
  for (const RankReport& rank : ranks) {
    WaitChain chain = chain_from(ranks, rank.rank);
    WaitChain& known = by_end[name_of_end(chain)];
    chain.waiting = known.waiting + (chain.ranks.size() > 1 ? 1 : 0);
    if (known.ranks.size() < chain.ranks.size())
      known = std::move(chain);
    else
      known.waiting = chain.waiting;
  }
  std::vector<WaitChain> chains;
  chains.reserve(by_end.size());
  for (auto& [end, chain] : by_end) chains.push_back(std::move(chain));
  std::ranges::stable_sort(chains, std::greater<>(), &WaitChain::waiting);
  return chains;
}

std::string sentence_of(const WaitChain& chain, const std::vector<RankReport>& ranks) {
  std::string text = fmt::format("rank {}", chain.ranks.front());
  for (std::size_t i = 0; i + 1 < chain.ranks.size(); ++i) {
    const WaitReport* wait = wait_of(*find(ranks, chain.ranks[i]));
    text += fmt::format("{} waits in {} for rank {}", i > 0 ? ", which" : "", wait->operation, chain.ranks[i + 1]);
  }
  if (chain.end == WaitChain::End::passing) return text + ": they exchange data";
  const std::string which = chain.ranks.size() > 1 ? ", which " : " ";
  const RankReport* last = find(ranks, chain.ranks.back());
  if (chain.end == WaitChain::End::circle)
    return text + ": they wait for each other, and do not call the same operations in the same order";
  if (!last) return text + which + "is on a node that does not answer, or has ended";
  return text + which + text_of_end(*last);
}

std::string text_of_state(const std::string& state) {
  if (state == "T") return "frozen (stopped by a signal, state T)";
  if (state == "t") return "held by a debugger (state t)";
  if (state == "D") return "held by the system, as by a file system that hangs (state D)";
  if (state == "Z" || state == "X" || state.empty()) return "ended";
  return "";
}

std::string short_seconds(double seconds) {
  return seconds < 1     ? fmt::format("{:.2f} s", seconds)
         : seconds < 100 ? fmt::format("{:.1f} s", seconds)
                         : fmt::format("{:.0f} s", seconds);
}

}  // namespace distdl::app
