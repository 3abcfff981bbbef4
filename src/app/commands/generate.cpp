// SPDX-License-Identifier: Apache-2.0
// distdl generate
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/result_output.hpp>
#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>

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

std::vector<std::int32_t> prompt_of(const GenerateArguments& arguments, std::int64_t vocabulary) {
  if (arguments.prompt_tokens.empty()) {
    require<UsageError>(vocabulary == kBytes,
                        "the model has {} tokens, which are not bytes of text: give the prompt as numbers with "
                        "--prompt-tokens, as its tokenizer produces them",
                        vocabulary);
    require<UsageError>(!arguments.prompt.empty(), "--prompt is empty, but at least one byte is expected");
    return {reinterpret_cast<const std::uint8_t*>(arguments.prompt.data()),
            reinterpret_cast<const std::uint8_t*>(arguments.prompt.data()) + arguments.prompt.size()};
  }
  for (std::int32_t token : arguments.prompt_tokens)
    require<UsageError>(token >= 0 && token < vocabulary, "--prompt-tokens: {} is outside the vocabulary 0 to {}",
                        token, vocabulary - 1);
  return arguments.prompt_tokens;
}

void print_token(std::int32_t token, bool as_text) {
  if (as_text)
    std::fputc(token, stdout);
  else
    fmt::print("{}\n", token);
  flush_output();
}

void generate(const GenerateArguments& arguments) {
  TrainedModel model(arguments.checkpoint, arguments.kernels);
  const auto& about = model.description();
  require<UsageError>(about.sample.size() == 1,
                      "the model \"{}\" does not generate text; use \"distdl predict\" for images", about.name);
  const auto context = static_cast<std::size_t>(about.sample[0]), vocabulary = static_cast<std::size_t>(about.classes);
  const bool as_text = arguments.prompt_tokens.empty();
  auto tokens = prompt_of(arguments, about.classes);
  for (std::int32_t token : tokens) print_token(token, as_text);
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
    print_token(tokens.back(), as_text);
  }
  if (as_text) fmt::print("\n");
}
}  // namespace

void add_generate_command(Command app) {
  auto command = app.add_subcommand("generate", "Generate text with a checkpoint's model");
  auto arguments = std::make_shared<GenerateArguments>();
  command.add_option("CKPT", arguments->checkpoint, kCheckpointHelp).required();
  auto prompt = command.add_option("--prompt", arguments->prompt, "Beginning of the text; default: a new line");
  command
      .add_option("--prompt-tokens", arguments->prompt_tokens,
                  "Beginning as token numbers, for models whose tokens are not bytes")
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
