// Some ends of a run are followed by another start, and some are for good (covers
// paceline/app/launch/run/launched_generation.h).
// Trainings that are started again: resume_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <regex>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

// The same cause is told in other words by each process that dies: its number is another one.
std::string without_process_ids(const std::string& text) {
  return std::regex_replace(text, std::regex("pid [0-9]+"), "pid N");
}

// The rest of each line after `part`, without who waited for whom.
std::vector<std::string> after(const std::string& part, const std::string& text) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    const auto at = line.find(part);
    if (at == std::string::npos) continue;
    const std::string rest = line.substr(at + part.size());
    found.push_back(without_process_ids(rest.substr(0, rest.find(" while "))));
  }
  return found;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// How rank 1 of three can end, what the launcher tells then, and the code of a run without
// restarts.
struct EndOfARank {
  std::string behaviour, told;
  int code;
};

TEST(RunRestarts, EachEndOfARankIsTheCauseOnAllRanksInEachGenerationAndHasTheCodeOfARunWithout) {
  const std::vector<EndOfARank> ends = {
      {"calls:3", "told: rank 1 has left the job", 1},
      {"exit:3", "failed first: it ended with code 3", 3},
      {"throw", "told: rank 1 threw an exception that nobody caught", 134},
      {"abort", "failed first: it was killed by signal 6 (SIGABRT)", 134},
      {"die:11", "failed first: it was killed by signal 11 (SIGSEGV)", 139},
      {"die:15", "failed first: it was killed by signal 15 (SIGTERM)", 143},
      {"memory", "nobody caught, and ended: std::bad_alloc", 134}};
  std::vector<std::unique_ptr<Process>> runs;
  for (const EndOfARank& end : ends) {
    runs.push_back(std::make_unique<Process>(
        paceline_run({"-n", "3", "--max-restarts", "1"},
                     {binary("collective_worker"), "1=" + end.behaviour, "stream"})));
    // The next one runs while this one waits for its restart.
    ASSERT_TRUE(runs.back()->wait_for_error("restart in 1 s as generation 2", Deadline::in(20s)))
        << end.behaviour << runs.back()->error();
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Process& run = *runs[i];
    EXPECT_EQ(exit_code(run.wait(Deadline::in(30s))), ends[i].code) << run.error();
    SCOPED_TRACE(ends[i].behaviour + "\n" + run.output() + run.error());
    EXPECT_THAT(run.error(), HasSubstr("no restart after 2 failures"));
    EXPECT_EQ(times(run.error(), ends[i].told), 2U) << "once in each generation";
    EXPECT_LE(lines_of(run.error()).size(), 20U);
    const auto causes = after("[0] failed ", run.output());
    EXPECT_EQ(causes.size(), 2U) << "one in each generation";
    // The link to rank 1 and the launcher tell of its end in words of their own.
    const auto also = after("[2] failed ", run.output());
    EXPECT_EQ(also.size(), 2U);
    for (const auto& told : {causes, also})
      for (const std::string& cause : told) EXPECT_THAT(cause, HasSubstr(": rank 1 "));
  }
}

class EndsForGood : public ::testing::Test {
 protected:
  std::unique_ptr<Process> start(const std::vector<std::string>& behaviours,
                                 std::vector<std::string> options = {}) {
    options.insert(options.end(), {"--max-restarts", "5"});
    return std::make_unique<Process>(run_probe(2, behaviours, options));
  }
  static void expect(Process& run, int code, std::size_t restarts = 0) {
    EXPECT_EQ(exit_code(run.wait(Deadline::in(20s))), code) << run.error();
    EXPECT_EQ(times(run.error(), "restart in "), restarts) << run.error();
    EXPECT_THAT(run.error(), HasSubstr(fmt::format("paceline: exit code {}\n", code)));
  }
};

TEST_F(EndsForGood, WrongUseARefusalAndAProgramThatCannotStart) {
  const TemporaryFolder folder;
  const std::string no_program = folder.file("no_program");
  std::ofstream(no_program) << "\x01\x02 is no program";
  std::filesystem::permissions(no_program, std::filesystem::perms::owner_all);
  const auto misused = start({"1=exit:2", "wait"}), refused = start({"1=exit:4", "wait"});
  Process not_started(paceline_run({"-n", "2", "--max-restarts", "5"}, {no_program}));
  expect(*misused, 2);
  expect(*refused, 4);
  expect(not_started, 1);
  for (const Process* run : {misused.get(), refused.get(), &not_started})
    EXPECT_THAT(run->error(), HasSubstr("no restart: another start would end in the same way"));
}

TEST_F(EndsForGood, ASignalToTheLauncherTheEndOfTheTimeAndLostOutput) {
  const auto interrupted = start({"catch:0"}), stopped = start({"catch:0"}),
             late = start({"wait"}, {"--timeout", "0.3"}),
             by_itself = start({"1=exit:143", "catch:143"});
  ASSERT_EQ(ready(*interrupted, 2).size(), 2U);
  ASSERT_EQ(ready(*stopped, 2).size(), 2U);
  interrupted->send(SIGINT);
  stopped->send(SIGTERM);
  expect(*interrupted, 130);
  expect(*stopped, 143);
  expect(*late, 124);
  expect(*by_itself, 143);
  const auto unread = start({"lines:20000"});
  unread->close_output();
  expect(*unread, 141);
}

TEST_F(EndsForGood, ASignalAndTheEndOfTheTimeAlsoBetweenTwoGenerations) {
  const auto late = start({"1=exit:3", "wait"}, {"--timeout", "3", "--grace", "3"});
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), {SIGTERM, 143}}) {
    const auto run = start({"1=exit:3", "wait"});
    ASSERT_TRUE(run->wait_for_error("restart in 1 s", Deadline::in(10s))) << run->error();
    run->send(signal);
    expect(*run, code, 1);
  }
  expect(*late, 124, 1);
}

}  // namespace
}  // namespace paceline::test
