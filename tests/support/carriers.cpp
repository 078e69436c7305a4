#include "tests/support/carriers.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {

std::vector<Carrier> carriers() {
  const auto own = [](std::string name, std::string transport) {
    return Carrier{
        std::move(name), "", "", {binary("paceline"), "run", "--transport", transport}, {}};
  };
  Carrier ucx = own("Ucx", "ucx"), ucx_over_tcp = own("UcxOverTcp", "ucx");
  ucx.plugin = ucx_over_tcp.plugin = "ucx";
  ucx_over_tcp.environment = {{"UCX_TLS", "tcp"}};
  return {own("SharedMemory", "shm"),
          own("Tcp", "tcp"),
          ucx,
          ucx_over_tcp,
          {"OpenMpi",
           "openmpi",
           "mpi_openmpi",
           {"mpirun.openmpi", "--oversubscribe"},
           {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}},
          {"Mpich", "mpich", "mpi_mpich", {"mpirun.mpich"}, {}}};
}

std::string missing(const Carrier& carrier) {
  std::vector<std::string> files;
  if (!carrier.plugin.empty()) files.push_back(plugin_file(carrier.plugin));
  if (!carrier.mpi.empty()) files.push_back("/usr/bin/" + carrier.launcher[0]);
  for (const std::string& file : files) {
    if (::access(file.c_str(), R_OK) != 0)
      return fmt::format("{} is missing; run scripts/setup --launchers, and build again", file);
  }
  return {};
}

Finished run_by(const Carrier& carrier, int ranks, const std::vector<std::string>& program,
                Deadline deadline) {
  const TemporaryFolder temporary;
  ProcessOptions options{.command = carrier.launcher, .environment = carrier.environment};
  // Open MPI leaves files, and when a rank dies its shared memory too.
  options.environment["TMPDIR"] = temporary.path();
  options.environment["OMPI_MCA_btl_vader_backing_directory"] = temporary.path();
  options.environment["PACELINE_TRANSPORT"] = "mpi";
  options.command.insert(options.command.end(), {"-n", std::to_string(ranks)});
  if (carrier.mpi.empty()) {
    options.environment.erase("PACELINE_TRANSPORT");
    options.command.insert(options.command.end(), {"--determinism", "fast", "--"});
  }
  options.command.insert(options.command.end(), program.begin(), program.end());
  return run(options, deadline);
}

}  // namespace paceline::test
