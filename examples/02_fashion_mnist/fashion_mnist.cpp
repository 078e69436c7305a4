// Trains a network on Fashion-MNIST. Alone:           fashion_mnist --model cnn
//                                    On two workers:  paceline run -n 2 -- fashion_mnist --model
//                                    cnn
// The training loop is in training.cpp; everything about Paceline in it is `DataParallel`, `weight`
// and `step`.
#include <cstdio>
#include <exception>

#include "options.h"
#include "paceline/core/base/result.h"
#include "paceline/core/job/job.h"
#include "training.h"

int main(int argc, char** argv) {
  Options options;
  if (const int code = read_options(argc, argv, options); code >= 0) return code;
  try {
    paceline::Job job = paceline::init();
    return train(job, options);
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.fault() == paceline::Fault::misuse ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
