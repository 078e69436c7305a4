// `paceline profile` records a pass of a training.
#include "paceline/torch/gradient/step_figures.h"

#include <cstdlib>
#include <string>

#include "paceline/core/base/stopwatch.h"
#include "paceline/core/schedule/replay/model_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// The first two passes of each step are long, the last one is short.
TEST(Recording, OfAWindowOfPassesTakesTheLastOneAndBooksNoBackwardAsForward) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("model.json");
  ::setenv("PACELINE_RECORD", file.c_str(), 1);
  double shortest_of_long_passes = 1e9;
  {
    Job job = init();
    ::unsetenv("PACELINE_RECORD");
    Net net;
    DataParallel parallel(net, job, {.backward_passes_per_step = 3});
    auto optimizer = sgd(net);
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      parallel.weight(12);
      const Stopwatch watch;
      for (int pass = 0; pass < 2; ++pass) loss_of(net, samples(step, 30000)).backward();
      shortest_of_long_passes = std::min(shortest_of_long_passes, watch.seconds());
      loss_of(net, samples(step, 1)).backward();
      parallel.step(optimizer);
    }
  }
  const schedule::Model model = schedule::read_model(file);
  EXPECT_LT(model.forward() + model.backward(), shortest_of_long_passes / 2);
  EXPECT_EQ(model.batch, 4) << "12 samples in three passes";
}

}  // namespace
}  // namespace paceline
