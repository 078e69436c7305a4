#include "steps.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "models.h"
#include "paceline/core/base/base.h"
#include "paceline/torch/optimizers/optimizers.h"

namespace data = paceline::data;
namespace optimizers = paceline::optimizers;

namespace {

// The loss of a part, whose gradient is on its way afterwards.
double make_gradient(const PartOfBatch& part, paceline::DataParallel& parallel) {
  const at::Tensor loss = part.loss();
  const auto value = loss.item<double>();
  part.look_at(value);
  part.backward(loss);
  parallel.loss(value);
  return value;
}

void end_step(paceline::Job& job, paceline::DataParallel& parallel,
              torch::optim::Optimizer& optimizer, double rate) {
  const paceline::TraceScope scope(job.trace(), paceline::TraceLane::training, "step");
  set_learning_rate(optimizer, rate);
  parallel.step(optimizer);
}

// sgd, adamw, lars, lamb.
class OfEachParameter final : public Steps {
 public:
  OfEachParameter(paceline::Job& job, paceline::DataParallel& parallel)
      : job_(job), parallel_(parallel) {}

  double make(std::int64_t, const PartOfBatch& part, double rate) override {
    const double loss = part.samples > 0 ? make_gradient(part, parallel_) : 0;
    const paceline::TraceScope scope(job_.trace(), paceline::TraceLane::training, "step");
    parallel_.step([rate](torch::optim::Optimizer& one) { set_learning_rate(one, rate); });
    return loss;
  }

 private:
  paceline::Job& job_;
  paceline::DataParallel& parallel_;
};

// sgd, adamw with --zero: one optimizer of what this worker owns.
class OfSegments final : public Steps {
 public:
  OfSegments(paceline::Job& job, paceline::DataParallel& parallel,
             std::unique_ptr<torch::optim::Optimizer> optimizer)
      : job_(job), parallel_(parallel), optimizer_(std::move(optimizer)) {}

  double make(std::int64_t, const PartOfBatch& part, double rate) override {
    optimizer_->zero_grad();
    const double loss = part.samples > 0 ? make_gradient(part, parallel_) : 0;
    end_step(job_, parallel_, *optimizer_, rate);
    return loss;
  }
  void add_to(paceline::Checkpoints& checkpoints) override {
    checkpoints.add("optimizer", *optimizer_);
  }

 private:
  paceline::Job& job_;
  paceline::DataParallel& parallel_;
  const std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

// l_bfgs: an iteration on each batch. The rate is the first step that a line search tries, so it
// stays as it is.
class ByLineSearch final : public Steps {
 public:
  ByLineSearch(double rate, torch::nn::Sequential& model, paceline::DataParallel& parallel)
      : parallel_(parallel),
        optimizer_(model->parameters(), optimizers::QuasiNewtonOptions(rate).max_iter(1)) {}

  double make(std::int64_t, const PartOfBatch& part, double) override {
    std::optional<double> first;
    optimizer_.step([&] {
      optimizer_.zero_grad();
      at::Tensor loss;
      if (part.samples > 0) {
        loss = part.loss();
        part.backward(loss);
      }
      if (!first) first = part.samples > 0 ? loss.item<double>() : 0;
      parallel_.synchronize();
      return parallel_.mean(loss);
    });
    return *first;
  }
  void add_to(paceline::Checkpoints& checkpoints) override {
    checkpoints.add("optimizer",
                    [this](paceline::CheckpointFields& f) { optimizer_.state_fields(f); });
  }

 private:
  paceline::DataParallel& parallel_;
  optimizers::QuasiNewton optimizer_;
};

// sqn: curvature from draws of their own.
class ByCurvature final : public Steps {
 public:
  ByCurvature(double rate, paceline::Job& job, const Options& options, torch::nn::Sequential& model,
              paceline::DataParallel& parallel, const data::LabelledImages& training,
              at::ScalarType type)
      : job_(job),
        model_(model),
        parallel_(parallel),
        training_(training),
        type_(type),
        draws_({training.size(), std::max<std::int64_t>(kCurvatureImages, job.world_size()),
                paceline::mix(options.seed, kCurvatureSeed), job.rank(), job.world_size(),
                data::BatchSplit::with_replacement}),
        optimizer_(model->parameters(), optimizers::SQNOptions(rate).decay_steps(0)) {}

  double make(std::int64_t step, const PartOfBatch& part, double rate) override {
    optimizer_.zero_grad();
    const double loss = part.samples > 0 ? make_gradient(part, parallel_) : 0;
    end_step(job_, parallel_, optimizer_, rate);
    if (!optimizer_.wants_curvature()) return loss;
    const auto drawn = draws_.at(step).indices;
    parallel_.weight(static_cast<double>(drawn.size(0)));
    optimizer_.measure_curvature(
        [&] {
          const data::Batch batch = data::take(training_, drawn, beside(model_, type_));
          return torch::nn::functional::cross_entropy(model_->forward(batch.images), batch.labels);
        },
        [&] { parallel_.synchronize(); });
    return loss;
  }
  void add_to(paceline::Checkpoints& checkpoints) override {
    checkpoints.add("optimizer",
                    [this](paceline::CheckpointFields& f) { optimizer_.state_fields(f); });
  }

