// `paceline doctor`: tests what this host offers to a run, and names a remedy for each defect.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/app/launch/hosts/host_checks.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/version.h"
#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"

namespace paceline::cli {
namespace {

using launch::HostCheck;

constexpr const char* kDoctorAbout =
    "Checks by trying whether this host can carry a run: shared memory, limits, interfaces, ports, "
    "clocks, and\n"
    "whether two processes can train over each transport. It changes nothing.";

constexpr const char* kDoctorMore =
    R"(Each line is ok, warn (it works, with a drawback) or fail (a run needs it), and tells the remedy.

Exit codes: 0 no line is fail; 1 a line is fail; 2 wrong usage

Examples:
  paceline doctor
  paceline doctor --json report.json       also for a program to read; - is stdout
  paceline run --hosts a:1,b:1 -- paceline doctor      on each host
)";

constexpr std::array kLevels = {"ok", "warn", "fail"};

const char* name_of(HostCheck::Level level) {
  return kLevels[static_cast<std::size_t>(level)];
}

std::string as_text(const std::vector<HostCheck>& checks) {
  std::string text;
  for (const HostCheck& check : checks) {
    text += fmt::format("{:<5} {:<14} {}\n", name_of(check.level), check.name, check.found);
    if (!check.remedy.empty()) text += fmt::format("{:<20} {}\n", "", check.remedy);
  }
  return text;
}

nlohmann::json as_json(const std::vector<HostCheck>& checks, bool ok) {
  nlohmann::json list = nlohmann::json::array();
  for (const HostCheck& check : checks) {
    list.push_back({{"name", check.name},
                    {"level", name_of(check.level)},
                    {"found", check.found},
                    {"remedy", check.remedy}});
  }
  return {{"version", kVersion}, {"ok", ok}, {"checks", list}};
}

// The part of each of the two processes that try a transport.
int be_worker() {
  Job job = init();
  std::vector<float> values(1 << 20, 1);
  job.world().all_reduce(buffer_of(values)).wait();
  const auto sum = static_cast<float>(job.world_size());
  return std::ranges::all_of(values, [sum](float value) { return value == sum; }) ? 0 : 1;
}

struct DoctorLine {
  DoctorLine() {
    app.footer(kDoctorMore);
    app.add_option("--json", json, "write the findings as JSON")->type_name("FILE");
    app.add_flag("--as-worker", as_worker)->group("");  // check_transport starts it
  }
  CLI::App app{kDoctorAbout, "paceline doctor"};
  std::string json;
  bool as_worker = false;
};

int doctor_main(const std::vector<std::string>& arguments) {
  DoctorLine line;
  CLI::App& app = line.app;
  const std::string& json = line.json;
  auto [words, rest] = split_command(app, arguments);
  PACELINE_CHECK(rest.empty(), "{} is not an option; `paceline doctor` takes no program",
                 rest.front());
  if (!parse(app, std::move(words))) return 0;
  if (line.as_worker) return be_worker();

  std::vector<HostCheck> checks = {{HostCheck::Level::ok, "paceline", kVersion}};
  std::ranges::move(launch::check_host(), std::back_inserter(checks));
  const auto executable = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const char* transport : {"shm", "tcp"}) {
    checks.push_back(launch::check_transport(transport, executable, {"doctor", "--as-worker"}));
  }
  checks.push_back(launch::check_ucx(executable, {"doctor", "--as-worker"}));
  for (const char* library : {"openmpi", "mpich"})
    checks.push_back(launch::check_mpi(library, executable, {"doctor", "--as-worker"}));
  checks.push_back(launch::check_cuda_devices());
  checks.push_back(launch::check_nccl(executable, {"doctor", "--as-worker"}));
  const bool ok = std::ranges::none_of(
      checks, [](const HostCheck& c) { return c.level == HostCheck::Level::fail; });
  if (json != "-") fmt::print("{}", as_text(checks));
  if (!json.empty()) write_output("--json", json, as_json(checks, ok).dump(2) + '\n');
  return ok ? 0 : 1;
}

}  // namespace

namespace catalogue {

Subcommand doctor() {
  return {.name = "doctor",
          .summary = "check whether this host can run jobs, and how to fix what is missing",
          .main = doctor_main,
          .described = described<DoctorLine>,
          .place = 70};
}

}  // namespace catalogue
}  // namespace paceline::cli
