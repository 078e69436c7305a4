#include <paceline/linear.h>

#include <cstdio>

namespace linear = paceline::linear;

// Each rank has one sample (feature 1, label 1): the optimum is 1 / (1 + l2).
int main() {
  paceline::Job job = paceline::init();
  linear::Samples samples;
  samples.rows.width = 1;
  for (int i = 0; i < job.world_size(); ++i) {
    const std::uint32_t feature[] = {0};
    const double value[] = {1};
    samples.rows.append({feature, value});
    samples.labels.push_back(1);
  }
  const linear::Problem problem{.loss = linear::parse_loss("squared").value(), .l2 = 0.25};
  const auto choice = linear::parse_solver("cocoa_plus").value();
  const auto solver =
      make_solver(choice, {problem, samples, linear::Split::contiguous, job.world()});
  for (int round = 0; round < 30; ++round) solver->round();
  std::printf("weight %.3f\n", solver->weights()[0]);
}
