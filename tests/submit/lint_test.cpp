// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/submit/lint.hpp>
#include <distdl/submit/write_script.hpp>

namespace distdl::submit {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kTop = "#!/bin/bash\n#SBATCH --open-mode=append --signal=B:USR1@120\n";

std::vector<LintFinding> found(const std::string& text, const LintFacts& facts = {}) {
  return lint(parse_batch_script(text, "job.sbatch"), facts);
}

/// "line rule level" of each.
std::vector<std::string> rules(const std::string& text, const LintFacts& facts = {}) {
  std::vector<std::string> all;
  for (const auto& finding : found(text, facts))
    all.push_back(fmt::format("{} {} {}", finding.line, finding.rule, name_of(finding.level)));
  return all;
}

TEST(Lint, AGoodScriptHasNone) {
  EXPECT_THAT(rules(kTop + "#SBATCH --ntasks-per-node=4 --gpus-per-node=4\n#SBATCH --cpus-per-task=8\ntrap f USR1\n"
                           "srun -c8 --mpi=pmix bash -c 'train --rank $SLURM_PROCID' &\nwait\n",
                    {.mpi_types = {"none", "pmix"}}),
              IsEmpty());
  EXPECT_THAT(rules(kTop + "exec srun train\n"), IsEmpty());
  EXPECT_THAT(rules(kTop + "exec distdl run job.toml\n"), IsEmpty());
}

TEST(Lint, TrainSbatchHasNone) {
  EXPECT_THAT(rules(std::string(train_sbatch()), {.save_seconds = 20}), IsEmpty());
}

TEST(Lint, OfTheTextOfTheScript) {
  EXPECT_THAT(rules("#SBATCH --open-mode=append --no-requeue\n"), ElementsAre("1 no-interpreter error"));
  EXPECT_THAT(rules("#!/bin/bash\r\n#SBATCH --no-requeue\r\n"), ElementsAre("1 dos-lines error"));
  EXPECT_THAT(rules(kTop + "#SBATCH -Z\n"), ElementsAre("3 option-unreadable error"));
  EXPECT_THAT(rules(kTop + "true\n#SBATCH -N2\n"), ElementsAre("4 option-after-command error"));
  const auto unknown = found(kTop + "#SBATCH --partitoin=x\n");
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_THAT(unknown[0].message, HasSubstr("did you mean \"--partition\"?"));
  EXPECT_THAT(rules(kTop + "#SBATCH --output=$HOME/log\n"), ElementsAre("3 option-variable error"));
}

TEST(Lint, OfTheLog) {
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --output=log\n#SBATCH --signal=B:USR1\n"),
              ElementsAre("2 log-truncated warning"));
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --open-mode=truncate\n"), ElementsAre("2 log-truncated warning"));
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --no-requeue\n"), IsEmpty());
}

TEST(Lint, OfTheSignal) {
  EXPECT_THAT(rules(kTop + "srun train\n"), ElementsAre("3 signal-in-foreground error"));
  EXPECT_THAT(rules(kTop + "distdl run job.toml\n"), ElementsAre("3 signal-in-foreground error"));
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --open-mode=append\nsrun train\n"), ElementsAre("0 signal-missing warning"));
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --open-mode=append\nexec distdl run job.toml\n"),
              ElementsAre("0 signal-missing note"));
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --open-mode=append --signal=USR1@90\nsrun train\n"),
              ElementsAre("2 signal-kills-ranks note"));
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --open-mode=append --signal=USR1@90\nexec distdl run job.toml\n"),
              ElementsAre("2 signal-kills-ranks warning"));
  const auto late = found(kTop, {.save_seconds = 100, .save_is_measured = true});
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].message,
            "the signal comes 120 s before the end of the job, but a save takes measured 100 s; with some margin 165 s "
            "are needed: --signal=B:USR1@165");
  EXPECT_THAT(found(kTop, {.save_seconds = 70}), IsEmpty());
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --open-mode=append --signal=B:USR1\n", {.save_seconds = 31}),
              ElementsAre("2 signal-too-late warning"));
}

