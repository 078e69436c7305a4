// A program that uses MPI itself, and Paceline on an MPI_Comm of its own; built once for each MPI
// library. Says "held TheDoorsClaims" where all of it is right.
#include <fmt/format.h>

#include <cstdio>

#include "paceline/core/job/job.h"
#include "paceline/plugins/mpi/mpi.h"
#include "tests/support/conformance.h"

namespace {

// The odd and the even ranks, each in descending order; one half after the other.
void go_through(paceline::Job& job) {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, job.rank() % 2, -job.rank(), &half);
  int rank = -1;
  MPI_Comm_rank(half, &rank);
  if (job.rank() % 2 == 0) job.world().barrier().wait();
  const auto group = paceline::communicator_of(job, half);
  if (job.rank() % 2 != 0) job.world().barrier().wait();
  MPI_Comm_free(&half);
  if (group->rank() != rank) throw std::runtime_error("the order of the ranks is another one");
  for (const auto& claim : paceline::test::conformance()) {
    if (!claim.ends_generation) claim.check(job, *group);
  }
  job.world().barrier().wait();
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  try {
    paceline::Job job = paceline::init();
    go_through(job);
    fmt::print("held TheDoorsClaims\n");
  } catch (const std::exception& error) {
    fmt::print("broken TheDoorsClaims: {}\n", error.what());
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
