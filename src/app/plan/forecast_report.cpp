// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/plan/run_forecast.hpp>

namespace distdl::app {
namespace {
using Json = nlohmann::ordered_json;

std::string seconds_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds <= 0) return "0 s";
  if (seconds < 9.995e-4) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 2 * kMinute) return fmt::format("{:.1f} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.1f} min", seconds / kMinute);
  return seconds < 2 * kDay ? fmt::format("{:.1f} h", seconds / kHour) : fmt::format("{:.1f} days", seconds / kDay);
}

/// With a decimal, in a table.
std::string table_bytes(double bytes) {
  constexpr double kStep = 1024;
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= kStep && unit + 1 < std::size(kUnits); ++unit) bytes /= kStep;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

constexpr std::size_t kBestRows = 6;

/// Rows of the best products, the chosen one and the job's own, or of all products.
std::string product_rows(const forecast::Forecast& forecast, bool shows_all) {
  std::size_t width = 7, left_out = 0;
  for (const auto& each : forecast.products) width = std::max(width, name_of(each.product).size());
  auto text = fmt::format("   {:<{}} {:>10} {:>11} {:>11} {:>10} {:>11} {:>11} {:>7}\n", "PRODUCT", width, "STEP",
                          "COMPUTE", "WAITED", "EFFICIENCY", "SENT", "MEMORY", "FITS");
  for (std::size_t i = 0; i < forecast.products.size(); ++i) {
    const auto& each = forecast.products[i];
    if (i >= kBestRows && i != forecast.best && i != forecast.own && !shows_all) {
      ++left_out;
      continue;
    }
    text += fmt::format("{}{} {:<{}} {:>10} {:>11} {:>11} {:>10} {:>11} {:>11} {:>7}\n", i == forecast.best ? '*' : ' ',
                        i == forecast.own ? '=' : ' ', name_of(each.product), width, seconds_text(each.step.seconds),
                        seconds_text(each.step.compute), seconds_text(each.step.waited),
                        fmt::format("{:.1f}%", 100 * each.efficiency), table_bytes(each.sent_bytes),
                        table_bytes(each.memory.total()), each.fits ? "yes" : "no");
  }
  return left_out > 0 ? text + fmt::format("   and {} more: --all shows them\n", left_out) : text;
}

/// Calls visit(name, bytes) for each part.
template <class Visitor>
void describe_memory(const forecast::MemoryParts& memory, Visitor&& visit) {
  visit("parameters", memory.parameters);
  visit("moments", memory.moments);
  visit("gradients", memory.gradients);
  visit("network", memory.network);
  visit("data", memory.data);
  visit("sums", memory.sums);
  visit("snapshots", memory.snapshots);
  visit("program", memory.program);
}

std::string memory_line(const forecast::MemoryParts& memory) {
  std::string text;
  describe_memory(memory, [&](const char* name, double bytes) {
    if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, table_bytes(bytes));
  });
  return text;
}

/// Lines with the stages of the best product and of the job file's own.
std::string stage_lines(const forecast::Forecast& forecast) {
  std::string text;
  for (std::size_t i = 0; i < forecast.products.size(); ++i)
    if (const auto& each = forecast.products[i]; i == forecast.best || i == forecast.own)
      if (const auto stages = text_of(each.stages); !stages.empty())
        text += fmt::format("stages      {}: {}\n", name_of(each.product), stages);
  return text;
}

Json product_json(const forecast::ProductForecast& each) {
  Json memory;
  describe_memory(each.memory, [&](const char* name, double bytes) { memory[name] = std::round(bytes); });
  const auto& degrees = each.product.degrees;
  return {{"strategy", each.product.strategy.name()},
          {"replicas", degrees.data},
          {"pipeline_ranks", degrees.pipeline},
          {"tensor_ranks", degrees.tensor},
          {"context_ranks", degrees.context},
          {"recompute", each.product.recomputes ? "blocks" : "none"},
          {"stage_layers", each.stages.layers},
          {"stages_by", each.stages.source},
          {"fits", each.fits},
          {"step_seconds", each.step.seconds},
          {"compute_seconds", each.step.compute},
          {"sum_seconds", each.step.sum},
          {"waited_seconds", each.step.waited},
          {"efficiency", each.efficiency},
          {"buckets", each.buckets},
          {"algorithm", each.algorithm},
          {"sent_bytes", each.sent_bytes},
          {"rank_bytes", std::round(each.memory.total())},
          {"first_rank_bytes", std::round(each.first_rank.total())},
          {"node_bytes", std::round(each.node_bytes)},
          {"memory", std::move(memory)}};
}