TEST(Lint, OfSteps) {
  EXPECT_THAT(rules(kTop + "srun train &\n"), ElementsAre("3 no-wait error"));
  EXPECT_THAT(rules(kTop + "#SBATCH -c 4\nexec srun train\n"), ElementsAre("4 cpus-not-inherited warning"));
  for (const char* with : {"-c 4", "-c4", "--cpus-per-task=4", "--cpus-per-task $SLURM_CPUS_PER_TASK"})
    EXPECT_THAT(rules(kTop + "#SBATCH -c 4\nexec srun " + with + " train\n"), IsEmpty()) << with;
  EXPECT_THAT(rules(kTop + "#SBATCH -c 4\nexport SRUN_CPUS_PER_TASK=4\nexec srun train\n"), IsEmpty());
  EXPECT_THAT(rules(kTop + "#SBATCH -N 4\nexec srun -N2 train\n"), ElementsAre("4 nodes-differ warning"));
  EXPECT_THAT(rules(kTop + "exec srun --mpi=pmi2 train\n", {.mpi_types = {"none", "pmix"}}),
              ElementsAre("3 mpi-unavailable error"));
  EXPECT_THAT(rules(kTop + "exec srun --mpi=pmi2 train\n"), IsEmpty()) << "nothing is known";
  EXPECT_THAT(rules(kTop + "exec srun --mpi=none distdl worker job.toml\n"), ElementsAre("3 mpi-wrong warning"));
  EXPECT_THAT(rules(kTop + "exec distdl run job.toml\n", {.mpi_types = {"none", "pmi2"}}), IsEmpty())
      << "its ranks then meet in the run folder";
  EXPECT_THAT(rules(kTop + "exec srun /opt/distdl run job.toml\n"), ElementsAre("3 run-in-step error"));
}

TEST(Lint, OfGpus) {
  const auto with = [](const std::string& options) { return rules(kTop + "#SBATCH " + options + "\n"); };
  EXPECT_THAT(with("--gpus-per-node=4"), ElementsAre("3 tasks-not-gpus warning"));
  EXPECT_THAT(with("--gres=gpu:a100:4 --ntasks-per-node=2"), ElementsAre("3 tasks-not-gpus warning"));
  EXPECT_THAT(with("-N2 --gpus=8 -n 4"), ElementsAre("3 tasks-not-gpus warning"));
  EXPECT_THAT(with("-N2 --gpus=8 -n 8"), IsEmpty());
  EXPECT_THAT(with("--gpus-per-node=a:2,b:2"), IsEmpty());
  EXPECT_THAT(with("--gpus-per-node=4 --ntasks-per-node=4"), IsEmpty());
  EXPECT_THAT(with("-n4 --gpus-per-task=1"), ElementsAre("3 gpus-hide-peers note"));
  EXPECT_THAT(with("-n4 --gpus-per-task=1 --gpu-bind=none"), IsEmpty());
}

TEST(Lint, OfWhatTheBatchShellExpands) {
  EXPECT_THAT(rules(kTop + "exec srun train --rank $SLURM_PROCID\n"), ElementsAre("3 rank-in-batch-shell error"));
  EXPECT_THAT(rules(kTop + "export RANK=\"${SLURM_LOCALID}\"\n"), ElementsAre("3 rank-in-batch-shell error"));
  EXPECT_THAT(rules(kTop + "echo $SLURM_PROCID\n"), IsEmpty());
  for (const char* port : {"export MASTER_PORT=29500", "torchrun --master_port 29500 x",
                           "torchrun --master-port=29500 x", "torchrun --rdzv_endpoint=$host:29400 x"})
    EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --no-requeue --signal=TERM\n" + std::string(port) + "\n"),
                testing::Contains("3 port-fixed warning"))
        << port;
  EXPECT_THAT(rules(kTop + "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))\n"), IsEmpty());
}

