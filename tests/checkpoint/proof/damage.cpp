// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <random>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/proof/proofs.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::checkpoint::proof {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;
using Texts = std::map<std::string, std::string>;  // file name to content

Texts read_folder(const fs::path& folder) {
  Texts texts;
  for (const auto& entry : fs::directory_iterator(folder)) texts[entry.path().filename()] = slurp(entry.path());
  return texts;
}

/// Numbers, names and shapes that may stand anywhere in a manifest.
json strange_value(std::mt19937_64& random) {
  static const std::vector<json> values{
      nullptr, true,      -1,    0,     1,      2,          7,          4096,  INT64_MAX,     1e308,
      "",      "../../x", "f32", "f64", {1, 2}, {{"a", 1}}, UINT64_MAX, "rng", json::array(), json::object()};
  return values[random() % values.size()];
}

void edit_one_value(json& value, std::mt19937_64& random) {
  if (value.is_structured() && !value.empty() && random() % 6 != 0) {
    auto child = value.begin();
    std::advance(child, static_cast<std::ptrdiff_t>(random() % value.size()));
    return edit_one_value(*child, random);
  }
  if (value.is_array() && !value.empty() && random() % 2)
    value.erase(random() % value.size());
  else if (value.is_number_integer() && random() % 2)
    value = value.get<std::int64_t>() + (random() % 2 ? 1 : -1);
  else
    value = strange_value(random);
}

/// An edit whose checksum holds: what a buggy or hostile writer leaves.
std::string edited(const std::string& manifest, std::mt19937_64& random) {
  json document = json::parse(manifest.substr(0, manifest.find('\n')));
  auto part = document.find(random() % 4 ? "tensors" : "files");
  edit_one_value(*part, random);
  std::string text = document.dump() + "\n";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return text + "sha256 " + hash.hex() + "\n";
}

/// Boxes that do not make a whole tensor, where every checksum holds and no byte belongs to two of them.
struct Contradiction {
  std::string what;
  void (*edit)(StoredTensor& tensor);  ///< whose two boxes are as long as each other
};
const std::vector<Contradiction> kContradictions{
    {"a box where another one is, and a hole where it was",
     [](StoredTensor& tensor) { tensor.boxes.at(1).box = tensor.boxes.at(0).box; }},
    {"boxes that overlap",
     [](StoredTensor& tensor) {
       tensor.boxes.at(1).box = tensor.boxes.at(0).box;
       tensor.entry.shape = tensor.boxes.at(0).box.extent;
     }},
    {"boxes that leave a hole", [](StoredTensor& tensor) { ++tensor.entry.shape.at(0); }}};

/// A checkpoint of two files and the one before it; the newer one gets damaged.
class Victim {
 public:
  explicit Victim(const std::string& compression = "none") : options_{.compression = compression} {
    for (std::uint64_t step : {1, 2})
      if (!all_empty(save(step))) throw std::runtime_error("no checkpoint to damage");
    good_ = read_folder(folder_);
    other_ = read_folder(root_.path() / step_folder_name(Step(1)));
    for (const auto& [name, text] : good_) names_.push_back(name);
  }

  /// Does something bad; returns its name, or nothing if it changed nothing.
  std::string damage(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    bad_ = good_;
    std::string name = names_[random() % names_.size()];
    std::string what = change(name, random);
    if (bad_ == good_) return "";
    write(bad_, good_);
    return what + " in " + name;
  }
  void heal() { write(good_, bad_); }

  /// Neither a restart nor a reader may see anything but what was saved.
  std::string judge() {
    std::string problem = judge_reader();
    SingleProcessGroup alone;
    Store store(root_.path(), {});
    auto found = store.newest_valid(alone);
    if (!found) return "nothing is found";
    if (found->step == Step(2) && sealed_) return problem;  // a consistent lie, which the reader has judged
    if (++judged_ % 4 == 0) {                               // as a run does it: reads, and finds damage on the way
      auto at_once = store.newest_valid(alone, {}, [&](const Summary& candidate) {
        compare(store, candidate, sample(static_cast<std::uint64_t>(candidate.step.value)));
      });
      if (!at_once || at_once->step != found->step) return "reading at once finds another one";
    }
    std::string wrong = compare(store, *found, sample(static_cast<std::uint64_t>(found->step.value)));
    if (!wrong.empty()) return fmt::format("step {} is restored, but {}", found->step, wrong);
    if (found->step == Step(2)) return "a damaged checkpoint counts as whole";
    return problem;
  }

  /// The run comes to the damaged step again: then it must be whole.
  std::string judge_saved_again() {
    auto errors = save(2);
    if (!all_empty(errors)) return "it cannot be saved again: " + errors[0];
    SingleProcessGroup alone;
    Store store(root_.path(), {});
    auto found = store.newest_valid(alone);
    if (!found || found->step != Step(2)) return "it was saved again, and is not found";
    return compare(store, *found, sample(2));
  }

