#include <paceline/paceline.h>

#include <cstdio>
#include <vector>

int main() {
  paceline::Job job = paceline::init();
  std::vector<double> values = {1.0 + job.rank()};
  job.world().all_reduce(paceline::buffer_of(values)).wait();
  std::printf("sum %g\n", values[0]);
}
