// A batch script for Slurm: one launcher on each node, a secret for each job, and a job that comes
// back to the queue when it was told to stop and has saved.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/app/launch/emit/run_plan.h"
#include "paceline/app/launch/process/program.h"

namespace paceline::launch {
namespace {

using std::chrono::seconds;

// The signal comes this long before the end of the job's time: longer than the workers have to
// save.
seconds lead(const RunPlan& plan) {
  return plan.stop_grace + seconds(30);
}

// The job's limit lets --timeout end the run first. Slurm may send the signal 60 s early.
std::string time_limit(const RunPlan& plan) {
  const auto total = (*plan.timeout + lead(plan) + seconds(60)).count();
  return fmt::format("{}-{:02}:{:02}:{:02}", total / 86400, total / 3600 % 24, total / 60 % 60,
                     total % 60);
}

std::string heading(const RunPlan& plan) {
  std::string text = fmt::format(
      "#!/bin/bash\n"
      "# Written by `paceline run --emit slurm`. Submit it with sbatch from the folder in which "
      "the "
      "program is to\n"
      "# run, which all nodes see under one path, as they do Paceline and the program.\n"
      "{3}"
      "#SBATCH --job-name={0}\n"
      "#SBATCH --nodes={1}\n"
      "#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --cpus-per-task={2}\n",
      plan.name, plan.nodes, plan.processes, note_on_logs(plan));
  if (plan.devices > 0) text += fmt::format("#SBATCH --gpus-per-node={}\n", plan.devices);
  if (plan.timeout) text += fmt::format("#SBATCH --time={}\n", time_limit(plan));
  text += fmt::format(
      "#SBATCH --requeue --signal=TERM@{} --open-mode=append\n"
      "#SBATCH --output={}-%j.log\n"
      "set -u\n\n",
      lead(plan).count(), plan.name);
  return text;
}

// Slurm itself reaches a node by its NodeAddr. This script runs on node 0.
constexpr const char* kMeeting =
    "# The nodes meet at node 0, where this script runs, and prove by a secret that they belong to "
    "the job.\n"
    "address=$(scontrol --oneliner show node \"$SLURMD_NODENAME\" | sed -n 's/.* "
    "NodeAddr=\\([^ ]*\\).*/\\1/p')\n"
    "endpoint=$address:$((20000 + SLURM_JOB_ID % 20000))\n"
    "secret=$SLURM_SUBMIT_DIR/.paceline-$SLURM_JOB_ID.secret\n"
    "trap 'rm -f \"$secret\"' EXIT\n"
    "rm -f \"$secret\"\n"
    "(umask 377; od -An -v -tx1 -N32 /dev/urandom | tr -d ' \\n' >\"$secret\") || exit\n\n";

std::string write_slurm(const RunPlan& plan) {
  RunPlan quoted = plan;
  quoted.launcher = shell_word(plan.launcher);
  for (std::string& word : quoted.options) word = shell_word(word);
  for (std::string& word : quoted.command) word = shell_word(word);

  std::string text = heading(plan);
  for (const std::string& entry : plan.environment) {
    const auto equals = entry.find('=');
    text += fmt::format("export {}={}\n", entry.substr(0, equals),
                        shell_word(std::string_view(entry).substr(equals + 1)));
  }
  if (!plan.environment.empty()) text += "\n";
  std::string node;  // each task tells its launcher the number of its node
  if (plan.nodes > 1) {
    text += kMeeting;
    node = "bash -c 'PACELINE_RUN_NODE_RANK=$SLURM_NODEID exec \"$@\"' bash \\\n  ";
  }
  const NodePlace place = {
      .endpoint = "\"$endpoint\"", .id = "\"$SLURM_JOB_ID\"", .secret_file = "\"$secret\""};
  text += fmt::format(
      "code=0\nsrun --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" {}{} \\\n  {} || code=$?\n", node,
      fmt::join(launcher_words(quoted, place), " "), fmt::join(quoted.command, " "));
  text +=
      "\n# 143: the run was told to stop and has saved. It goes on when the job starts again. A "
      "job that was\n"
      "# cancelled is not running any more, and stays away.\n"
      "state=$(scontrol --oneliner show job \"$SLURM_JOB_ID\")\n"
      "if [ \"$code\" = 143 ] && [[ $state == *\" JobState=RUNNING \"* ]]; then\n"
      "  scontrol requeue \"$SLURM_JOB_ID\"\n"
      "fi\n"
      "exit \"$code\"\n";
  return text;
}

}  // namespace

Target slurm() {
  return {.name = "slurm",
          .about = "a batch script for sbatch",
          .in_containers = false,
          .write = write_slurm};
}

}  // namespace paceline::launch
