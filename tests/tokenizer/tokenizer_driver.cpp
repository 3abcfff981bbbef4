// SPDX-License-Identifier: Apache-2.0
// tokenizer_driver FILE [seconds]: for each text on stdin, four bytes with its length and the text, prints its tokens:
// four bytes with their number, and four for each. With "seconds": prints the processor's seconds that encoding took.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>

#include <fmt/format.h>

#include <distdl/tokenizer/tokenizer.hpp>

using namespace distdl::tokenizer;

int main(int argc, char** argv) {
  const auto tokenizer = Tokenizer::read(argv[1]);
  Encoder encoder(tokenizer);
  double seconds = 0;
  std::uint32_t length = 0;
  while (std::fread(&length, sizeof length, 1, stdin) == 1) {
    std::string text(length, '\0');
    if (std::fread(text.data(), 1, length, stdin) != length) return 1;
    std::vector<Token> tokens;
    const std::clock_t begin = std::clock();
    encoder.encode(text, tokens);
    seconds += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (argc > 2) continue;
    const auto count = static_cast<std::uint32_t>(tokens.size());
    std::fwrite(&count, sizeof count, 1, stdout);
    std::fwrite(tokens.data(), sizeof(Token), tokens.size(), stdout);
  }
  if (argc > 2) fmt::print("{}\n", seconds);
}
