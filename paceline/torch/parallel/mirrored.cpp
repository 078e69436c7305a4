#include "paceline/torch/parallel/mirrored.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/norm/norm.h"

namespace paceline::parallel {

ReplicaThreads::ReplicaThreads(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
}

ReplicaThreads::~ReplicaThreads() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::run(const std::function<void(std::size_t)>& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  running_ = threads_.size();
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_ == 0; });
  if (auto first = std::exchange(first_, nullptr)) std::rethrow_exception(first);
}

void ReplicaThreads::serve(std::size_t index) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t done = 0;; done = round_) {
    changed_.wait(lock, [&] { return over_ || round_ != done; });
    if (over_) return;
    const auto& task = *task_;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      task(index);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown && !first_) first_ = thrown;
    if (--running_ == 0) changed_.notify_all();
  }
}

}  // namespace paceline::parallel

namespace paceline {

struct MirroredModules::Replica {
  Job job;
  std::shared_ptr<torch::nn::Module> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<DataParallel> parallel;
  bool mixes_rows = false;  // has layers in which replicas wait for each other's rows
};

namespace {

std::size_t checked_count(const std::vector<torch::Device>& devices) {
  if (devices.empty())
    throw_misuse("Mirrored: no device was named; {torch::kCPU, torch::kCPU} makes two replicas");
  for (const torch::Device& device : devices) {
    if (!device.is_cpu()) {
      throw_misuse(
          c10::str("Mirrored: replicas on ", device,
                   " are not carried at present: name torch::kCPU, once for each replica"));
    }
  }
  return devices.size();
}

std::int64_t rows_of(const std::vector<at::Tensor>& batch) {
  if (batch.empty() || batch[0].dim() == 0)
    throw_misuse("Mirrored::step: a batch is at least one tensor that has rows");
  for (const at::Tensor& tensor : batch) {
    if (tensor.dim() == 0 || tensor.size(0) != batch[0].size(0)) {
      throw_misuse(c10::str("Mirrored::step: the batch's tensors ", describe(batch[0]), " and ",
                            describe(tensor), " do not have the same number of rows"));
    }
  }
  return batch[0].size(0);
}

}  // namespace

MirroredModules::MirroredModules(const std::vector<torch::Device>& devices, const Make& make,
                                 const MakeOptimizer& make_optimizer,
                                 const MirroredOptions& options)
    : threads_(checked_count(devices)) {
  for (Job& job : make_local_world(static_cast<int>(devices.size()), options.world)) {
    auto model = make();
    auto optimizer = make_optimizer(model->parameters());
    replicas_.push_back(std::make_unique<Replica>(
        Replica{std::move(job), std::move(model), std::move(optimizer), nullptr}));
    replicas_.back()->mixes_rows = !sync_batch_norms_in(*replicas_.back()->model).empty();
  }
  on_each([&](Replica& replica, std::size_t) {
    replica.parallel =
        std::make_unique<DataParallel>(*replica.model, replica.job, options.parallel);
  });
}

// Each on its own thread, since ranks that leave wait for each other a little.
MirroredModules::~MirroredModules() {
  threads_.run([&](std::size_t i) { replicas_[i].reset(); });
}

// A replica that fails leaves the world, so that the others do not wait for it.
void MirroredModules::on_each(const std::function<void(Replica&, std::size_t)>& task) {
  for (std::size_t i = 0; i < size(); ++i) alive(i);
  std::mutex mutex;
  std::exception_ptr first;
  // libtorch keeps this number for each thread; new ones do not inherit it.
  const int intra_op_threads = at::get_num_threads();
  threads_.run([&](std::size_t i) {
    try {
      if (at::get_num_threads() != intra_op_threads) at::set_num_threads(intra_op_threads);
      task(*replicas_[i], i);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      replicas_[i].reset();
    }
  });
  if (first) std::rethrow_exception(first);
}

MirroredModules::Replica& MirroredModules::alive(std::size_t i) {
  if (i >= replicas_.size())
    throw_misuse(c10::str("Mirrored: there is no replica ", i, " of ", replicas_.size()));
  if (!replicas_[i])
    throw_misuse(
        c10::str("Mirrored: replica ", i,
                 " failed before, so there is nothing to go on with: make another Mirrored"));
  return *replicas_[i];
}

double MirroredModules::step(const std::vector<at::Tensor>& batch, const Loss& loss) {
  const auto rows = static_cast<double>(rows_of(batch));
  std::vector<double> losses(size(), 0);
  on_each([&](Replica& replica, std::size_t i) {
    std::vector<at::Tensor> part;
    for (const at::Tensor& tensor : batch)
      part.push_back(tensor.tensor_split(static_cast<std::int64_t>(size()))[i]);
    const auto own = static_cast<double>(part[0].size(0));
    replica.optimizer->zero_grad();
    replica.parallel->weight(own);
    if (own > 0 || replica.mixes_rows) {
      const at::Tensor value = [&] {
        const auto scope = replica.parallel->autocast();
        return loss(*replica.model, part);
      }();
      replica.parallel->backward(value);
      if (own > 0) losses[i] = value.item<double>() * own;  // the mean of no rows is NaN
    }
    replica.parallel->step(*replica.optimizer);
  });
  double sum = 0;
  for (double each : losses) sum += each;
  return rows > 0 ? sum / rows : 0;
}

torch::nn::Module& MirroredModules::replica(std::size_t i) {
  return *alive(i).model;
}
torch::optim::Optimizer& MirroredModules::optimizer(std::size_t i) {
  return *alive(i).optimizer;
}
DataParallel& MirroredModules::parallel(std::size_t i) {
  return *alive(i).parallel;
}

}  // namespace paceline
