// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/part_sums.hpp>
#include <distdl/optim/sums.hpp>
#include <distdl/parallel/piece_sums.hpp>

namespace distdl::parallel {

std::vector<OwnedElements> within(const std::vector<OwnedElements>& held, const std::vector<optim::Elements>& slices) {
  std::vector<OwnedElements> some;
  for (const auto& [elements, at] : held)
    for (const auto& slice : slices) {
      const auto here = optim::common({at, at + elements.count()}, slice);
      if (here.count() == 0) continue;
      const std::size_t first = elements.first + (here.first - at);
      some.push_back({{first, first + here.count()}, here.first});
    }
  return some;
}

void Terms::add_up(std::span<const kernels::ArenaRange> ranges, std::span<double> sums) {
  std::vector<double> terms;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    terms.resize(ranges[i].count);
    list(ranges[i], terms);
    sums[i] = kernels::sum_of_terms(terms);
  }
}

void Squares::add_up(std::span<const kernels::ArenaRange> ranges, std::span<double> sums) {
  optim::Sums found(backend_, ranges.size());
  backend_.sums_of_squares(values_, ranges, found.at(0));
  std::ranges::copy(found.read(), sums.begin());
}

void Squares::list(const kernels::ArenaRange& range, std::span<double> terms) {
  std::vector<float> values(range.count);
  backend_.copy_to_host(values.data(), values_ + range.offset, range.count * sizeof(float));
  std::ranges::transform(values, terms.begin(), [](float value) { return double{value} * double{value}; });
}

PieceSums::PieceSums(std::vector<kernels::ArenaRange> ranges, const std::vector<OwnedElements>& held,
                     comm::Communicator& ranks)
    : ranges_(std::move(ranges)),
      ranks_(ranks),
      sent_(static_cast<std::size_t>(ranks.size())),
      send_counts_(sent_.size()),
      receive_counts_(sent_.size()) {
  const auto holders = find_holders(held);
  auto first = holders.begin();
  for (const auto& range : ranges_)
    for (std::size_t done = 0; done < range.count; done += kernels::kSummedPart) {
      const std::size_t begin = range.offset + done;
      const optim::Elements piece{begin, begin + std::min(range.count - done, kernels::kSummedPart)};
      while (first != holders.end() && first->held.elements.end <= piece.first) ++first;
      auto end = first;
      while (end != holders.end() && end->held.elements.first < piece.end) ++end;
      plan(count_++, piece, range, {first, end});
    }
}

/// Returns the owners of all elements on all ranks, ascending.
std::vector<PieceSums::Holder> PieceSums::find_holders(const std::vector<OwnedElements>& held) {
  std::string mine(held.size() * sizeof(OwnedElements), '\0');
  if (!held.empty()) std::memcpy(mine.data(), held.data(), mine.size());
  std::vector<Holder> holders;
  int rank = 0;
  for (const auto& told : ranks_.all_gather_strings(mine)) {
    for (std::size_t i = 0; i + sizeof(OwnedElements) <= told.size(); i += sizeof(OwnedElements)) {
      Holder holder{{}, rank};
      std::memcpy(&holder.held, told.data() + i, sizeof holder.held);
      holders.push_back(holder);
    }
    ++rank;
  }
  std::ranges::sort(holders, {}, [](const Holder& holder) { return holder.held.elements.first; });
  return holders;
}

void PieceSums::plan(std::size_t number, const optim::Elements& piece, const kernels::ArenaRange& range,
                     std::span<const Holder> holders) {
  std::vector<Fragment> fragments;
  std::size_t next = piece.first;
  for (const auto& [held, rank] : holders) {
    const auto here = optim::common(piece, held.elements);
    if (here.count() == 0) continue;
    require<InternalError>(here.first == next, "element {} of a model is on no rank, or on several", next);
    next = here.end;
    const std::size_t at = held.at + here.first - held.elements.first;
    auto* const before = fragments.empty() ? nullptr : &fragments.back();
    if (before && before->rank == rank && before->range.offset + before->range.count == at)
      before->range.count += here.count();
    else
      fragments.push_back({rank, {at, here.count(), range.options}});
  }
  require<InternalError>(next == piece.end, "element {} of a model is on no rank", next);
  if (fragments.size() > 1) return share(number, std::move(fragments));
  if (fragments.front().rank != ranks_.rank().value) return;
  own_.push_back(fragments.front().range);
  own_numbers_.push_back(number);
}

void PieceSums::share(std::size_t number, std::vector<Fragment> fragments) {
  const int self = ranks_.rank().value, adder = fragments.front().rank;
  for (Fragment& fragment : fragments) {
    if (fragment.rank == adder) continue;
    exchanges_ = true;
    if (fragment.rank == self) {
      sent_[static_cast<std::size_t>(adder)].push_back(fragment.range);
      send_counts_[static_cast<std::size_t>(adder)] += fragment.range.count;
    }
    if (adder == self)
      fragment.at = std::exchange(receive_counts_[static_cast<std::size_t>(fragment.rank)],
                                  receive_counts_[static_cast<std::size_t>(fragment.rank)] + fragment.range.count);
  }
  if (adder == self) shared_.push_back({number, std::move(fragments)});
}

std::vector<double> PieceSums::exchange(Terms& terms) {
  std::vector<double> sent(std::accumulate(send_counts_.begin(), send_counts_.end(), std::size_t{0}));
  std::vector<double> received(std::accumulate(receive_counts_.begin(), receive_counts_.end(), std::size_t{0}));
  std::size_t done = 0;
  for (const auto& ranges : sent_)
    for (const auto& range : ranges) {
      terms.list(range, std::span(sent).subspan(done, range.count));
      done += range.count;
    }
  if (exchanges_)
    ranks_
        .all_to_all({sent.data(), sent.size(), comm::DataType::float64},
                    {received.data(), received.size(), comm::DataType::float64}, send_counts_, receive_counts_)
        .wait();
  return received;
}

void PieceSums::write(Terms& terms, std::span<double> numbers) {
  std::ranges::fill(numbers, 0.0);
  const auto received = exchange(terms);
  std::vector<std::size_t> begins(receive_counts_.size());
  std::exclusive_scan(receive_counts_.begin(), receive_counts_.end(), begins.begin(), std::size_t{0});
  std::vector<double> piece;
  for (const auto& [number, fragments] : shared_) {
    piece.clear();
    for (const auto& [rank, range, at] : fragments) {
      const std::size_t done = piece.size();
      piece.resize(done + range.count);
      const auto to = std::span(piece).subspan(done);
      if (rank == ranks_.rank().value)
        terms.list(range, to);
      else
        std::copy_n(received.begin() + static_cast<std::ptrdiff_t>(begins[static_cast<std::size_t>(rank)] + at),
                    range.count, to.begin());
    }
    numbers[number] = kernels::sum_of_terms(piece);
  }
  std::vector<double> sums(own_.size());
  if (!own_.empty()) terms.add_up(own_, sums);
  for (std::size_t i = 0; i < sums.size(); ++i) numbers[own_numbers_[i]] = sums[i];
}

std::vector<double> PieceSums::sums(std::span<const double> numbers) const {
  std::vector<double> sums;
  std::size_t first = 0;
  for (const auto& range : ranges_) {
    const std::size_t pieces = (range.count + kernels::kSummedPart - 1) / kernels::kSummedPart;
    sums.push_back(kernels::sum_of_parts(numbers.subspan(first, pieces)));
    first += pieces;
  }
  return sums;
}

}  // namespace distdl::parallel
