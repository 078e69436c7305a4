#include "paceline/app/launch/hosts/host.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#include "paceline/core/base/processors.h"
#include "paceline/core/base/result.h"

namespace paceline::launch {

int usable_cores() {
  return own_processors().count();
}

int free_port(transport::PortRange ports) {
  auto probe = transport::listen_tcp({"127.0.0.1", 0}, ports);
  if (!probe) return 0;
  const auto address = transport::local_address(probe->get());
  return address ? address.value().port : 0;
}

std::string random_job_id() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    throw Error(io_failure("cannot get random bytes", errno));
  }
  return fmt::format("{:016x}", number);
}

}  // namespace paceline::launch
