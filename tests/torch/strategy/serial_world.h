// The oracle of strategies: one serial program that holds all replicas, in fp64, beside the same
// training on real ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/server/server.h"
#include "paceline/torch/replica/replica.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {

// A training, whoever carries it out.
struct SharedTask {
  int ranks = 3;
  int steps = 20;
  // The batch of a rank in a step, which is its own data; none: it has no batch.
  std::function<std::optional<Samples>(int rank, int step)> batch = uneven_batches;
  bool tells_weights = true;  // the rows of a batch; else all batches weigh 1
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> optimizer =
      momentum_sgd(0.1, 0.9);
  std::string model = "mlp";  // or linear
  int servers = 0;            // of the job

  static std::optional<Samples> uneven_batches(int rank, int step) {
    return samples(100 * rank + step, 2 + (rank + 2 * step) % 4);
  }
  static std::optional<Samples> even_batches(int rank, int step) {
    return samples(100 * rank + step, 4);
  }
  static std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>
  momentum_sgd(double rate, double momentum, bool nesterov = false) {
    return [=](std::vector<at::Tensor> parameters) {
      return std::make_unique<torch::optim::SGD>(
          std::move(parameters),
          torch::optim::SGDOptions(rate).momentum(momentum).nesterov(nesterov));
    };
  }

  double weight(int rank, int step) const {
    const auto one = batch(rank, step);
    return !one ? 0 : tells_weights ? static_cast<double>(one->x.size(0)) : 1;
  }
};

// A small model of a task: an mlp, or one linear layer.
struct TaskNet : nn::Module {
  explicit TaskNet(const std::string& kind) {
    if (kind == "mlp") first = register_module("first", nn::Linear(6, 5));
    last = register_module("last", nn::Linear(kind == "mlp" ? 5 : 6, 3));
    at::Generator generator = at::detail::createCPUGenerator(11);
    const at::NoGradGuard no_grad;
    for (auto& p : parameters())
      p.set_data(at::randn(p.sizes(), generator, at::TensorOptions().dtype(at::kDouble)).mul_(0.4));
  }
  at::Tensor loss(const Samples& s) {
    return at::mse_loss(last(first.is_empty() ? s.x : at::tanh(first(s.x))), s.y);
  }
  nn::Linear first{nullptr}, last{nullptr};
};

inline at::Tensor flat(const nn::Module& net) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& p : net.parameters()) parts.push_back(p.detach().flatten());
  return at::cat(parts);
}
inline at::Tensor flat_gradient(const nn::Module& net) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& p : net.parameters())
    parts.push_back(p.grad().defined() ? p.grad().flatten() : at::zeros_like(p).flatten());
  return at::cat(parts);
}
inline void set_flat(nn::Module& net, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  std::int64_t at = 0;
  for (at::Tensor& p : net.parameters()) {
    p.copy_(values.narrow(0, at, p.numel()).view(p.sizes()));
    at += p.numel();
  }
}
inline void set_flat_gradient(nn::Module& net, const at::Tensor& values) {
  std::int64_t at = 0;
  for (at::Tensor& p : net.parameters()) {
    p.mutable_grad() = values.narrow(0, at, p.numel()).view(p.sizes()).clone();
    at += p.numel();
  }
}

// All replicas of a task in one thread. A strategy's test moves them as its definition says.
class SerialWorld {
 public:
  explicit SerialWorld(const SharedTask& task) : task_(task), samples(task.ranks, 0.0) {
    for (int r = 0; r < task.ranks; ++r) {
      nets.push_back(std::make_unique<TaskNet>(task.model));
      optimizers.push_back(task.optimizer(nets.back()->parameters()));
    }
  }

  int ranks() const { return task_.ranks; }
  bool has_batch(int rank, int step) const { return task_.batch(rank, step).has_value(); }

  // The gradient of a rank's own batch at its own parameters is in its grads.
  void make_gradient(int rank, int step) {
    nets[at(rank)]->zero_grad();
    nets[at(rank)]->loss(*task_.batch(rank, step)).backward();
    samples[at(rank)] += task_.weight(rank, step);
  }
  void update(int rank) { optimizers[at(rank)]->step(); }

  // One step of every rank that has a batch, by its own gradient. `before` may change gradients
  // and parameters of that rank before its optimizer steps.
  void local_step(int step, const std::function<void(int rank)>& before = {}) {
    for (int r = 0; r < ranks(); ++r) {
      if (!has_batch(r, step)) continue;
      make_gradient(r, step);
      if (before) before(r);
      update(r);
    }
  }

