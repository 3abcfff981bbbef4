// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/comm/verify/formulas.hpp>

namespace distdl::comm {

Formulas::Id Formulas::intern(Node node) {
  const std::uint64_t key =
      static_cast<std::uint64_t>(node.kind) << 62 | static_cast<std::uint64_t>(node.left) << 31 | node.right;
  const auto [place, is_new] = ids_.try_emplace(key, static_cast<Id>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return place->second;
}

Formulas::Id Formulas::operand(int rank, int part) {
  return intern({Node::Kind::operand, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(part)});
}

Formulas::Id Formulas::sum(Id left, Id right) {
  return intern({Node::Kind::sum, left, right});
}

Formulas::Id Formulas::finished(Id value) {
  return intern({Node::Kind::finished, value, 0});
}

bool Formulas::is_sum_of_each(Id id, const std::vector<Id>& operands) {
  if (proved_.contains(id)) return true;
  if (nodes_[id].kind != Node::Kind::finished) return false;
  std::vector<Id> found, open{nodes_[id].left};
  while (!open.empty() && found.size() <= operands.size()) {
    const Id next = open.back();
    open.pop_back();
    if (nodes_[next].kind == Node::Kind::operand) {
      found.push_back(next);
    } else if (nodes_[next].kind == Node::Kind::sum) {
      open.push_back(nodes_[next].left);
      open.push_back(nodes_[next].right);
    } else {
      return false;
    }
  }
  std::vector<Id> wanted = operands;
  std::sort(found.begin(), found.end());
  std::sort(wanted.begin(), wanted.end());
  if (found != wanted) return false;
  proved_.insert(id);
  return true;
}

void Formulas::write(Id id, std::string& text) const {
  constexpr std::size_t kLongest = 120;
  if (text.size() > kLongest) return;
  const Node node = nodes_[id];
  switch (node.kind) {
    case Node::Kind::nothing:
      text += "nothing";
      return;
    case Node::Kind::operand:
      text += node.right ? fmt::format("{}.{}", node.left, node.right) : fmt::format("{}", node.left);
      return;
    case Node::Kind::finished:
      text += "=";
      return write(node.left, text);
    case Node::Kind::sum:
      text += "(";
      write(node.left, text);
      text += " + ";
      write(node.right, text);
      text += ")";
  }
}

std::string Formulas::text(Id id) const {
  std::string text;
  write(id, text);
  return text;
}

}  // namespace distdl::comm
