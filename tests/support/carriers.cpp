#include "tests/support/carriers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace paceline::test {

namespace fs = std::filesystem;

std::vector<Carrier> carriers() {
  const auto own = [](std::string name, std::string transport) {
    return Carrier{std::move(name), "", {binary("paceline"), "run", "--transport", transport}, {}};
  };
  return {own("SharedMemory", "shm"),
          own("Tcp", "tcp"),
          {"OpenMpi",
           "openmpi",
           {"mpirun.openmpi", "--oversubscribe"},
           {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}},
          {"Mpich", "mpich", {"mpirun.mpich"}, {}}};
}

std::string missing(const Carrier& carrier) {
  if (carrier.mpi.empty()) return {};
  const auto plugin = fs::path(binary("paceline")).parent_path().parent_path() / "lib/paceline" /
                      fmt::format("libpaceline_mpi_{}.so", carrier.mpi);
  for (const std::string& file : {plugin.string(), "/usr/bin/" + carrier.launcher[0]}) {
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
