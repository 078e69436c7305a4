#include "paceline/app/cli/run/emit_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::cli {
namespace {

namespace variable = membership::variable;
using launch::RunPlan;
using launch::Target;

// Systems append a few words, and names of hosts end at 63.
constexpr std::size_t kLongestName = 40;

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Every target takes these as names of jobs.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && is_lower(text.front()) &&
         text.back() != '-' &&
         std::ranges::all_of(text, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

bool is_variable(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_lower(c) || is_digit(c) || c == '_' || (c >= 'A' && c <= 'Z');
  });
}

std::string name_of_program(const std::string& program) {
  std::string name;
  for (char c : std::filesystem::path(program).stem().string()) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    name += is_lower(c) || is_digit(c) ? c : '-';
  }
  if (name.empty() || !is_lower(name.front())) name = "run-" + name;
  name.resize(std::min(name.size(), kLongestName));
  while (name.back() == '-') name.pop_back();
  return name;
}

// "--checkpoint-dir DIR" or "--checkpoint-dir=DIR" among the program's arguments.
std::string checkpoint_folder(const std::vector<std::string>& command) {
  const std::string option = "--checkpoint-dir";
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == option && i + 1 < command.size()) return command[i + 1];
    if (command[i].starts_with(option + "=")) return command[i].substr(option.size() + 1);
  }
  return {};
}

bool is_below(const std::string& path, const std::string& folder) {
  const auto inner = std::filesystem::path(path).lexically_normal();
  const auto outer = std::filesystem::path(folder).lexically_normal();
  const auto relative = inner.lexically_relative(outer);
  return inner.is_absolute() && !relative.empty() && *relative.begin() != "..";
}

std::optional<launch::Volume> volume_of(const Target& target, const std::string& given,
                                        const std::string& name, const std::string& checkpoints) {
  if (given.empty() && checkpoints.empty()) return std::nullopt;
  const auto colon = given.rfind(':');
  launch::Volume volume = {
      .source = given.substr(0, colon),
      .path = colon == std::string::npos ? checkpoints : given.substr(colon + 1)};
  if (given.empty()) volume.source = name + "-checkpoints";
  PACELINE_CHECK(std::filesystem::path(volume.path).is_absolute(),
                 "--emit {}: \"{}\" is no folder that a container finds its volume in; give an "
                 "absolute one, as in --emit-volume NAME:/runs (and --checkpoint-dir /runs/a)",
                 target.name, volume.path);
  PACELINE_CHECK(!volume.source.empty(),
                 "--emit-volume: {} has no name before its folder; write NAME:{}", given,
                 volume.path);
  PACELINE_CHECK(target.own_volumes || volume.source.find('/') == std::string::npos,
                 "--emit-volume: {} is a folder, and pods mount a PersistentVolumeClaim; give its "
                 "name, as in runs:{}",
                 volume.source, volume.path);
  return volume;
}

void check_it_is_kept(const char* option, const std::string& folder,
                      const std::optional<launch::Volume>& volume) {
  if (folder.empty()) return;
  const std::string path = volume ? volume->path : "";
  PACELINE_CHECK(volume && is_below(folder, path),
                 "{0} {1} would end with its container; put it on a volume, as in --emit-volume "
                 "NAME:{2} and {0} {2}/{3}",
                 option, folder, path.empty() ? "/runs" : path,
                 std::filesystem::path(folder).filename().string());
}

// mpirun does not do for its ranks what the other options of `paceline run` ask for.
void check_mpirun_takes_them(const Target& target, const EmitOptions& given) {
  // Its nodes have no other devices than those that the manifest asks for.
  constexpr std::array kTaken = {"--stop-grace", "--timeout", "--max-restarts", "--devices",
                                 "--ranks-per-device"};
  for (const GivenWord& word : given.for_launchers) {
    PACELINE_CHECK(std::ranges::find(kTaken, word.option) != kTaken.end(),
                   "{} is for `paceline run`, and mpirun starts the ranks of --emit {}; leave it "
                   "out, or take another target",
                   word.option, target.name);
  }
}

std::chrono::seconds in_seconds(Clock::duration time) {
  return std::chrono::ceil<std::chrono::seconds>(time);
}

