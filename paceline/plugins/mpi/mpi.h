// The public header of the MPI engine, for programs that use MPI themselves.
//
// A program under mpirun does not need it: PACELINE_TRANSPORT=mpi makes MPI carry Job::world(). A
// program with an MPI_Comm of its own gets a Communicator of the same ranks in the same order,
// whose collectives MPI carries. mpi_engine.cpp is the plugin, a shared object for each MPI
// library; docs/decisions/0011-engines-carry-data.md says what it promises.
#pragma once

#include <mpi.h>

#include <memory>
#include <numeric>
#include <vector>

#include "paceline/core/job/engine_group.h"

namespace paceline {

// Every rank of `comm` must call it, in the same order, after init() under mpirun and with MPI
// initialised for MPI_THREAD_MULTIPLE (or not at all). `comm` may end before the Communicator. Sums
// are made in MPI's order (Determinism::fast). THROWS Error: misuse (no plugin, MPI's threads,
// counts).
inline std::unique_ptr<Communicator> communicator_of(Job& job, MPI_Comm comm) {
#if defined(OPEN_MPI)
  constexpr const char* kPlugin = "mpi_openmpi";
#else
  constexpr const char* kPlugin = "mpi_mpich";  // and the libraries with its binary interface
#endif
  MPI_Group members, world;
  MPI_Comm_group(comm, &members);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int size = 0;
  MPI_Group_size(members, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size)), world_ranks(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  MPI_Group_translate_ranks(members, size, ranks.data(), world, world_ranks.data());
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  return job::engine_group(job, kPlugin, world_ranks, [comm](bool here) {
    int all = here ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm);
    return all == 1;
  });
}

}  // namespace paceline
