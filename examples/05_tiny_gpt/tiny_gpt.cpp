// Trains a small GPT on a text.
//   Alone:                                    tiny_gpt --sample 300
//   On two workers that share its layers:     paceline run -n 2 -- tiny_gpt --layout tp=2
//   On two such pairs:                        paceline run -n 4 -- tiny_gpt --layout dp=2,tp=2
// The model is in model.h, the loop in training.cpp.
#include "options.h"
#include "paceline/paceline.h"
#include "training.h"

int main(int argc, char** argv) {
  tiny_gpt::RunOptions options;
  if (const int code = tiny_gpt::read_options(argc, argv, options); code >= 0) return code;
  return paceline::run_main([&](paceline::Job& job) { return tiny_gpt::train(job, options); });
}
