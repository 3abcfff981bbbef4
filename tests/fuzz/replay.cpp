// SPDX-License-Identifier: Apache-2.0
// replay CORPUS COUNT [TARGET...]: each target's corpus, CORPUS/TARGET/*, and COUNT random changes of it: a short share
// of the fuzzing for every compiler. All targets if none is named.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "target.hpp"

namespace {
using distdl::fuzz::Run;

std::vector<std::string> corpus_of(const std::filesystem::path& folder) {
  std::vector<std::string> corpus;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::ostringstream text;
    text << std::ifstream(entry->path(), std::ios::binary).rdbuf();
    corpus.push_back(text.str());
  }
  std::sort(corpus.begin(), corpus.end());  // the same changes on every file system
  return corpus;
}

std::string changed(std::string input, std::mt19937& random) {
  for (unsigned n = 1 + random() % 4; n-- > 0 && !input.empty();) {
    const std::size_t at = random() % input.size();
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
  return input;
}

bool replay(const std::string& name, Run target, const std::filesystem::path& folder, long changes) {
  const auto start = std::chrono::steady_clock::now();
  const auto corpus = corpus_of(folder);
  std::printf("%s: %zu inputs and %ld changes of them", name.c_str(), corpus.size(), changes);
  std::fflush(stdout);  // before what may crash
  if (corpus.empty()) return std::printf(": nothing in %s\n", folder.c_str()), false;
  for (const std::string& input : corpus) distdl::fuzz::run(target, input);
  std::mt19937 random(1);
  for (long i = 0; i < changes; ++i) distdl::fuzz::run(target, changed(corpus[random() % corpus.size()], random));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf(": %.1f s\n", took.count());
  return true;
}
}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return std::fprintf(stderr, "usage: replay CORPUS COUNT [TARGET...]\n"), 64;
  const std::vector<std::string> wanted(arguments + 3, arguments + count);
  bool all_there = true;
  for (const auto& [name, target] : distdl::fuzz::targets())
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end())
      all_there =
          replay(name, target, std::filesystem::path(arguments[1]) / name, std::atol(arguments[2])) && all_there;
  return all_there ? 0 : 1;
}
