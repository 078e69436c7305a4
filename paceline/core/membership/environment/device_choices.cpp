#include "paceline/core/membership/environment/device_choices.h"

#include <fmt/format.h>

#include <cstdlib>

#include "paceline/core/membership/environment/variables.h"

namespace paceline::membership {
namespace {

Failure contradicts(const Environment& environment) {
  return {Fault::misuse,
          fmt::format("{}={} and {}={} contradict each other, since one engine carries a job's "
                      "collectives: leave one out",
                      variable::kTransport, environment.engine, variable::kDeviceTransport,
                      name_of(environment.device_transport)),
          {}};
}

}  // namespace

Result<> read_device_transport(const Variables& variables, Environment& e) {
  if (const char* text = variables(variable::kDeviceTransport)) {
    const auto wanted = device_transport_of(text);
    if (!wanted) return senseless(variable::kDeviceTransport, text, "auto, direct, nccl or staged");
    e.device_transport = *wanted;
  }
  const bool by_nccl = e.device_transport == DeviceTransport::nccl;
  const bool open = e.device_transport == DeviceTransport::automatic;
  if (e.engine == "nccl" && !open && !by_nccl) return contradicts(e);
  if (e.engine == "mpi" && by_nccl) return contradicts(e);
  if (by_nccl) e.engine = "nccl";
  else if (e.engine == "nccl") e.device_transport = DeviceTransport::nccl;
  return Done{};
}

Result<int> ranks_per_device(const Variables& variables) {
  if (variables(variable::kRanksPerDevice) == nullptr) return 0;
  int ranks = 0;
  if (auto read = read_int(variables, variable::kRanksPerDevice, 1, kMostRanks, ranks); !read)
    return read.error();
  return ranks;
}

Result<int> ranks_per_device() {
  return ranks_per_device([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace paceline::membership