 private:
  static constexpr std::int64_t kCurvatureImages = 600;  // of all workers together
  static constexpr std::uint64_t kCurvatureSeed = 0x73716e;

  paceline::Job& job_;
  torch::nn::Sequential& model_;
  paceline::DataParallel& parallel_;
  const data::LabelledImages& training_;
  const at::ScalarType type_;
  data::GlobalBatches draws_;
  optimizers::SQN optimizer_;
};

// svrg: the gradient of all training images at the beginning of each epoch.
class ByDifferences final : public Steps {
 public:
  ByDifferences(double rate, paceline::Job& job, torch::nn::Sequential& model,
                paceline::DataParallel& parallel, const data::LabelledImages& training,
                at::ScalarType type, std::int64_t epoch)
      : job_(job),
        model_(model),
        parallel_(parallel),
        training_(training),
        type_(type),
        epoch_(epoch),
        optimizer_(model->parameters(), optimizers::SVRGOptions(rate)) {}

  double make(std::int64_t step, const PartOfBatch& part, double rate) override {
    if ((step - 1) % epoch_ == 0) take_snapshot(part);
    optimizer_.zero_grad();
    if (part.samples > 0) optimizer_.subtract_at_snapshot(part.loss);
    const double loss = part.samples > 0 ? make_gradient(part, parallel_) : 0;
    end_step(job_, parallel_, optimizer_, rate);
    return loss;
  }
  void add_to(paceline::Checkpoints& checkpoints) override {
    checkpoints.add("optimizer", optimizer_);
  }

 private:
  void take_snapshot(const PartOfBatch& part) {
    const at::Tensor own = data::exact_share_of(training_.size(), job_.rank(), job_.world_size());
    const auto count = static_cast<double>(own.size(0));
    parallel_.weight(count);
    optimizer_.zero_grad();
    const auto pieces = own.split(500);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::optional<paceline::DataParallel::NoSync> pause;
      if (i + 1 < pieces.size()) pause.emplace(parallel_.no_sync());
      const data::Batch batch = data::take(training_, pieces[i], beside(model_, type_));
      torch::nn::functional::cross_entropy(
          model_->forward(batch.images), batch.labels,
          torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
          .div(count)
          .backward();
    }
    parallel_.synchronize();
    optimizer_.take_snapshot();
    parallel_.weight(static_cast<double>(part.samples));
  }

  paceline::Job& job_;
  torch::nn::Sequential& model_;
  paceline::DataParallel& parallel_;
  const data::LabelledImages& training_;
  const at::ScalarType type_;
  const std::int64_t epoch_;
  optimizers::SVRG optimizer_;
};

template <typename Kind, typename OptionsOfKind>
paceline::OptimizerFactory one_for_each(const OptionsOfKind& options) {
  return [options](const at::Tensor& parameter) {
    return std::make_unique<Kind>(std::vector<at::Tensor>{parameter}, options);
  };
}

}  // namespace

paceline::OptimizerFactory optimizers_of(const std::string& name,
                                         const OptimizerSettings& settings) {
  const double rate = settings.learning_rate;
  if (name == "sgd")
    return one_for_each<torch::optim::SGD>(
        torch::optim::SGDOptions(rate).momentum(settings.momentum));
  if (name == "adamw") return one_for_each<torch::optim::AdamW>(torch::optim::AdamWOptions(rate));
  if (name == "lars")
    return one_for_each<optimizers::LARS>(
        optimizers::LARSOptions(rate).momentum(settings.momentum));
  if (name == "lamb") return one_for_each<optimizers::LAMB>(optimizers::LAMBOptions(rate));
  return {};
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of_all(const std::string& name,
                                                          const OptimizerSettings& settings,
                                                          std::vector<at::Tensor> parameters) {
  const double rate = settings.learning_rate;
  if (name == "adamw")
    return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                                 torch::optim::AdamWOptions(rate));
  if (name == "lars")
    return std::make_unique<optimizers::LARS>(
        std::move(parameters), optimizers::LARSOptions(rate).momentum(settings.momentum));
  if (name == "lamb")
    return std::make_unique<optimizers::LAMB>(std::move(parameters), optimizers::LAMBOptions(rate));
  return std::make_unique<torch::optim::SGD>(
      std::move(parameters), torch::optim::SGDOptions(rate).momentum(settings.momentum));
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

std::unique_ptr<Steps> make_steps(const Options& options, const OptimizerSettings& settings,
                                  paceline::Job& job, torch::nn::Sequential& model,
                                  paceline::DataParallel& parallel,
                                  const data::LabelledImages& training, at::ScalarType type,
                                  std::int64_t epoch) {
  const double rate = settings.learning_rate;
  if (options.optimizer == "l_bfgs") return std::make_unique<ByLineSearch>(rate, model, parallel);
  if (options.optimizer == "sqn")
    return std::make_unique<ByCurvature>(rate, job, options, model, parallel, training, type);
  if (options.optimizer == "svrg")
    return std::make_unique<ByDifferences>(rate, job, model, parallel, training, type, epoch);
  if (options.zero > 0) {
    return std::make_unique<OfSegments>(
        job, parallel, optimizer_of_all(options.optimizer, settings, parallel.parameters()));
  }
  return std::make_unique<OfEachParameter>(job, parallel);
}