  at::Tensor x(int rank) const { return flat(*nets[at(rank)]); }
  void set_x(int rank, const at::Tensor& values) { set_flat(*nets[at(rank)], values); }

  // Weighted by the samples since the last call of restart().
  at::Tensor mean() const {
    double total = 0;
    for (const double one : samples) total += one;
    at::Tensor sum = at::zeros_like(x(0));
    for (int r = 0; r < ranks(); ++r)
      sum += x(r) * (total > 0 ? samples[at(r)] / total : 1.0 / ranks());
    return sum;
  }
  void set_all(const at::Tensor& values) {
    for (int r = 0; r < ranks(); ++r) set_x(r, values);
  }
  void restart() { std::fill(samples.begin(), samples.end(), 0.0); }

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

 private:
  const SharedTask& task_;

 public:
  std::vector<std::unique_ptr<TaskNet>> nets;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<double> samples;  // of each rank since the last exchange
};

struct Trained {
  std::vector<at::Tensor> replicas;   // flat, by rank
  std::vector<at::Tensor> consensus;  // flat, as each rank sees it
  std::vector<StepReport> reports;    // of the last step, by rank
};

// The task on real ranks. `between`: called after each step, for example to change the synchrony.
inline Trained train_on_ranks(
    const SharedTask& task, const std::string& synchrony,
    const std::function<void(DataParallel&, torch::optim::Optimizer&, int step)>& between = {}) {
  Trained trained;
  const auto ranks = static_cast<std::size_t>(task.ranks);
  trained.replicas.resize(ranks);
  trained.consensus.resize(ranks);
  trained.reports.resize(ranks);
  run_ranks(task.ranks, {.servers = task.servers}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    auto net = std::make_shared<TaskNet>(task.model);
    DataParallel parallel(net, job, {.synchrony = synchrony});
    const auto optimizer = task.optimizer(net->parameters());
    for (int k = 0; k < task.steps; ++k) {
      const auto batch = task.batch(job.rank(), k);
      if (task.tells_weights || !batch) parallel.weight(task.weight(job.rank(), k));
      net->zero_grad();
      if (batch) {
        const at::Tensor loss = net->loss(*batch);
        loss.backward();
        parallel.loss(loss.item<double>());
      }
      EXPECT_TRUE(parallel.step(*optimizer));
      if (between) between(parallel, *optimizer, k);
    }
    const auto rank = static_cast<std::size_t>(job.rank());
    trained.replicas[rank] = flat(*net);
    trained.reports[rank] = parallel.last_step();
    const auto shared = parallel.consensus();
    trained.consensus[rank] = flat(*net);
  });
  return trained;
}

// Replicas within `tolerance` of the serial program's, relative to their largest value; the
// consensus with equal bits on all ranks.
inline void expect_equals_serial(const Trained& trained, const SerialWorld& serial,
                                 const at::Tensor& consensus, double tolerance = 1e-10) {
  for (int r = 0; r < serial.ranks(); ++r) {
    EXPECT_LE(difference(trained.replicas[SerialWorld::at(r)], serial.x(r)), tolerance)
        << "replica of rank " << r;
    EXPECT_TRUE(trained.consensus[SerialWorld::at(r)].equal(trained.consensus[0]))
        << "consensus of rank " << r;
  }
  EXPECT_LE(difference(trained.consensus[0], consensus), tolerance) << "consensus";
}

// Tasks on which each lockstep strategy is held against its serial program: 2 to 4 ranks, even and
// uneven batches, ranks that run out of batches (3, 5, 5, 7).
inline std::vector<SharedTask> oracle_tasks(int steps = 100) {
  std::vector<SharedTask> tasks;
  for (const int ranks : {2, 3, 4}) {
    for (const char* model : {"mlp", "linear"})
      tasks.push_back({.ranks = ranks, .steps = steps, .model = model});
    tasks.push_back({.ranks = ranks,
                     .steps = steps,
                     .batch = SharedTask::even_batches,
                     .tells_weights = false});
  }
  tasks.push_back({.ranks = 4, .steps = 7, .batch = [](int rank, int step) {
                     const int lengths[] = {3, 5, 5, 7};
                     return step < lengths[rank] ? SharedTask::uneven_batches(rank, step)
                                                 : std::nullopt;
                   }});
  return tasks;
}

}  // namespace paceline