  /// Nobody may take the newer one for a checkpoint.
  std::string judge(const Contradiction& contradiction) {
    Manifest manifest = parse_manifest(good_.at(kManifestName), "a good manifest");
    contradiction.edit(manifest.tensors.at(0));
    bad_ = good_;
    bad_[kManifestName] = to_text(manifest);
    write(bad_, good_);
    std::string problem = verify(folder_).empty() ? "it counts as whole" : "";
    SingleProcessGroup alone;
    auto found = Store(root_.path(), {}).newest_valid(alone);
    if (!found || found->step != Step(1)) problem = "it is restored";
    try {
      open(folder_);
      problem = "a reader opens it";
    } catch (const StorageError&) {  // refused
    }
    heal();
    return problem;
  }

  /// Another checkpoint under this one's name.
  std::string judge_swapped_folders() {
    fs::path aside = root_.path() / "aside", first = root_.path() / step_folder_name(Step(1));
    auto swap = [&] { fs::rename(first, aside), fs::rename(folder_, first), fs::rename(aside, folder_); };
    swap();
    SingleProcessGroup alone;
    auto found = Store(root_.path(), {}).newest_valid(alone);
    swap();
    return found ? fmt::format("step {} is found under another name", found->step) : "";
  }

 private:
  Sample sample(std::uint64_t seed) const {
    return options_.compression == "none" ? make_sample(seed) : make_compressible(seed);
  }
  std::vector<std::string> save(std::uint64_t step) const {
    return save_as(root_.path(), 2, Step(static_cast<std::int64_t>(step)), sample(step), false, options_);
  }

  std::string change(const std::string& name, std::mt19937_64& random) {
    std::string& text = bad_[name];
    std::size_t at = random() % text.size();
    sealed_ = false;
    switch (random() % 8) {
      case 0:
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        return "a flipped bit";
      case 2:
        text.resize(at);
        return "a cut";
      case 3:
        text.append(1 + random() % 5000, random() % 2 ? '\0' : 'x');
        return "an appendix";
      case 4:
        at = at / 512 * 512;
        text.replace(at, 4096, std::string(std::min<std::size_t>(4096, text.size() - at), '\0'));
        return "a block of zeros";
      case 5:
        text = other_[name];
        return "the file of another step";
      case 6:
        std::swap(bad_[names_[1]], bad_[names_[2]]);
        return "swapped files";
      default:
        sealed_ = true;
        bad_[kManifestName] = edited(good_[kManifestName], random);
        return "an edited manifest";
    }
  }

  std::string judge_reader() {
    try {
      Store store(root_.path(), {});
      Summary summary = open(folder_);
      std::string wrong = compare(store, summary, sample(2));
      return wrong.empty() ? "" : "a reader gets wrong bytes: " + wrong;
    } catch (const StorageError&) {
      return "";  // refused
    }
  }

  void write(const Texts& now, const Texts& before) {
    for (const auto& [name, text] : now)
      if (text != before.at(name)) spill(folder_ / name, text);
  }

  Options options_;
  TemporaryFolder root_;
  fs::path folder_ = root_.path() / step_folder_name(Step(2));
  Texts good_, other_, bad_;
  std::vector<std::string> names_;
  bool sealed_ = false;
  int judged_ = 0;
};
}  // namespace

ProofResult prove_damage(const Effort& effort, const std::string& compression) {
  ProofResult verdict;
  Victim victim(compression);
  verdict.add(victim.judge_swapped_folders(), "swapped folders");
  for (const Contradiction& one : kContradictions) verdict.add(victim.judge(one), one.what);
  for (std::uint64_t seed = effort.first_seed; verdict.cases < effort.random_cases; ++seed) {
    if (effort.stop_at_first && !verdict.broken.empty()) return verdict;
    std::string what = victim.damage(seed);
    if (what.empty()) continue;
    ++verdict.cases;
    verdict.add(victim.judge(), fmt::format("damage {} ({})", seed, what));
    victim.heal();
  }
  return verdict;
}

ProofResult prove_saving_over_damage(const Effort& effort) {
  ProofResult verdict;
  for (std::uint64_t seed = effort.first_seed; verdict.cases < effort.random_cases; ++seed) {
    if (effort.stop_at_first && !verdict.broken.empty()) return verdict;
    Victim victim;
    std::string what = victim.damage(seed);
    if (what.empty()) continue;
    ++verdict.cases;
    verdict.add(victim.judge_saved_again(), fmt::format("damage {} ({})", seed, what));
  }
  return verdict;
}

}  // namespace distdl::checkpoint::proof
