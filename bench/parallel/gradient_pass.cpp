// Measures the cost of DataParallel's pass over the gradients in an mlp step (784-1024-1024-10,
// batch 128, one thread, f32).
//
// One model runs in alternating blocks of steps: plain; under a DataParallel of one rank; and with
// the pass that DataParallel makes in a larger world, without any communication. In that pass the
// hook of each parameter brings its gradient into its slot, and grad becomes the slot; in one block
// gradients are computed there, in another they are copied. Prints medians, also of the time inside
// the hooks. The pass should cost at most 3 % of a step. The heap keeps freed memory (mallopt),
// because page faults, which depend on the order of frees, would blur the differences.
#include <malloc.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/gradient_buckets.h"
#include "paceline/torch/parallel/parallel.h"

namespace nn = torch::nn;

namespace {

template <typename Call>
double milliseconds(Call call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Training {
  nn::Sequential model{nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                       nn::Linear(1024, 10)};
  torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions(0.01)};
  at::Tensor x = at::rand({128, 784}), y = at::randint(10, {128}, at::kLong);

  void backward() {
    optimizer.zero_grad();
    nn::functional::cross_entropy(model->forward(x), y).backward();
  }
};

}  // namespace

int main() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  at::set_num_threads(1);
  paceline::Job job = paceline::init();
  Training training;

  const auto parameters = training.model->parameters();
  std::vector<paceline::schedule::Gradient> shapes;
  for (const auto& p : parameters) shapes.push_back({p.nbytes(), paceline::Dtype::f32, 0});
  paceline::gradient::GradientBuckets buckets(
      paceline::schedule::plan_buckets(
          shapes, paceline::schedule::reverse_registration_order(static_cast<int>(shapes.size()))),
      parameters, parameters, job.world());
  double in_hooks = 0;
  const auto take = [&](std::size_t i, bool held) {
    in_hooks += milliseconds([&] {
      const at::NoGradGuard no_grad;
      buckets.take(i, held);
    });
  };
  const auto hooks = [&](bool born) {
    std::vector<paceline::GradientHook> all;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      paceline::GradientEvents events{[] { return true; }, [&, i](bool held) { take(i, held); }};
      if (born) events.gradient_memory = [&, i] { return buckets.lend(i); };
      all.emplace_back(parameters[i], std::move(events));
    }
    return all;
  };

  std::vector<double> plain, watched, born, copied, in_hooks_born, in_hooks_copied;
  constexpr int kBlocks = 40, kSteps = 12, kSettling = 2;
  for (int block = 0; block < kBlocks; ++block) {
    const auto run = [&](std::vector<double>& times, auto step) {
      for (int i = 0; i < kSteps; ++i) {
        const double time = milliseconds([&] { training.backward(), step(); });
        if (i >= kSettling) times.push_back(time);
      }
    };
    run(plain, [&] { training.optimizer.step(); });
    {
      paceline::DataParallel parallel(training.model, job);
      run(watched, [&] { parallel.step(training.optimizer); });
    }
    const auto with_pass = [&](bool in_place, std::vector<double>& steps,
                               std::vector<double>& inside) {
      const auto watching = hooks(in_place);
      run(steps, [&] {
        training.optimizer.step();
        inside.push_back(in_hooks);
        in_hooks = 0;
      });
    };
    with_pass(true, born, in_hooks_born);
    with_pass(false, copied, in_hooks_copied);
  }
  const double step = median(plain);
  const auto tell = [&](const char* what, double more) {
    std::printf("%-36s %+7.3f ms (%+.2f %%)\n", what, more, 100 * more / step);
  };
  std::printf("%-36s %7.3f ms (medians of %zu)\n", "plain step", step, plain.size());
  tell("more in a world of one", median(watched) - step);
  tell("more with gradients born in place", median(born) - step);
  tell("  of it inside the hooks", median(in_hooks_born));
  tell("more with gradients copied", median(copied) - step);
  tell("  of it inside the hooks", median(in_hooks_copied));
}