TEST(Lint, OfAScriptThatJoinsARun) {
  const std::string top = "#!/bin/bash\n#SBATCH --no-requeue --signal=B:USR1@120\n";
  EXPECT_THAT(rules(top + "exec distdl join run\n"), IsEmpty());
  EXPECT_THAT(rules(top + "trap f USR1\n\"$distdl\" join run &\nwait\n"), IsEmpty());
  EXPECT_THAT(rules(top + "distdl join run\n"), ElementsAre("3 signal-in-foreground error"));
  EXPECT_THAT(rules(top + "distdl join run &\n"), ElementsAre("3 no-wait error"));
  EXPECT_THAT(rules(top + "exec srun distdl join run\n"), ElementsAre("3 run-in-step error"));
  EXPECT_THAT(rules("#!/bin/bash\n#SBATCH --no-requeue\nexec distdl join run\n"),
              ElementsAre("0 signal-missing warning"))
      << "it does not know when its own job ends";
}

TEST(Lint, OfTheFolder) {
  RunFolderFacts folder{"/tmp/run", FolderKind::memory, "tmpfs", true};
  const auto facts = [&] { return LintFacts{.folder = folder}; };
  EXPECT_THAT(rules(kTop, facts()), ElementsAre("0 folder-of-one-node warning"));
  EXPECT_THAT(rules(kTop + "#SBATCH -N2\n", facts()), ElementsAre("0 folder-of-one-node error"));
  folder.kind = FolderKind::shared;
  EXPECT_THAT(rules(kTop + "#SBATCH -N2-3\n", facts()), ElementsAre("0 folder-of-one-node error"));
  folder = {"/data/run", FolderKind::disk, "xfs"};
  EXPECT_THAT(rules(kTop, facts()), ElementsAre("0 folder-of-one-node note"));
  EXPECT_THAT(rules(kTop + "#SBATCH -N2\n", facts()), ElementsAre("0 folder-of-one-node warning"));
  folder = {"/data/run", FolderKind::shared, "lustre", false, true};
  EXPECT_THAT(rules(kTop, facts()), ElementsAre("0 folder-world-readable note"));
  folder.is_world_readable = false;
  folder.free_bytes = 19;
  folder.checkpoint_bytes = 10;
  EXPECT_THAT(rules(kTop, facts()), ElementsAre("0 folder-full error"));
  folder.checkpoints_are_there = true;
  EXPECT_THAT(rules(kTop, facts()), IsEmpty());
}

TEST(Lint, OfAJobThatMeansToBeRequeued) {
  const std::string text = "#!/bin/bash\n#SBATCH --no-requeue --signal=B:USR1@60\nexec distdl run job.toml\n";
  EXPECT_THAT(rules(text), ElementsAre("2 requeue-refused warning"));
  EXPECT_THAT(rules(text, {.run_requeues = false}), IsEmpty());
}

TEST(Lint, OfNodesWithTooLittleMemory) {
  EXPECT_THAT(rules("#!/bin/bash\nexec distdl run job.toml\n", {.memory_problem = "too little"}),
              testing::Contains("0 memory-too-small error"));
}

TEST(Lint, OfTensorGroupsOnSeveralNodes) {
  EXPECT_THAT(rules("#!/bin/bash\nexec distdl run job.toml\n", {.tensor_problem = "ranks 2 to 3"}),
              testing::Contains("0 tensor-group-divided warning"));
}

