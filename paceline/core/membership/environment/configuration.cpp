#include "paceline/core/membership/environment/configuration.h"

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <vector>

#include "paceline/core/base/version.h"
#include "paceline/core/membership/handshake/member_name.h"

namespace paceline::membership {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings parsed(const std::string& text) {
  Settings settings;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    if (equals != std::string::npos)
      settings.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return settings;
}

std::string value_in(const Settings& settings, const std::string& name) {
  for (const auto& [key, value] : settings) {
    if (key == name) return value;
  }
  return "none";
}

std::string remedy_for(const std::string& name) {
  static const std::map<std::string, std::string> remedies = {
      {"version", "install the same version everywhere"},
      {"engine", "set PACELINE_TRANSPORT and PACELINE_DEVICE_TRANSPORT to the same on all ranks"},
      {"device transport",
       "set PACELINE_DEVICE_TRANSPORT (paceline run --device-transport) to the same on all ranks"},
      {"determinism", "set PACELINE_DETERMINISM to the same on all ranks"},
      {"operation_timeout",
       "set PACELINE_OPERATION_TIMEOUT (paceline run --operation-timeout) to the same on all "
       "ranks"},
  };
  const auto found = remedies.find(name);
  return found == remedies.end() ? "set it to the same on all ranks" : found->second;
}

}  // namespace

std::string configuration_of(const Environment& environment) {
  return fmt::format(
      "version={}\nengine={}\ndevice transport={}\ndeterminism={}\noperation_timeout={} ms\n",
      kVersion, environment.engine.empty() ? "none" : environment.engine,
      name_of(environment.device_transport), environment.reproducible ? "reproducible" : "fast",
      environment.operation_timeout.count());
}

std::optional<Failure> first_difference(const std::string& own, int own_member,
                                        const std::string& theirs, int their_member, int ranks) {
  if (own == theirs) return std::nullopt;
  const Settings ours = parsed(own), others = parsed(theirs);
  const bool own_first = own_member < their_member;
  const int low = own_first ? own_member : their_member;
  const int high = own_first ? their_member : own_member;
  Settings names = ours;
  names.insert(names.end(), others.begin(), others.end());
  for (const auto& [name, ignored] : names) {
    const std::string a = value_in(ours, name), b = value_in(others, name);
    if (a == b) continue;
    return Failure{Fault::mismatch,
                   fmt::format("the ranks differ in their {}: {} has {}, {} has {}; {}", name,
                               member_name(low, ranks), own_first ? a : b, member_name(high, ranks),
                               own_first ? b : a, remedy_for(name)),
                   {low, high}};
  }
  return Failure{Fault::mismatch,
                 fmt::format("{} and {} list their settings in another order: install the "
                             "same version everywhere",
                             member_name(low, ranks), member_name(high, ranks)),
                 {low, high}};
}

}  // namespace paceline::membership
