#include <paceline/train.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>

int main() {
  paceline::Job job = paceline::init();
  torch::nn::Linear model(1, 1);
  paceline::DataParallel parallel(model, job);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  model->forward(torch::full({1, 1}, 1.0 + job.rank())).sum().backward();
  parallel.step(optimizer);
  std::printf("gradient %g\n", model->weight.grad().item<double>());
}