TEST(Lint, ASignalThatComesAtTheStartIsAnError) {
  const std::string top = "#!/bin/bash\n#SBATCH --open-mode=append\n#SBATCH --signal=B:USR1@600\n#SBATCH --time=";
  const std::string run = "\nexec distdl run job.toml\n";
  EXPECT_THAT(rules(top + "10" + run), ElementsAre("3 signal-at-start error"));
  EXPECT_THAT(rules(top + "00:05:00" + run), ElementsAre("3 signal-at-start error"));
  EXPECT_THAT(rules(top + "11" + run), IsEmpty());
  EXPECT_THAT(rules(top + "UNLIMITED" + run), IsEmpty());
  EXPECT_THAT(rules(top + "10\ntrap f USR1\nsrun train &\nwait\n"), ElementsAre("3 signal-at-start warning"));
}

TEST(Lint, AHeterogeneousJobIsAnErrorForDistdl) {
  const std::string more = "#SBATCH hetjob\n#SBATCH --nodes=2\n";
  EXPECT_THAT(rules(kTop + more + "exec distdl run job.toml\n"), ElementsAre("3 heterogeneous error"));
  EXPECT_THAT(rules(kTop + more + "exec srun train\n"), IsEmpty());
}

TEST(Lint, WhereTheRunCannotRequeueItsJob) {
  const LintFacts facts{.lacks_scontrol = true};
  EXPECT_THAT(rules(kTop + "exec distdl run job.toml\n", facts), ElementsAre("0 no-scontrol warning"));
  EXPECT_THAT(rules(kTop + "exec srun train\n", facts), IsEmpty());
  EXPECT_THAT(rules(kTop + "exec distdl run job.toml\n", {.run_requeues = false, .lacks_scontrol = true}), IsEmpty());
}

/// A script whose findings are one of each option and of each line, one of the long option, and one of the script that
/// waits for srun. Returns the processor time of its lint in seconds.
double lint_seconds(std::size_t lines) {
  std::string text = kTop + "#SBATCH --cpus-per-task=8\n", body;
  for (std::size_t i = 0; i < lines; ++i) text += fmt::format("#SBATCH --x{}=1\n", i);
  for (std::size_t i = 0; i < lines; ++i) body += "srun train\n";
  text += "#SBATCH --" + std::string(lines, 'x') + "\n" + body + "echo";
  for (std::size_t i = 0; i < lines; ++i) text += " <<x";
  const std::clock_t began = std::clock();  // however busy the machine is
  EXPECT_EQ(found(text).size(), 2 * lines + 2);
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

TEST(Lint, ALargeScriptTakesTimeInProportionToItsSize) {
  constexpr std::size_t kLines = 500, kTimes = 8;
  lint_seconds(kLines);  // the first one reads code
  const double small = lint_seconds(kLines);
  EXPECT_LT(lint_seconds(kTimes * kLines), static_cast<double>(kTimes * kTimes / 2) * small + 0.2)
      << "a small one takes " << small << " s";
}

TEST(Lint, IsPrintedAsACompilerDoes) {
  const LintFinding finding{"port-fixed", LintLevel::warning, 3, "port 1 is fixed"};
  EXPECT_EQ(to_text(finding, "a\nb"), "a\\nb:3: warning: port-fixed: port 1 is fixed");
  EXPECT_EQ(to_text({"port-fixed", LintLevel::note, 0, "x"}, "job"), "job: note: port-fixed: x");
  EXPECT_EQ(to_text({"port-fixed", LintLevel::note, 0, "x\x1b[2J"}, "job"), "job: note: port-fixed: x\\x1b[2J");
}

TEST(Lint, RulesStandInTheTableOfTheDocument) {
  std::ifstream document(DISTDL_SOURCE_DIR "/docs/jobs.md");
  std::set<std::string> documented, known;
  for (std::string line; std::getline(document, line);)
    if (line.starts_with("| `")) documented.insert(line);
  for (const LintRule& rule : kLintRules) {
    known.insert(std::string(rule.name));
    EXPECT_TRUE(documented.count(fmt::format("| `{}` | {} | {} |", rule.name, name_of(rule.level), rule.meaning)))
        << rule.name;
  }
  EXPECT_EQ(known.size(), kLintRules.size());
}

}  // namespace
}  // namespace distdl::submit