Json automatic_json(const forecast::Forecast& forecast) {
  if (!forecast.automatic) return nullptr;
  const auto& [product, reason] = *forecast.automatic;
  return {{"product", name_of(product)}, {"keys", keys_of(product)}, {"reason", reason}};
}
}  // namespace

std::string forecast_table(const forecast::Forecast& forecast, const forecast::Machine& machine, bool shows_all) {
  const auto& best = forecast.chosen();
  const auto& save = forecast.save;
  const auto& goodput = forecast.goodput;
  std::string text =
      fmt::format("{} node{} of {} rank{}, global batch {}, {} steps\n{}\n\n{}", machine.nodes,
                  machine.nodes == 1 ? "" : "s", machine.ranks_per_node, machine.ranks_per_node == 1 ? "" : "s",
                  forecast.global_batch, forecast.steps, forecast.limits, product_rows(forecast, shows_all));
  text += fmt::format(
      "\n* best: {}\n{}{}{}memory      {}\ncheckpoint  every {} steps ({}); it delays training by {}, and is on the "
      "disk "
      "after "
      "{}\nfailures    {:.3g} expected; goodput {:.1f}%: saves {}, recoveries {}, steps done again {}, fewer nodes {}\n"
      "run         {}, {:.4g} node hours{}\n",
      forecast.reason, forecast.own == forecast.best ? "" : fmt::format("keys        {}\n", keys_of(best.product)),
      stage_lines(forecast), forecast.automatic ? fmt::format("auto        {}\n", forecast.automatic->reason) : "",
      memory_line(best.memory), save.interval_steps,
      seconds_text(static_cast<double>(save.interval_steps) * best.step.seconds), seconds_text(save.stall_seconds),
      seconds_text(save.durable_seconds), goodput.failures, 100 * goodput.share, seconds_text(goodput.saving_seconds),
      seconds_text(goodput.recovering_seconds), seconds_text(goodput.lost_seconds),
      seconds_text(goodput.fewer_nodes_seconds), seconds_text(goodput.seconds), forecast.node_hours,
      machine.spares > 0 ? fmt::format(" with {} spares", machine.spares) : "");
  if (machine.calibration)
    text += fmt::format("measured on {} processors, {}\n", machine.calibration->kind.processors,
                        machine.calibration->kind.processor);
  for (const auto& warning : forecast.warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

std::string forecast_json(const forecast::Forecast& forecast, const forecast::Machine& machine, const Json& learned) {
  auto products = Json::array();
  for (const auto& each : forecast.products) products.push_back(product_json(each));
  const auto& save = forecast.save;
  const auto& goodput = forecast.goodput;
  Json json{{"nodes", machine.nodes},
            {"ranks_per_node", machine.ranks_per_node},
            {"fabric", machine.fabric.topology.name()},
            {"global_batch", forecast.global_batch},
            {"steps", forecast.steps},
            {"products", std::move(products)},
            {"best", forecast.best},
            {"own", forecast.own ? Json(*forecast.own) : Json(nullptr)},
            {"automatic", automatic_json(forecast)},
            {"best_keys", keys_of(forecast.chosen().product)},
            {"limits", forecast.limits},
            {"reason", forecast.reason},
            {"checkpoint",
             {{"interval_steps", save.interval_steps},
              {"interval_seconds", save.interval_seconds},
              {"stall_seconds", save.stall_seconds},
              {"durable_seconds", save.durable_seconds}}},
            {"failures", goodput.failures},
            {"goodput", goodput.share},
            {"saving_seconds", goodput.saving_seconds},
            {"recovering_seconds", goodput.recovering_seconds},
            {"repeated_seconds", goodput.lost_seconds},
            {"fewer_nodes_seconds", goodput.fewer_nodes_seconds},
            {"evaluation_seconds", forecast.evaluation_seconds},
            {"run_seconds", goodput.seconds},
            {"node_hours", forecast.node_hours},
            {"measured_on", machine.calibration ? Json(machine.calibration->kind.processor) : Json(nullptr)},
            {"learned", learned},
            {"warnings", forecast.warnings}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace distdl::app
