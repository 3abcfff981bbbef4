// SPDX-License-Identifier: Apache-2.0
// tokenizer_driver FILE [seconds|decode]: for each text on stdin, four bytes with its length and the text, prints its
// tokens: four bytes with their number, and four for each. With "seconds": prints the processor's seconds that encoding
// took. With "decode": takes tokens as it prints them, and prints their texts as it takes them.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>

#include <fmt/format.h>

#include <distdl/tokenizer/tokenizer.hpp>
#include <distdl/tokenizer/utf8.hpp>

using namespace distdl::tokenizer;

namespace {
template <class Items>
void print_frame(const Items& items) {
  const auto count = static_cast<std::uint32_t>(items.size());
  std::fwrite(&count, sizeof count, 1, stdout);
  std::fwrite(items.data(), sizeof items[0], items.size(), stdout);
}

template <class Items>
bool read_frame(Items& items) {
  std::uint32_t count = 0;
  if (std::fread(&count, sizeof count, 1, stdin) != 1) return false;
  items.resize(count);
  return std::fread(items.data(), sizeof items[0], count, stdin) == count;
}
}  // namespace

int main(int argc, char** argv) {
  const auto tokenizer = Tokenizer::read(argv[1]);
  const std::string_view mode = argc > 2 ? argv[2] : "";
  std::vector<Token> tokens;
  std::string text;
  while (mode == "decode" && read_frame(tokens)) print_frame(with_replacements(tokenizer.decode(tokens)));
  Encoder encoder(tokenizer);
  double seconds = 0;
  while (mode != "decode" && read_frame(text)) {
    tokens.clear();
    const std::clock_t begin = std::clock();
    encoder.encode(text, tokens);
    seconds += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (mode.empty()) print_frame(tokens);
  }
  if (mode == "seconds") fmt::print("{}\n", seconds);
}
