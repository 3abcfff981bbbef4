// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <distdl/parallel/server/messages.hpp>
#include <distdl/parallel/server/range_copy.hpp>

namespace distdl::parallel::server {

/// A server: holds ranges, as their primary or as the partner of one. It has no threads, sockets or clocks: the caller
/// reports events, and take() returns the actions to do. One thread at a time.
class Server {
 public:
  /// `placement`: first_placement(), or none for a server that joins. `rules` must outlive it. Throws ConfigError for
  /// rules that make no run.
  Server(const Rules& rules, Node self, const std::vector<Holders>& placement);

  /// Throws InternalError for a push whose parameters were too old for the mode: a defect of its sender. Throws
  /// CommError as check(), and for a push with parameters that are not there yet.
  void receive(Node from, const Message& message);
  void tick();           ///< repeats messages without an answer
  void lost(Node node);  ///< final report of the failure detector
  Actions take() { return std::exchange(actions_, {}); }

 private:
  struct Hosted {
    Hosted(RangeCopy its_copy, Term its_term) : copy(std::move(its_copy)), term(its_term) {}
    RangeCopy copy;
    Term term;
    bool is_primary = false;
    std::optional<Node> partner;                  ///< known to the primary only
    bool is_copied = true;                        ///< the partner has its copy
    std::map<Microbatch, std::set<Node>> pushed;  ///< workers that wait for each update
    std::map<Node, Pull> pulls;                   ///< requests that wait for a version
  };
  Hosted* primary_of(int range);

  void handle(Node from, const Pull& pull);
  void handle(Node from, const Push& push);
  void handle(Node from, const Replicate& replicate);
  void handle(Node from, const Copy& copy);
  void handle(Node from, const Replicated& replicated);
  void handle(Node from, const Assign& assign);
  void handle(Node from, const Lead& lead);
  template <class Other>
  void handle(Node /*from*/, const Other& /*for another role*/) {}

  bool answer(Node worker, const Pull& pull, Hosted& hosted);
  void read_piece(Node worker, const Pull& pull, const Hosted& hosted);
  void commit(int range, Hosted& hosted, std::int64_t position);
  void send_copy(int range, const Hosted& hosted);
  void send_updates(int range, const Hosted& hosted, std::int64_t from);
  void report(Node to, int range, const Hosted& hosted);
  void send(Node to, Message message) { actions_.emplace_back(Send{to, std::move(message)}); }

  const Rules& rules_;
  std::map<int, Hosted> hosted_;
  std::set<Node> lost_;
  Leadership leadership_{0};
  std::optional<Node> scheduler_;
  Actions actions_;
};

}  // namespace distdl::parallel::server
