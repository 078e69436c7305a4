// Trains a small GPT on a text.
//   Alone:                                    tiny_gpt --sample 300
//   On two workers that share its layers:     paceline run -n 2 -- tiny_gpt --layout tp=2
//   On two such pairs:                        paceline run -n 4 -- tiny_gpt --layout dp=2,tp=2
// The model is in model.h, the loop in training.cpp.
#include <cstdio>
#include <exception>

#include "options.h"
#include "paceline/core/base/base.h"
#include "paceline/core/job/job.h"
#include "training.h"

int main(int argc, char** argv) {
  tiny_gpt::RunOptions options;
  if (const int code = tiny_gpt::read_options(argc, argv, options); code >= 0) return code;
  try {
    paceline::Job job = paceline::init();
    return tiny_gpt::train(job, options);
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.fault() == paceline::Fault::misuse ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
