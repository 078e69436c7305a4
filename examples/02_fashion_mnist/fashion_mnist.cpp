// Trains a network on Fashion-MNIST.
//
//   fashion_mnist --model cnn                          alone
//   paceline run -n 2 -- fashion_mnist --model cnn     on two workers
//
// The training loop is in training.cpp; everything about Paceline in it is `DataParallel`, `weight`
// and `step`.
#include "options.h"
#include "paceline/core/job/run_main.h"
#include "training.h"

int main(int argc, char** argv) {
  Options options;
  if (const int code = read_options(argc, argv, options); code >= 0) return code;
  return paceline::run_main([&](paceline::Job& job) { return train(job, options); });
}
