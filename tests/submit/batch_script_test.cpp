// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/submit/batch_script.hpp>

namespace distdl::submit {
namespace {
using ::testing::ElementsAre;

BatchScript parse(const std::string& text) {
  return parse_batch_script(text, "job.sbatch");
}

std::vector<std::string> programs(const BatchScript& script) {
  std::vector<std::string> names;
  for (const auto& command : script.commands) names.push_back(command.program() + (command.in_background ? " &" : ""));
  return names;
}

TEST(BatchScript, HasTheOptionsThatSbatchReads) {
  const auto script = parse(
      "#!/bin/bash\n#SBATCH -N 2 --time=10 # a comment\n  #SBATCH --qos=no\n#SBATCHER\n\n# c\n#SBATCH --exclusive\n"
      "#SBATCH nodes\nset -e\n#SBATCH --mem=4G\n");
  EXPECT_TRUE(script.has_interpreter);
  EXPECT_EQ(script.options.value("nodes"), "2");
  EXPECT_EQ(script.options.find("time")->line, 2);
  EXPECT_TRUE(script.options.has("exclusive"));
  EXPECT_FALSE(script.options.has("qos")) << "the line does not begin with it";
  ASSERT_EQ(script.unread.size(), 1u);
  EXPECT_EQ(script.unread[0].first, 8);
  ASSERT_EQ(script.late_options.size(), 1u);
  EXPECT_EQ(script.late_options[0].line, 10);
  EXPECT_FALSE(script.options.has("mem"));
}

TEST(BatchScript, HasCommandsAsAShellDividesThem) {
  const auto script = parse(
      "a=1 b=2 /usr/bin/first -x \\\n  --long 'q; r' &\nif second; then third | fourth && fifth; fi\n"
      "exec sixth 2>&1 >/dev/null\n(seventh) & # eighth &\nninth \"a\nb; c\" &\nwait\n");
  EXPECT_THAT(programs(script), ElementsAre("first &", "second", "third", "fourth", "fifth", "fi", "sixth", "seventh &",
                                            "ninth &", "wait"));
  EXPECT_THAT(script.commands[0].words, ElementsAre("/usr/bin/first", "-x", "--long", "q; r"));
  EXPECT_EQ(script.commands[0].line, 1);
  EXPECT_EQ(script.commands[1].line, 3);
  EXPECT_TRUE(script.commands[6].is_exec);
  EXPECT_EQ(script.commands.back().line, 8);
}

TEST(BatchScript, LeavesOutHereDocuments) {
  const auto script = parse("cat > x <<'END'\nsrun not\nEND\ncat <<-EOF\n\tsrun neither\n\tEOF\nlast <<< srun\n");
  EXPECT_THAT(programs(script), ElementsAre("cat", "cat", "last"));
  EXPECT_EQ(script.commands.back().line, 7);
}

TEST(BatchScript, IsReadFromAnyText) {
  for (const char* text : {"", "\n", "'", "\"$(", "\\", "a\\", "<<", "<<'", "#SBATCH", "#SBATCH \\", "&&&", "((((",
                           "<<END", "#SBATCH --a='b\n"})
    EXPECT_NO_THROW(parse(text)) << text;
  EXPECT_EQ(parse("#!/bin/sh\r\ntrue\r\n").dos_line, 1);
  EXPECT_EQ(parse("#!/bin/sh\ntrue\n").dos_line, 0);
}

TEST(Variables, ExpandOutsideOfSingleQuotes) {
  for (const char* text : {"a $X", "\"$X\"", "${X}", "${X:-1}", "'a'$X", "\"'$X'\"", "$X.b"})
    EXPECT_TRUE(expands_variable(text, "X")) << text;
  for (const char* text : {"'$X'", "\\$X", "$XY", "X", "\"\\$X\"", "$", "${", ""})
    EXPECT_FALSE(expands_variable(text, "X")) << text;
}

}  // namespace
}  // namespace distdl::submit
