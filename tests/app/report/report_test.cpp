// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/data/scratch_folder.hpp"
#include <distdl/app/report/charts.hpp>
#include <distdl/app/report/page.hpp>
#include <distdl/app/report/report_data.hpp>
#include <distdl/app/watch/run_reader.hpp>

namespace distdl::app {
namespace {
using Data = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "</script><script>alert(1)</script><!--<script>";

/// What the page has for its script.
Data data_in(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const auto from = page.find(begin) + begin.size();
  return Data::parse(page.substr(from, page.find("</script>", from) - from));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// A run that was preempted and lost a rank.
class Reports : public testing::Test {
 protected:
  static constexpr const char* kJournal =
      R"({"event":"submitted","time":1000,"job":"17"}
{"event":"job_started","time":1100,"job":"17","host":"n1","ranks":4,"node_count":2,"distdl":"1.2.3","processor":"a CPU"}
{"event":"launch","time":1101,"ranks":4,"nodes":"n1,n2"}
{"event":"started","time":1110,"start":1,"ranks":4,"total_steps":100,"backend":"reference","interrupted":false}
{"event":"shares","time":1115,"step":5,"shares":[1,1,1,1],"microbatch_seconds":[0.1,0.1,0.1,0.2],"hosts":["n1","n1","n2","n2"]}
{"event":"checkpoint","time":1131,"step":20,"bytes":5000,"seconds":2,"stall_seconds":0.5}
{"event":"failure","time":1141,"generation":1,"kind":"killed","cause":"n2: rank 3 was killed by SIGKILL","cause_code":"signal","node":"n2","rank":3}
{"event":"generation","time":1142,"generation":2,"cause":"n2: rank 3 was killed by SIGKILL","ranks":4}
{"event":"started","time":1150,"start":2,"ranks":4,"total_steps":100,"interrupted":true,"resumed_from":20,"steps_repeated":10}
{"event":"checkpoint","time":1181,"step":50,"bytes":7000,"seconds":2,"stall_seconds":0.5}
{"event":"stopped","time":1182,"step":50,"reason":"signal SIGTERM","cause_code":"stop_signal"}
{"event":"launch_ended","time":1183,"code":75}
{"event":"requeued","time":1184,"job":"17"}
{"event":"job_started","time":1300,"job":"17","restart":1,"host":"n1","ranks":4,"node_count":2,"distdl":"1.2.3"}
{"event":"launch","time":1301,"ranks":4}
{"event":"started","time":1310,"start":3,"ranks":4,"total_steps":100,"interrupted":true,"resumed_from":50}
{"event":"finished","time":1361,"step":100}
{"event":"launch_ended","time":1362,"code":0}
{"event":"job_ended","time":1363,"job":"17","code":0}
)";
  static std::string steps(int start, int from, int to, int begin) {
    std::string rows;
    for (int step = from + 1; step <= to; ++step)
      rows += fmt::format(
          "{{\"time\":{},\"start\":{},\"step\":{},\"loss\":{},\"learning_rate\":0.1,\"samples_per_s\":100}}\n",
          begin + step - from, start, step, 1.0 / step);
    return rows;
  }
  ReportedRun read(const std::string& name) const {
    return reported_run(name, RunFiles::read_whole({folder_.path()}).front());
  }
  void SetUp() override {
    data::write_file(folder_ / "journal.jsonl", kJournal);
    data::write_file(
        folder_ / "metrics.jsonl",
        steps(1, 0, 30, 1110) + steps(2, 20, 50, 1150) + steps(3, 50, 100, 1310) +
            "{\"time\":1360,\"start\":3,\"step\":100,\"validation_loss\":0.5,\"validation_accuracy\":0.9}\n");
    data::write_file(folder_ / "job.toml", "[run]\ndir = \"run\"\n\n[train]\nepochs = 2\n");
  }
  data::ScratchFolder folder_;
};

TEST_F(Reports, TellTheStoryOfTheJournal) {
  const auto data = report_data({read("run")}, 2000);
  const auto& run = data["runs"][0];
  std::vector<std::string> causes, timeline, watched;
  for (const auto& restart : run["status"]["restarts"]) causes.push_back(restart["cause"]);
  EXPECT_THAT(causes, ElementsAre("n2: rank 3 was killed by SIGKILL", "signal SIGTERM"));
  EXPECT_EQ(run["status"]["restarts"][0]["down_seconds"], 9);
  EXPECT_EQ(run["status"]["restarts"][0]["steps_repeated"], 10);
  EXPECT_EQ(run["status"]["restarts"][0]["lost_seconds"], 19.5) << "steps 21 to 30 but a stall, and from step 30 on";
  EXPECT_EQ(run["ledger"]["causes"], Data::parse(R"([{"cause_code":"stop_signal","count":1,"seconds":128.0},
                                                     {"cause_code":"signal","count":1,"seconds":19.5}])"));
  for (const auto& entry : run["timeline"]) timeline.push_back(entry["text"]);
  const auto view = RunFiles({folder_.path()}).read().front();
  for (const auto& entry : view.timeline) watched.push_back(entry.text);
  EXPECT_EQ(timeline, watched);
  EXPECT_THAT(timeline, testing::Contains("killed: n2: rank 3 was killed by SIGKILL"));
  EXPECT_EQ(run["status"]["state"], "finished");
  EXPECT_EQ(run["job"], "[run]\ndir = \"run\"\n\n[train]\nepochs = 2\n");
  EXPECT_THAT(run["environment"].dump(), testing::AllOf(HasSubstr(R"(["distdl","1.2.3"])"), HasSubstr("reference")));
  EXPECT_EQ(run["reproduce"][0], "distdl submit job.toml --nodes=2 --set run.dir=again");
}

TEST_F(Reports, HaveBucketsThatSumToTheWallTime) {
  const auto data = report_data({read("run")}, 2000);
  const auto& ledger = data["runs"][0]["ledger"];
  double sum = 0;
  for (const auto& bucket : data["buckets"]) sum += ledger["seconds"][bucket["name"].get<std::string>()].get<double>();
  EXPECT_NEAR(ledger["wall_seconds"].get<double>(), 363, 1e-6);
  EXPECT_NEAR(sum, 363, 363 * 0.01);
  EXPECT_GT(ledger["seconds"]["lost work"], 9);
}

TEST_F(Reports, TellStragglersAndSaves) {
  const auto run = report_data({read("run")}, 2000)["runs"][0];
  EXPECT_EQ(run["nodes"][0]["host"], "n2");
  EXPECT_EQ(run["nodes"][0]["slowdown"], 2);
  EXPECT_EQ(run["nodes"][0]["slowest"], 1);
  EXPECT_EQ(run["nodes"][1]["slowest"], 0);
  EXPECT_EQ(run["saves"]["totals"][0]["count"], 2);
  EXPECT_EQ(run["saves"]["totals"][0]["stall_seconds"], 1);
  EXPECT_EQ(run["saves"]["newest"][1]["bytes"], 7000);
}

TEST(NodePaces, KeepNodesThatAreNoLongerThere) {
  NodePaces paces;
  records::SharesKnown shares;
  shares.shares = {1, 1, 1};
  shares.microbatch_seconds = {1, 1, 3};
  shares.hosts = {"n1", "n2", "n3"};
  paces.add(shares);
  shares.microbatch_seconds = {1, 1, 1.05};
  shares.hosts = {"n1", "n2", "n4"};
  paces.add(shares);
  std::vector<std::string> hosts;
  for (const auto& node : paces.nodes(0))
    hosts.push_back(fmt::format("{} {} {} {}/{}", node.host, node.is_present, node.worst, node.slowest, node.rows));
  EXPECT_THAT(hosts, ElementsAre("n4 true 1.05 0/1", "n1 true 1 0/2", "n2 true 1 0/2", "n3 false 3 1/1"));
}

/// All nodes were called stragglers, by the worst of a few measurements of a computation that is 1% of a step.
TEST(NodePaces, OfStragglersCostANoticeableShareOfAStep) {
  NodePaces paces;
  records::SharesKnown shares;
  shares.shares = {2, 2, 2};
  shares.hosts = {"n1", "n2", "n3"};
  for (const double slow : {1.0, 3.0, 2.0}) {
    shares.microbatch_seconds = {1, 1, slow};
    paces.add(shares);
  }
  const auto straggles = [&](double step_seconds) {
    std::string hosts;
    for (const auto& node : paces.nodes(step_seconds)) hosts += node.is_straggler() ? node.host : "";
    return hosts;
  };
  EXPECT_DOUBLE_EQ(paces.nodes(20).front().cost, 2.0 / 20);
  EXPECT_EQ(straggles(20), "n3");
  EXPECT_EQ(straggles(200), "");
  EXPECT_EQ(straggles(0), "");
}

TEST_F(Reports, LayCurvesOfSeveralRunsOverEachOther) {
  const auto run = read("a");
  auto other = read("b");
  other.compared.job->at("train.epochs") = "3";
  const auto data = report_data({run, other}, 2000);
  EXPECT_EQ(data["differences"], Data::parse(R"([{"key":"train.epochs","values":["2","3"]}])"));
  EXPECT_THAT(data["results"][0]["texts"].dump(), R"(["finished","finished"])");
  std::vector<std::string> lines;
  for (const auto& line : data["charts"][0]["lines"])
    lines.push_back(
        fmt::format("{} {} {}", line["run"].get<int>(), line["name"].get<std::string>(), line["pattern"].get<int>()));
  EXPECT_THAT(lines, ElementsAre("0 training 0", "1 training 0", "0 validation 1", "1 validation 1"));
  EXPECT_EQ(data["charts"][0]["lines"][0]["steps"].size(), 100u) << "steps that were done again count once";
  std::vector<std::string> titles;
  for (const auto& chart : data["charts"]) titles.push_back(chart["title"]);
  EXPECT_THAT(titles, ElementsAre("Loss", "Accuracy", "Speed", "Learning rate", "Checkpoint size",
                                  "Time until a save is complete", "Stall of training by a save"))
      << "there is no gradient norm";
}

TEST_F(Reports, AreDataOnAPageThatLoadsNothing) {
  const auto data = report_data({read("run")}, 2000);
  const auto page = page_of(data, {"style", "script", "library"});
  EXPECT_EQ(data_in(page), data);
  EXPECT_EQ(count_of(page, "<script"), 3u);
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loads : {"<link", "<img", "src=\"", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(loads)));
  EXPECT_EQ(count_of(page_of(data, {"style", "script", ""}), "<script"), 2u) << "without a library";
}

TEST_F(Reports, TakeNoTextForATag) {
  data::write_file(folder_ / "job.toml", fmt::format("[run]\ndir = \"{}\"\n", kHostile));
  data::write_file(
      folder_ / "journal.jsonl",
      fmt::format("{}{{\"event\":\"failed\",\"time\":1364,\"code\":69,\"cause\":\"{}\xff\"}}\n", kJournal, kHostile));
  const auto plain = page_of(report_data({read("run")}, 2000), {"", "", ""});
  const auto page = page_of(report_data({read(kHostile)}, 2000), {"", "", ""});
  EXPECT_EQ(count_of(page, "<script"), count_of(plain, "<script"));
  EXPECT_EQ(count_of(page, "</script"), 1u);
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  const auto run = data_in(page)["runs"][0];
  EXPECT_EQ(run["name"], kHostile);
  EXPECT_THAT(run["job"].get<std::string>(), HasSubstr(kHostile));
}

TEST_F(Reports, OfEmptyAndDamagedFoldersSayWhatIsThere) {
  const data::ScratchFolder empty;
  const auto none = report_data({reported_run("empty", RunFiles::read_whole({empty.path()}).front())}, 2000);
  EXPECT_TRUE(none["charts"].empty());
  EXPECT_TRUE(none["runs"][0]["job"].is_null());
  data::write_file(
      folder_ / "journal.jsonl",
      "{\"event\":\"started\",\"time\":1,\"ranks\":\"x\"}\n{\"event\":\"shares\",\"shares\":[1]}\n{\"event\":");
  data::write_file(folder_ / "metrics.jsonl", "{\"step\":1,\"loss\":1e999}\n{\"step\":\"x\"}\nnull\n\xff\n");
  EXPECT_NO_THROW(page_of(report_data({read("damaged")}, 2000)));
}

/// Of each kind of record with a curve, every number is 1.
RunView view_of_all_curves() {
  RunStory story;
  story.add({records::StepDone{.step = Step(1),
                               .loss = 1,
                               .accuracy = 1,
                               .learning_rate = 1,
                               .samples_per_s = 1,
                               .waited_seconds = 1,
                               .gradient_norm = 1,
                               .sum_waited_seconds = 1,
                               .pipeline_waited_seconds = 1,
                               .mfu = 1,
                               .hfu = 1}});
  story.add({records::StepDone{.step = Step(2)}});
  story.add({records::Evaluated{.step = Step(1), .loss = 1, .accuracy = 1}});
  story.add({records::StillTraining{Step(1), 1}});
  story.add({records::CheckpointSaved{Step(1), 1, 1, 1}});
  story.add({records::SnapshotKept{Step(1), 1, 1}});
  RunView view;
  story.fill(view);
  return view;
}

TEST(Charts, HaveALineForEachCurve) {
  const RunView view = view_of_all_curves();
  std::vector<std::string> lines;
  for (const auto& chart : charts_of({&view}))
    for (const auto& line : chart["lines"])
      lines.push_back(fmt::format("{}:{}:{}", chart["title"].get<std::string>(), line["name"].get<std::string>(),
                                  line["steps"].size()));
  EXPECT_THAT(lines,
              ElementsAre("Loss:training:1", "Loss:validation:1", "Accuracy:training:1", "Accuracy:validation:1",
                          "Speed::1", "Utilization of the hardware:MFU:1", "Utilization of the hardware:HFU:1",
                          "Learning rate::1", "Gradient norm::1", "Waits of rank 0 in a step:samples:1",
                          "Waits of rank 0 in a step:sums of gradients:2", "Waits of rank 0 in a step:other stages:2",
                          "Memory of rank 0::1", "Checkpoint size::1", "Time until a save is complete:checkpoint:1",
                          "Time until a save is complete:snapshot:1", "Stall of training by a save:checkpoint:1",
                          "Stall of training by a save:snapshot:1"));
}

/// Of a million steps on 256 ranks, with curves that a text cannot make shorter.
RunView view_of_a_long_run() {
  constexpr int kSteps = 1'000'000, kRanks = 256;
  RunStory story;
  story.add({records::Started{.total_steps = Step(kSteps), .world_size = kRanks}, 1});
  records::SharesKnown shares;
  for (int rank = 0; rank < kRanks; ++rank) {
    shares.shares.push_back(1);
    shares.microbatch_seconds.push_back(0.1 + 1e-5 * std::sin(rank));
    shares.hosts.push_back(fmt::format("node{:04}.of.some.cluster", rank));
  }
  for (int step = 1; step <= kSteps; ++step) {
    const double x = step;
    const records::StepDone done{.step = Step(step),
                                 .loss = 1 / std::sqrt(x) + 0.1 * std::sin(x),
                                 .accuracy = std::cos(x),
                                 .learning_rate = std::exp(-x / kSteps),
                                 .samples_per_s = 1e4 + 1e3 * std::sin(x / 7),
                                 .waited_seconds = 1e-3 * (1 + std::sin(x / 5)),
                                 .gradient_norm = 1 + std::sin(x / 3),
                                 .sum_waited_seconds = 1e-3 * (1 + std::cos(x / 5))};
    story.add({done, 1 + x, 1});
    if (step % 1000 != 0) continue;
    story.add({records::Evaluated{.step = Step(step), .loss = std::sin(x), .accuracy = std::cos(x)}, 1 + x, 1});
    shares.step = Step(step);
    story.add({shares, 1 + x});
    const double seconds = 1 + std::sin(x);
    story.add({records::CheckpointSaved{Step(step), static_cast<std::uint64_t>(1e9 + x), seconds, seconds}, 1 + x});
  }
  RunView view{.now = kSteps};
  view.report.summary = story.summary();
  story.fill(view);
  return view;
}

TEST(LongReports, AreShort) {
  ReportedRun run{.view = view_of_a_long_run(), .compared = {"long", {}}};
  const auto data = report_data({run}, 2000);
  EXPECT_EQ(data["runs"][0]["ranks"].size(), 256u);
  const auto& steps = data["charts"][0]["lines"][0]["steps"];
  EXPECT_GT(steps.size(), 2000u);
  EXPECT_EQ(steps.back(), 1'000'000);
  EXPECT_LT(page_of(data).size(), 5u << 20);
  const std::vector<const RunView*> many(64, &run.view);
  EXPECT_LT(charts_of(many).dump().size(), 5u << 20);
}
}  // namespace
}  // namespace distdl::app
