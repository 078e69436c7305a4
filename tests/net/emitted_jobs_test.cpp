// Jobs that `paceline run --emit slurm` writes, run by Slurm on two nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/slurm.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class EmittedToSlurm : public Slurm {};

// The script of `paceline run --emit slurm`, submitted. The job's log is its output.
class EmittedJob {
 public:
  EmittedJob(const fs::path& folder, std::vector<std::string> options,
             const std::vector<std::string>& command, const std::string& first_line = {})
      : folder_(folder) {
    options.insert(options.begin(), {"--emit", "slurm", "--rdzv-id", "job"});
    const auto script = run(paceline_run(options, command));
    EXPECT_EQ(script.exit_code, 0) << script.error;
    const std::string settings = "set -u\n";
    const auto body = script.output.find(settings) + settings.size();
    std::ofstream(folder_ / "job.sbatch") << script.output.substr(0, body) << first_line << "\n"
                                          << script.output.substr(body);
    id_ = told({"sbatch", "--parsable", folder_ / "job.sbatch"});
    id_.erase(id_.find_last_not_of('\n') + 1);
  }

  std::string log() const {
    std::ifstream file(folder_ / ("job-" + id_ + ".log"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // "COMPLETED", "PENDING", ...
  std::string state() const {
    const std::string text = told({"scontrol", "--oneliner", "show", "job", id_});
    const auto at = text.find("JobState=") + 9;
    return text.substr(at, text.find(' ', at) - at);
  }
  void control(std::vector<std::string> words) const {
    words.push_back(id_);
    told(std::move(words));
  }
  void start_now() const { told({"scontrol", "update", "JobId=" + id_, "StartTime=now"}); }

  // Asks Slurm itself, which tells nobody, until it is so; false: it never was.
  template <typename Condition>
  bool comes_to(const Condition& condition, Deadline deadline = Deadline::in(40s)) const {
    while (!condition(*this)) {
      if (deadline.passed()) return false;
      run({.command = {"scontrol", "ping"}, .environment = slurm()});
    }
    return true;
  }
  bool leaves_no_secret() const { return !fs::exists(folder_ / (".paceline-" + id_ + ".secret")); }

 private:
  std::map<std::string, std::string> slurm() const {
    return {{"SLURM_CONF", folder_ / "slurm.conf"}};
  }
  std::string told(std::vector<std::string> words) const {
    const auto finished =
        run({.command = std::move(words), .environment = slurm(), .directory = folder_});
    EXPECT_EQ(finished.exit_code, 0) << finished.error;
    return finished.output;
  }

  const fs::path folder_;
  std::string id_;
};

// Three jobs at once, for Slurm takes its time for each.
TEST_F(EmittedToSlurm, AJobGivesTheBitsOfPacelineRunComesBackAfterAStopAndStaysAwayWhenCancelled) {
  const std::string saves =
      "if [ $PACELINE_GENERATION -gt 1 ]; then echo goes on as $PACELINE_GENERATION; "
      "else exec " +
      binary("launch_probe") + " catch:143; fi";
  const auto both_wait = [](const EmittedJob& job) {
    return job.log().find("[0] ready") != std::string::npos &&
           job.log().find("[1] ready") != std::string::npos;
  };
  const auto is = [](const char* state) {
    return [state](const EmittedJob& job) { return job.state() == state; };
  };
  const std::vector<std::string> one_each = {"--nnodes", "2", "-n", "1"};
  const EmittedJob stopped(folder_.path(), one_each, {"bash", "-c", saves});
  // Slurm may signal the script after the ranks have ended: this one always gets so far.
  const EmittedJob cancelled(folder_.path(), one_each, {"bash", "-c", saves}, "trap : TERM");
  const EmittedJob plain(folder_.path(), {"--nnodes", "2", "-n", "2"},
                         {binary("collective_worker"), "hash"});

  ASSERT_TRUE(stopped.comes_to(both_wait)) << stopped.log();
  stopped.control({"scancel", "--signal=TERM"});
  ASSERT_TRUE(cancelled.comes_to(both_wait)) << cancelled.log();
  cancelled.control({"scancel"});

  ASSERT_TRUE(plain.comes_to(is("COMPLETED"))) << plain.state() << plain.log();
  EXPECT_EQ(told_by_all(plain.log(), "hash", 4), expected_hash(4));
  EXPECT_TRUE(plain.leaves_no_secret());

  ASSERT_TRUE(stopped.comes_to(is("PENDING"))) << stopped.log();
  stopped.start_now();
  ASSERT_TRUE(stopped.comes_to(is("COMPLETED"))) << stopped.state() << stopped.log();
  EXPECT_THAT(stopped.log(), HasSubstr("[0] goes on as 2"));
  EXPECT_THAT(stopped.log(), HasSubstr("[1] goes on as 2"));
  EXPECT_TRUE(stopped.leaves_no_secret());

  ASSERT_TRUE(cancelled.comes_to(is("CANCELLED"))) << cancelled.state() << cancelled.log();
}

}  // namespace
}  // namespace paceline::test
