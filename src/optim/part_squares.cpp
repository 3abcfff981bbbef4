// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/part_sums.hpp>
#include <distdl/optim/part_squares.hpp>
#include <distdl/optim/sums.hpp>

namespace distdl::optim {

PartSquares::PartSquares(const tensor::ArenaLayout& whole, std::span<const std::size_t> borders,
                         const std::vector<HeldElements>& held, kernels::Backend& backend)
    : backend_(backend) {
  for (const auto& range : ranges_of_norm(whole)) {
    auto& pieces = ranges_.emplace_back();
    for (std::size_t done = 0; done < range.count; done += kernels::kSummedPart) {
      Piece piece{{range.offset + done, range.offset + std::min(range.count, done + kernels::kSummedPart)}, count_};
      const Elements all = piece.elements;
      piece.on_border =
          std::ranges::any_of(borders, [&](std::size_t border) { return border > all.first && border < all.end; });
      count_ += piece.on_border ? piece.elements.count() : 1;
      find_own(piece, held);
      pieces.push_back(piece);
    }
  }
}

void PartSquares::find_own(const Piece& piece, const std::vector<HeldElements>& held) {
  for (const auto& [elements, at] : held) {
    const Elements here = common(piece.elements, elements);
    if (here.count() == 0) continue;
    const std::size_t from = at + here.first - elements.first;
    if (piece.on_border) {
      own_gradients_.push_back({from, here.count(), piece.at + here.first - piece.elements.first});
      continue;
    }
    own_pieces_.push_back({from, here.count(), {}});
    places_.push_back(piece.at);
  }
}

void PartSquares::write(const float* gradients, std::span<double> numbers) {
  std::ranges::fill(numbers, 0.0);
  for (const auto& [from, count, at] : own_gradients_) {
    std::vector<float> values(count);
    backend_.copy_to_host(values.data(), gradients + from, count * sizeof(float));
    std::ranges::copy(values, numbers.begin() + static_cast<std::ptrdiff_t>(at));
  }
  if (places_.empty()) return;
  Sums sums(backend_, places_.size());
  backend_.sums_of_squares(gradients, own_pieces_, sums.at(0));
  const auto found = sums.read();
  for (std::size_t i = 0; i < places_.size(); ++i) numbers[places_[i]] = found[i];
}

double PartSquares::sum(std::span<const double> numbers) {
  double sum = 0;
  for (const auto& pieces : ranges_) {
    std::vector<double> parts;
    for (const Piece& piece : pieces) {
      parts.push_back(numbers[piece.at]);
      if (!piece.on_border) continue;
      const auto given = numbers.subspan(piece.at, piece.elements.count());
      const std::vector<float> values(given.begin(), given.end());
      const tensor::Buffer memory = backend_.allocate(values.size() * sizeof(float));
      backend_.copy_from_host(memory.data(), values.data(), memory.bytes());
      Sums one(backend_, 1);
      const kernels::ArenaRange all[] = {{0, values.size(), {}}};
      backend_.sums_of_squares(static_cast<const float*>(memory.data()), all, one.at(0));
      parts.back() = one.read()[0];
    }
    sum += kernels::sum_of_parts(parts);
  }
  return sum;
}

}  // namespace distdl::optim
