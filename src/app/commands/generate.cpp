// SPDX-License-Identifier: Apache-2.0
// distdl generate
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/result_output.hpp>
#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/tokenizer/utf8.hpp>

namespace distdl::app {
namespace {
constexpr std::int64_t kBytes = 256;  // a vocabulary of so many is that of texts' bytes

struct GenerateArguments {
  std::string checkpoint, prompt = "\n";
  std::vector<std::int32_t> prompt_tokens;
  kernels::Options kernels;
  std::int64_t tokens = 500, top = 0;
  double temperature = 0.8;
  std::uint64_t seed = 1;
};

/// Draws a token from softmax(logits / temperature) among the `top` likeliest; `uniform` in [0, 1). Temperature 0: the
/// likeliest.
std::int32_t draw(std::span<const float> logits, double temperature, std::int64_t top, double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float one = logits[static_cast<std::size_t>(a)], other = logits[static_cast<std::size_t>(b)];
    return one != other ? one > other : a < b;
  };
  if (temperature == 0) return *std::min_element(order.begin(), order.end(), likelier);
  std::sort(order.begin(), order.end(), likelier);
  if (top > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  std::vector<double> weights;
  weights.reserve(order.size());
  for (std::int32_t token : order)
    weights.push_back(
        std::exp((logits[static_cast<std::size_t>(token)] - logits[static_cast<std::size_t>(order[0])]) / temperature));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order.back();
}

using tokenizer::Tokenizer;

std::vector<std::int32_t> prompt_of(const GenerateArguments& arguments, std::int64_t vocabulary,
                                    const std::optional<Tokenizer>& tokenizer) {
  if (arguments.prompt_tokens.empty()) {
    require<UsageError>(!arguments.prompt.empty(), "--prompt is empty, but at least one byte is expected");
    if (tokenizer) {
      std::vector<tokenizer::Token> tokens;
      tokenizer::Encoder(*tokenizer).encode(arguments.prompt, tokens);
      // SentencePiece may remove spaces and ends of lines: the text then begins as one behind another.
      if (const auto end = tokenizer->end_of_text(); tokens.empty() && end) tokens.push_back(*end);
      require<UsageError>(!tokens.empty(), "--prompt has no token for the model's tokenizer; begin with a word");
      return {tokens.begin(), tokens.end()};
    }
    require<UsageError>(vocabulary == kBytes,
                        "the model has {} tokens, which are not bytes of text, and its checkpoint has no tokenizer: "
                        "give the prompt as numbers with --prompt-tokens, as its tokenizer produces them; sets of "
                        "\"distdl data import text --tokenizer\" give their tokenizer to the checkpoint",
                        vocabulary);
    return {reinterpret_cast<const std::uint8_t*>(arguments.prompt.data()),
            reinterpret_cast<const std::uint8_t*>(arguments.prompt.data()) + arguments.prompt.size()};
  }
  for (std::int32_t token : arguments.prompt_tokens)
    require<UsageError>(token >= 0 && token < vocabulary, "--prompt-tokens: {} is outside the vocabulary 0 to {}",
                        token, vocabulary - 1);
  return arguments.prompt_tokens;
}

/// Prints tokens as they come: as numbers, as bytes, or as text, of which only whole characters are printed.
class TokenPrinter {
 public:
  TokenPrinter(bool as_text, const std::optional<Tokenizer>& tokenizer) : as_text_(as_text) {
    if (tokenizer) decoder_.emplace(*tokenizer);
  }
  void print(std::int32_t token) {
    if (!as_text_)
      fmt::print("{}\n", token);
    else if (decoder_)
      print_characters(decoder_->next(token));
    else
      std::fputc(token, stdout);
    flush_output();
  }
  void end() {
    if (as_text_) fmt::print("{}\n", tokenizer::with_replacements(ahead_));
  }

 private:
  void print_characters(std::string_view bytes) {
    ahead_ += bytes;
    const std::size_t whole = ahead_.size() - tokenizer::incomplete_end(ahead_);
    fmt::print("{}", tokenizer::with_replacements(std::string_view(ahead_).substr(0, whole)));
    ahead_.erase(0, whole);
  }

  bool as_text_;
  std::optional<tokenizer::Decoder> decoder_;
  std::string ahead_;  ///< the beginning of a character
};

void generate(const GenerateArguments& arguments) {
  TrainedModel model(arguments.checkpoint, arguments.kernels);
  const auto& about = model.description();
  require<UsageError>(about.sample.size() == 1,
                      "the model \"{}\" does not generate text; use \"distdl predict\" for images", about.name);
  const auto context = static_cast<std::size_t>(about.sample[0]), vocabulary = static_cast<std::size_t>(about.classes);
  const bool as_text = arguments.prompt_tokens.empty();
  const auto tokenizer = tokenizer_in(model.checkpoint());
  auto tokens = prompt_of(arguments, about.classes, tokenizer);
  TokenPrinter printer(as_text, tokenizer);
  for (std::int32_t token : tokens) printer.print(token);
  const auto network = model.network(1);
  const std::vector<std::int32_t> labels(context, 0);  // of no use here
  std::vector<std::int32_t> window(context);
  for (std::int64_t made = 0; made < arguments.tokens; ++made) {
    const std::size_t seen = std::min(tokens.size(), context);
    std::fill(std::copy(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end(), window.begin()), window.end(),
              0);
    network->set_batch(window.data(), labels.data());
    const auto logits = network->logits();
    const auto bits = Philox::block(arguments.seed, 0, static_cast<std::uint64_t>(made));
    tokens.push_back(draw(std::span(logits).subspan((seen - 1) * vocabulary, vocabulary), arguments.temperature,
                          arguments.top, Philox::uniform(bits[0])));
    printer.print(tokens.back());
  }
  printer.end();
}
}  // namespace

void add_generate_command(Command app) {
  auto command = app.add_subcommand("generate", "Generate text with a checkpoint's model");
  auto arguments = std::make_shared<GenerateArguments>();
  command.add_option("CKPT", arguments->checkpoint, kCheckpointHelp).required();
  auto prompt = command.add_option("--prompt", arguments->prompt, "Beginning of the text; default: a new line");
  command
      .add_option("--prompt-tokens", arguments->prompt_tokens,
                  "Beginning as token numbers, for models without a tokenizer whose tokens are not bytes")
      .excludes(prompt)
      .list();
  command.add_option("--tokens", arguments->tokens, "Number of tokens to generate").positive().show_default();
  command
      .add_option("--temperature", arguments->temperature,
                  "Sampling temperature; values below 1 favour likely tokens; 0: always the most likely one")
      .within(0.0, 100.0)
      .show_default();
  command.add_option("--top-k", arguments->top, "Sample from this number of most likely tokens; 0: from all")
      .not_negative()
      .show_default();
  command.add_option("--seed", arguments->seed, "Seed of the sampling").show_default();
  command.add_option("--backend", arguments->kernels.backend, "Same as kernels.backend in a job file").show_default();
  command.examples({{"distdl generate run --prompt \"ROMEO:\" --tokens 300", "Continue a text"},
                    {"distdl generate run@500 --temperature 0",
                     "Always take the likeliest token, with the checkpoint of step 500"}});
  command.callback([arguments] { generate(*arguments); });
}

}  // namespace distdl::app
