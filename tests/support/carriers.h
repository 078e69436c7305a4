// Ways to carry collectives between processes, with the launcher of each: shared memory, TCP
// and UCX under `paceline run`, MPI under the mpirun of each library.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace paceline::test {

struct Carrier {
  std::string name;
  std::string mpi;     // the library; empty: `paceline run`
  std::string plugin;  // empty: none
  std::vector<std::string> launcher;
  std::map<std::string, std::string> environment;
};

std::vector<Carrier> carriers();
// Why it cannot be tried here; empty if it can.
std::string missing(const Carrier& carrier);
// The determinism is `fast`.
Finished run_by(const Carrier& carrier, int ranks, const std::vector<std::string>& program,
                Deadline deadline = Deadline::in(std::chrono::seconds(60)));

inline void PrintTo(const Carrier& carrier, std::ostream* to) {
  *to << carrier.name;
}

}  // namespace paceline::test
