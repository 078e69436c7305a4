// Each worker adds its rank; all of them learn the sum. Try: paceline run -n 4 -- hello_world
#include <cstdio>

#include "paceline/paceline.h"

int main() {
  paceline::Job job = paceline::init();  // without `paceline run` it is a world of one
  double sum[] = {static_cast<double>(job.rank())};
  job.world().all_reduce(paceline::buffer_of(sum)).wait();
  std::printf("hello from rank %d of %d: the ranks add up to %.0f\n", job.rank(), job.world_size(),
              sum[0]);
}