launch::Environment environment_of(const launch::RunOptions& run,
                                   const launch::Environment& settings) {
  launch::Environment all = settings;
  const auto set = [&all](const char* name, const std::string& value) {
    if (!value.empty()) launch::set_variable(all, fmt::format("{}={}", name, value));
  };
  set(variable::kTransport, run.transport);
  if (run.device_transport != run.transport) set(variable::kDeviceTransport, run.device_transport);
  set(variable::kDeterminism, run.determinism);
  set(variable::kOperationTimeout, run.operation_timeout);
  for (const std::string& entry : run.passed) launch::set_variable(all, entry);
  for (const std::string& entry : all) {
    const auto name = entry.substr(0, entry.find('='));
    PACELINE_CHECK(is_variable(name),
                   "-x: \"{}\" cannot be a variable in a manifest; take letters, digits and _, no "
                   "digit first",
                   name);
  }
  return all;
}

// The devices of each node: the system of the manifest chooses which they are.
int devices_of(const Target& target, const launch::RunOptions& run) {
  for (std::size_t i = 0; i < run.devices.size(); ++i) {
    PACELINE_CHECK(std::ranges::find(run.devices, std::to_string(i)) != run.devices.end(),
                   "--devices {}: the manifest of --emit {} asks for {} device{} on each node, and "
                   "the node's system chooses which; count them from 0, as in --devices 0,1",
                   fmt::join(run.devices, ","), target.name, run.devices.size(),
                   run.devices.size() == 1 ? "" : "s");
  }
  if (!run.devices.empty()) return static_cast<int>(run.devices.size());
  if (run.ranks_per_device > 0) return run.processes / run.ranks_per_device;
  return run.transport == "nccl" || run.device_transport == "nccl" ? run.processes : 0;
}

void add_containers(const Target& target, const EmitOptions& given, const std::string& log_folder,
                    RunPlan& plan) {
  const auto unneeded = [&](const char* option, const std::string& value) {
    PACELINE_CHECK(target.in_containers || value.empty(),
                   "{} is for containers, and a job of --emit {} sees its nodes' own files; leave "
                   "it out",
                   option, target.name);
  };
  unneeded("--emit-image", given.image);
  unneeded("--emit-volume", given.volume);
  if (!target.in_containers) return;
  PACELINE_CHECK(!given.image.empty(),
                 "--emit {}: which image? Give --emit-image IMAGE, one that holds Paceline and the "
                 "program",
                 target.name);
  plan.image = given.image;
  const std::string checkpoints = checkpoint_folder(plan.command);
  plan.volume = volume_of(target, given.volume, plan.name, checkpoints);
  check_it_is_kept("--checkpoint-dir", checkpoints, plan.volume);
  check_it_is_kept("--log-dir", log_folder, plan.volume);
}

}  // namespace

const Target& parse_target(const std::string& text) {
  std::vector<std::string> names;
  for (const Target& target : launch::targets()) names.emplace_back(target.name);
  parse_choice("--emit", text, names);
  return *std::ranges::find(launch::targets(), text, &Target::name);
}

std::string targets_text() {
  std::vector<std::string> lines;
  for (const Target& target : launch::targets())
    lines.push_back(fmt::format("  {:<13} {}", target.name, target.about));
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

RunPlan plan_of(const Target& target, const EmitOptions& given, const launch::RunOptions& run,
                const launch::Environment& settings) {
  PACELINE_CHECK(given.name.empty() || is_name(given.name),
                 "--rdzv-id: {} cannot be a job's name in a manifest; take lower case letters, "
                 "digits and -, a letter first, at most {}",
                 given.name, kLongestName);
  if (!target.own_launcher) check_mpirun_takes_them(target, given);
  RunPlan plan = {.name = given.name.empty() ? name_of_program(run.command.front()) : given.name,
                  .nodes = given.nodes,
                  .processes = run.processes,
                  .command = run.command,
                  .environment = environment_of(run, settings),
                  .max_restarts = run.max_restarts,
                  .stop_grace = in_seconds(run.stop_grace),
                  .devices = devices_of(target, run)};
  if (!target.own_launcher && run.ranks_per_device > 0)
    launch::set_variable(plan.environment,
                         fmt::format("{}={}", variable::kRanksPerDevice, run.ranks_per_device));
  if (run.timeout) plan.timeout = in_seconds(*run.timeout);
  if (!target.in_containers)
    plan.launcher = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const GivenWord& word : given.for_launchers) {
    plan.options.push_back(word.option);
    if (!word.value.empty()) plan.options.push_back(word.value);
  }
  add_containers(target, given, run.logs.folder, plan);
  return plan;
}

}  // namespace paceline::cli
