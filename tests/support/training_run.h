// The example as a run that is killed, stopped and resumed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {

// The files of a training with the example, by which it is watched. Runs of one folder go on from
// each other.
class TrainingFiles {
 public:
  explicit TrainingFiles(const std::string& folder)
      : metrics_(folder + "/metrics.jsonl"), directory_(folder + "/checkpoints") {}

  // The example's command line; `every`: 0 for no checkpoints.
  std::vector<std::string> command(int steps, int every,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {binary("fashion_mnist"),
                                    "--threads",
                                    "1",
                                    "--test-images",
                                    "500",
                                    "--metrics",
                                    metrics_,
                                    "--steps",
                                    std::to_string(steps)};
    if (every > 0) {
      all.insert(all.end(),
                 {"--checkpoint-dir", directory_, "--checkpoint-every", std::to_string(every)});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void forget_metrics() const { std::filesystem::remove(metrics_); }
  const std::string& directory() const { return directory_; }

  // The last step of which rank 0 has told; 0: none.
  std::int64_t last_step() const {
    const auto steps = told_steps();
    return steps.empty() ? 0 : steps.back();
  }
  std::int64_t first_step() const {
    const auto steps = told_steps();
    return steps.empty() ? 0 : steps.front();
  }
  // parameters_sha256 of a run that came to its end.
  std::string sha256() const {
    for (const auto& line : lines())
      if (line.contains("parameters_sha256")) return line.at("parameters_sha256");
    return "no summary";
  }
  std::vector<std::int64_t> saved_steps() const {
    std::vector<std::int64_t> steps;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("step-")) steps.push_back(std::stoll(name.substr(5)));
    }
    std::ranges::sort(steps);
    return steps;
  }
  // The workers of the present generation, by rank.
  std::vector<pid_t> workers() const {
    std::vector<pid_t> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      std::error_code error;
      if (pid <= 0 || std::filesystem::read_symlink(entry.path() / "exe", error) !=
                          std::filesystem::canonical(binary("fashion_mnist")))
        continue;
      std::ifstream arguments(entry.path() / "cmdline");
      const std::string line((std::istreambuf_iterator<char>(arguments)), {});
      if (line.find(metrics_) != std::string::npos) all.push_back(pid);
    }
    std::ranges::sort(all, {}, [](pid_t pid) { return variable_of(pid, "PACELINE_RANK"); });
    return all;
  }

 private:
  std::vector<std::int64_t> told_steps() const {
    std::vector<std::int64_t> steps;
    for (const auto& line : lines())
      if (line.value("event", "") == "step") steps.push_back(line.at("step"));
    return steps;
  }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> all;
    std::ifstream file(metrics_);
    for (std::string line; std::getline(file, line);)
      if (auto json = nlohmann::json::parse(line, nullptr, false); !json.is_discarded())
        all.push_back(std::move(json));
    return all;
  }

  std::string metrics_, directory_;
};

// Waits until rank 0 has told of that step. False: it did not in time, or the run has ended.
inline bool reaches(Process& process, const TrainingFiles& files, std::int64_t step,
                    Deadline deadline = Deadline::in(60s)) {
  while (files.last_step() < step && !deadline.passed() && is_alive(process.pid()))
    (void)process.wait_for_error("\n\n", Deadline::in(5ms));  // reads the output meanwhile
  return files.last_step() >= step;
}

// One run of the example on this host.
class TrainingRun : public TrainingFiles {
 public:
  struct Options {
    int ranks = 2;
    std::vector<std::string> launcher = {};  // further options of `paceline run`
    std::vector<std::string> example = {};   // and of the example
    bool behind_a_shell = false;
    int steps = 200;
    int every = 20;
    bool resume = false;
    bool saves = true;
  };

  TrainingRun(const Options& options, const std::string& folder) : TrainingFiles(folder) {
    forget_metrics();
    std::vector<std::string> words =
        command(options.steps, options.saves ? options.every : 0, options.example);
    if (options.resume) words.emplace_back("--resume");
    if (options.behind_a_shell) {
      std::string line;
      for (const std::string& word : words) line += word + " ";
      words = {"bash", "-c", line + "; exit $?"};  // the shell stays
    }
    std::vector<std::string> launcher = {"-n", std::to_string(options.ranks)};
    launcher.insert(launcher.end(), options.launcher.begin(), options.launcher.end());
    process_ = std::make_unique<Process>(paceline_run(launcher, words));
  }

  Process& process() { return *process_; }
  int exit_code(Deadline deadline = Deadline::in(120s)) {
    return test::exit_code(process_->wait(deadline));
  }
  bool reaches(std::int64_t step) { return test::reaches(*process_, *this, step); }

 private:
  std::unique_ptr<Process> process_;
};

// The digest with which a run ends that nothing disturbs.
inline std::string undisturbed_sha256(TrainingRun::Options options) {
  const TemporaryFolder folder;
  options.saves = options.resume = false;
  options.launcher = {};
  options.behind_a_shell = false;
  TrainingRun run(options, folder.path());
  EXPECT_EQ(run.exit_code(), 0) << run.process().error();
  return run.sha256();
}

}  // namespace paceline::test
