// Trains a network on Fashion-MNIST with everything that Paceline can do behind an option: the
// program of tests, benches and the quickstart. examples/02_mnist is the one to copy.
//
//   fashion_mnist --model cnn                          alone
//   paceline run -n 2 -- fashion_mnist --model cnn     on two workers
#include "options.h"
#include "paceline/core/job/job.h"
#include "training.h"

int main(int argc, char** argv) {
  Options options;
  if (const int code = read_options(argc, argv, options); code >= 0) return code;
  return paceline::run_main([&](paceline::Job& job) { return train(job, options); });
}
