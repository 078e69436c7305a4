// Mirrored: data parallel training on several devices of one process.
//
//   paceline::Mirrored<Net> mirrored(
//       {torch::kCPU, torch::kCPU}, [] { return std::make_shared<Net>(); },
//       [](auto parameters) { return std::make_unique<torch::optim::SGD>(parameters, 0.1); });
//   for (auto& batch : loader)
//     double loss = mirrored.step({batch.data, batch.target}, [](Net& net, const auto& part) {
//       return torch::nn::functional::cross_entropy(net.forward(part[0]), part[1]);
//     });
//
// Each device has a replica of the model, an optimizer and a thread. A step cuts the global batch
// into one part for each, as equal as can be, computes on all at once, and averages over a world of
// ranks inside this process: the path, and the bits, of as many processes with a DataParallel each.
// at::set_num_threads of the caller's thread counts for every replica. At present devices are the
// CPU, any number of times.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/core/job/local_world.h"
#include "paceline/torch/parallel/data_parallel.h"

namespace paceline::parallel {

// One thread for each replica of a model inside this process. The threads live as long as this,
// because libtorch keeps things by thread. THREAD: one caller at a time.
class ReplicaThreads {
 public:
  explicit ReplicaThreads(std::size_t count);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  std::size_t size() const { return threads_.size(); }
  // Runs task(i) on thread i, on all at once, and returns when all have ended. THROWS what the
  // first of them to throw threw.
  void run(const std::function<void(std::size_t)>& task);

 private:
  void serve(std::size_t index);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t running_ = 0;
  std::exception_ptr first_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace paceline::parallel

namespace paceline {

struct MirroredOptions {
  DataParallelOptions parallel = {};
  LocalWorldOptions world = {};
};

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

// Mirrored without the model's type.
class MirroredModules {
 public:
  using Make = std::function<std::shared_ptr<torch::nn::Module>()>;
  using Loss = std::function<at::Tensor(torch::nn::Module&, const std::vector<at::Tensor>&)>;

  MirroredModules(const std::vector<torch::Device>& devices, const Make& make,
                  const MakeOptimizer& make_optimizer, const MirroredOptions& options);
  ~MirroredModules();
  MirroredModules(const MirroredModules&) = delete;
  MirroredModules& operator=(const MirroredModules&) = delete;

  std::size_t size() const { return threads_.size(); }
  double step(const std::vector<at::Tensor>& batch, const Loss& loss);
  torch::nn::Module& replica(std::size_t i);
  torch::optim::Optimizer& optimizer(std::size_t i);
  DataParallel& parallel(std::size_t i);

 private:
  struct Replica;
  void on_each(const std::function<void(Replica&, std::size_t)>& task);
  Replica& alive(std::size_t i);

  std::vector<std::unique_ptr<Replica>> replicas_;
  parallel::ReplicaThreads threads_;
};

// THREAD: one caller at a time. What the functions that are handed in touch beside their arguments
// they touch from several threads at once.
template <typename Model>
class Mirrored {
 public:
  // `make` and `make_optimizer` are called once for each device; all replicas start with the values
  // of the first. THROWS Error (misuse): no device, or one that is not the CPU; and as
  // DataParallel's constructor.
  Mirrored(const std::vector<torch::Device>& devices,
           const std::function<std::shared_ptr<Model>()>& make, const MakeOptimizer& make_optimizer,
           const MirroredOptions& options = {})
      : modules_(
            devices, [&]() -> std::shared_ptr<torch::nn::Module> { return make(); }, make_optimizer,
            options) {}

  std::size_t size() const { return modules_.size(); }

  // One step on a global batch: tensors with the same number of rows. `loss` is the mean over the
  // rows that it is given, and is called within DataParallel::autocast(); a replica without rows
  // calls it, on an empty part, only where the model has SyncBatchNorm layers, in which the others
  // wait for it. Returns the mean over the global batch. All gradients are zeroed before. THROWS
  // what the first replica to fail threw, and ends: a later call is misuse.
  double step(const std::vector<at::Tensor>& batch,
              const std::function<at::Tensor(Model&, const std::vector<at::Tensor>&)>& loss) {
    return modules_.step(batch,
                         [&](torch::nn::Module& module, const std::vector<at::Tensor>& part) {
                           return loss(dynamic_cast<Model&>(module), part);
                         });
  }

  Model& replica(std::size_t i = 0) { return dynamic_cast<Model&>(modules_.replica(i)); }
  torch::optim::Optimizer& optimizer(std::size_t i) { return modules_.optimizer(i); }
  DataParallel& parallel(std::size_t i) { return modules_.parallel(i); }

 private:
  MirroredModules modules_;
};

}  // namespace paceline
