#include "paceline/app/cli/run/device_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/app/cli/shared/job_options.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"

namespace paceline::cli {
namespace {

constexpr int kMostRanksOfADevice = 4096;

// "--devices 0,1 with --ranks-per-device 2"
std::string devices_text(const launch::RunOptions& options) {
  return fmt::format("--devices {} with --ranks-per-device {}", fmt::join(options.devices, ","),
                     options.ranks_per_device);
}

int ranks_on(const launch::RunOptions& options) {
  return static_cast<int>(options.devices.size()) * options.ranks_per_device;
}

// `where`: "-n" or "--hosts: host a", to whom the number is given by `remedy`.
void check_count(const launch::RunOptions& options, const std::string& where, int count,
                 const std::string& remedy) {
  const int each = options.ranks_per_device, devices = static_cast<int>(options.devices.size());
  if (each > 0 && devices > 0) {
    PACELINE_CHECK(count == ranks_on(options),
                   "{} has {} processes, and {} make {} on each host; give {}{}, or other devices",
                   where, count, devices_text(options), ranks_on(options), remedy,
                   ranks_on(options));
  } else if (each > 0) {
    PACELINE_CHECK(count % each == 0,
                   "{} has {} processes, which is no multiple of --ranks-per-device {}; give "
                   "{}{}, or another number of ranks for each device",
                   where, count, each, remedy, (count / each + 1) * each);
  }
  if (!wants_nccl(options)) return;
  PACELINE_CHECK(each <= 1 && (devices == 0 || count <= devices),
                 "{} has {} processes, some of which would share a device, and NCCL wants a device "
                 "for each; give as many --devices as processes, or --device-transport auto",
                 where, count);
}

}  // namespace

void take_devices(const GivenDevices& given, bool counted, launch::RunOptions& options) {
  if (!given.transport.empty())
    options.device_transport =
        parse_choice("--device-transport", given.transport, {"auto", "direct", "nccl", "staged"});
  else if (options.transport == "nccl") options.device_transport = "nccl";
  check_device_transport(options);
  if (!given.ranks_per_device.empty())
    options.ranks_per_device =
        parse_count("--ranks-per-device", given.ranks_per_device, 1, kMostRanksOfADevice);
  if (given.devices.empty()) return;
  options.devices = launch::parse_devices(given.devices).value();
  if (counted) return;
  if (options.ranks_per_device == 0) options.ranks_per_device = 1;
  options.processes = ranks_on(options);
}

void check_devices(const launch::RunOptions& options) {
  for (const launch::HostShare& host : options.hosts)
    check_count(options, fmt::format("--hosts: host {}", host.name), host.count, host.name + ":");
  if (options.hosts.empty()) check_count(options, "-n: each host", options.processes, "-n ");
}

void check_devices_here(const launch::RunOptions& options) {
  if (options.devices.empty()) return;
  launch::Environment environment = launch::own_environment();
  for (const std::string& entry : options.passed) launch::set_variable(environment, entry);
  (void)launch::visible_devices(options.devices, environment).value();
}

}  // namespace paceline::cli
