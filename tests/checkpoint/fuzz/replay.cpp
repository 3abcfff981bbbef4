// SPDX-License-Identifier: Apache-2.0
// replay DIR COUNT: the corpus and COUNT random changes of it through a fuzzer's function, where clang is missing.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: replay DIR COUNT\n"), 64;
  std::vector<std::string> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    corpus.push_back(text.str());
  }
  auto run = [](const std::string& input) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  };
  if (corpus.empty()) return std::fprintf(stderr, "%s is empty\n", arguments[1]), 1;
  for (const std::string& input : corpus) run(input);
  std::mt19937 random(1);
  long changes = std::atol(arguments[2]);
  for (long i = 0; i < changes; ++i) {
    std::string input = corpus[random() % corpus.size()];
    for (unsigned n = 1 + random() % 4; n-- > 0 && !input.empty();) {
      std::size_t at = random() % input.size();
      switch (random() % 4) {
        case 0:
          input[at] = static_cast<char>(random());
          break;
        case 1:
          input.erase(at, 1 + random() % 16);
          break;
        case 2:
          input.insert(at, input.substr(random() % input.size(), random() % 32));
          break;
        default:
          input[at] = "0123456789{}[],:\"-e"[random() % 19];
      }
    }
    run(input);
  }
  std::printf("%zu inputs and %ld changes of them\n", corpus.size(), changes);
  return 0;
}
