#include "paceline/torch/parallel/data_parallel.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/parallel/agreement.h"
#include "paceline/torch/parallel/coalesced.h"
#include "paceline/torch/parallel/reducer.h"

namespace paceline {
namespace {

// The parts of a model in the order of registration; what is registered under two names stands
// under its first.
struct Parts {
  std::vector<parallel::Parameter> trained;
  std::vector<at::Tensor> buffers;
  std::vector<at::Tensor> all;           // every parameter and buffer
  std::vector<std::string> description;  // a line for each
};

void require_host(const std::string& what, const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu()) {
    throw_misuse(c10::str("DataParallel: ", what, " has layout ", tensor.layout(), " on ",
                          tensor.device(),
                          "; only dense tensors in host memory can be carried at present: move the "
                          "model with model.to(torch::kCPU)"));
  }
}

Parts parts_of(const torch::nn::Module& model) {
  Parts parts;
  std::set<const void*> seen;
  const auto is_new = [&](const at::Tensor& tensor) {
    return tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second;
  };
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (!is_new(tensor)) continue;
    const std::string what = c10::str("parameter ", item.key(), " ", describe(tensor));
    require_host(what, tensor);
    if (tensor.requires_grad()) {
      if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kDouble) {
        throw_misuse(
            c10::str("DataParallel: ", what,
                     " cannot be trained: gradients are averaged in f32 and f64. Convert the "
                     "model with model.to(torch::kFloat), or freeze the parameter with "
                     "requires_grad_(false)"));
      }
      parts.trained.push_back({item.key(), tensor});
    }
    parts.all.push_back(tensor);
    parts.description.push_back(tensor.requires_grad() ? what : "frozen " + what);
  }
  for (const auto& item : model.named_buffers()) {
    const at::Tensor& tensor = item.value();
    if (!is_new(tensor)) continue;
    const std::string what = c10::str("buffer ", item.key(), " ", describe(tensor));
    require_host(what, tensor);
    parts.buffers.push_back(tensor);
    parts.all.push_back(tensor);
    parts.description.push_back(what);
  }
  if (parts.trained.empty()) {
    throw_misuse(
        "DataParallel: no parameter of this model requires a gradient, so there is nothing to "
        "train");
  }
  return parts;
}

// Makes all replicas equal to rank 0's, after a check that they can be.
Parts equal_parts(const torch::nn::Module& model, Communicator& group, Job* job,
                  const DataParallelOptions& options) {
  Parts parts = parts_of(model);
  if (group.size() == 1) return parts;
  parts.description.push_back(c10::str("options: first_bucket_bytes ", options.first_bucket_bytes,
                                       ", bucket_bytes ", options.bucket_bytes, ", buffers ",
                                       static_cast<int>(options.buffers)));
  parallel::require_agreement(group, parts.description);
  parallel::CoalescedTensors(parts.all, job).broadcast(group, 0);
  return parts;
}

}  // namespace

class DataParallel::Impl {
 public:
  Impl(Parts parts, Communicator& group, Job* job, const DataParallelOptions& options)
      : group_(group),
        mode_(options.buffers),
        buffers_(group.size() == 1 || mode_ == BufferMode::off ? std::vector<at::Tensor>()
                                                               : std::move(parts.buffers),
                 job),
        reducer(std::move(parts.trained), group, job, options) {}

  bool synchronize() {
    const auto outcome = reducer.finish();
    if (outcome.total_weight == 0) return false;
    if (mode_ == BufferMode::broadcast) buffers_.broadcast(group_, outcome.root);
    if (mode_ == BufferMode::average) buffers_.average(group_, reducer.weight(), outcome.root);
    return true;
  }

 private:
  Communicator& group_;
  BufferMode mode_;
  parallel::CoalescedTensors buffers_;

 public:
  parallel::Reducer reducer;
};

DataParallel::DataParallel(torch::nn::Module& model, Job& job, const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(equal_parts(model, job.world(), &job, options), job.world(),
                                   &job, options)) {}

DataParallel::DataParallel(torch::nn::Module& model, Communicator& group,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(equal_parts(model, group, nullptr, options), group, nullptr,
                                   options)) {}

DataParallel::~DataParallel() = default;

void DataParallel::weight(double samples) {
  impl_->reducer.set_weight(samples);
}

bool DataParallel::synchronize() {
  return impl_->synchronize();
}

bool DataParallel::step(torch::optim::Optimizer& optimizer) {
  if (!synchronize()) return false;
  optimizer.step();
  return true;
}

DataParallel::NoSync DataParallel::no_sync() {
  impl_->reducer.pause();
  return NoSync(*this);
}

DataParallel::NoSync::~NoSync() {
  if (parallel_ != nullptr) parallel_->impl_->reducer.resume();
}

const std::vector<schedule::Bucket>& DataParallel::buckets() const {
  return impl_->reducer.plan();
}

const StepReport& DataParallel::last_step() const {
  return impl_->reducer.report();
}

}  // namespace paceline
