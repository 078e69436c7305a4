#include "paceline/torch/norm/norm.h"

#include <torch/torch.h>

#include <functional>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline {
namespace {

// For each channel, of all ranks together.
struct Moments {
  double count = 0;          // values, not rows
  at::Tensor mean, squares;  // f64; squares: of the distances from the mean, summed
};

// All dimensions but the channels'.
std::vector<std::int64_t> reduced_dimensions(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t d = 2; d < input.dim(); ++d) dimensions.push_back(d);
  return dimensions;
}

// At least f32.
at::Tensor widened(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

// A value for each channel, to be broadcast over input.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.to(input.scalar_type()).view(shape);
}

Moments moments_of(const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  const auto f64 = input.options().dtype(at::kDouble).requires_grad(false);
  if (input.numel() == 0) return {0, at::zeros({channels}, f64), at::zeros({channels}, f64)};
  const auto [variance, mean] =
      at::var_mean(widened(input), reduced_dimensions(input), /*correction=*/0);
  const double count = static_cast<double>(input.numel() / channels);
  return {count, mean.to(at::kDouble), variance.to(at::kDouble) * count};
}

// Chan's rule, in rank order: the same bits on all ranks.
Moments combined(const std::vector<Moments>& parts) {
  Moments sum = parts[0];
  for (std::size_t r = 1; r < parts.size(); ++r) {
    const Moments& part = parts[r];
    if (part.count == 0) continue;
    const double count = sum.count + part.count;
    const at::Tensor delta = part.mean - sum.mean;
    sum.squares = sum.squares + part.squares + delta * delta * (sum.count * part.count / count);
    sum.mean = sum.mean + delta * (part.count / count);
    sum.count = count;
  }
  return sum;
}

std::string name_of(const BatchRanks& ranks, double layer) {
  const bool is_known = layer >= 0 && layer < static_cast<double>(ranks.layers.size());
  return is_known ? "'" + ranks.layers[static_cast<std::size_t>(layer)] + "'" : "without a name";
}

// Waits for what the layer has called; a failure tells in which layer this rank was.
void wait_in(const BatchRanks& ranks, int layer, const std::function<Work()>& call) {
  try {
    ranks.lane.wait(ranks.lane.call(call),
                    [&] { return "in SyncBatchNorm layer " + name_of(ranks, layer); });
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.what = c10::str("in SyncBatchNorm layer ", name_of(ranks, layer), ": ", failure.what,
                            ". Every rank runs the same layers in the same order, also a rank of "
                            "weight 0 with an empty batch");
    throw Error(std::move(failure));
  }
}

Moments over_all_ranks(const Moments& own, const BatchRanks& ranks, int layer) {
  Communicator& group = *ranks.group;
  const at::Device device = own.mean.device();  // messages are on the host
  const at::Tensor message = at::cat({at::full({1}, own.count, at::kDouble),
                                      at::full({1}, static_cast<double>(layer), at::kDouble),
                                      own.mean.cpu(), own.squares.cpu()});
  const std::int64_t length = message.numel(), channels = own.mean.numel();
  const at::Tensor all = at::empty({group.size(), length}, at::kDouble);
  wait_in(ranks, layer, [&] { return group.all_gather(buffer_of(message), buffer_of(all)); });
  std::vector<Moments> parts;
  for (int r = 0; r < group.size(); ++r) {
    const at::Tensor part = all[r];
    const auto of_first = all[0][1].item<double>(), of_rank = part[1].item<double>();
    if (of_rank != of_first) {
      throw Error({Fault::mismatch,
                   c10::str("rank 0 is in SyncBatchNorm layer ", name_of(ranks, of_first),
                            " while rank ", r, " is in layer ", name_of(ranks, of_rank),
                            ": every rank runs the same layers in the same order, also a rank of "
                            "weight 0 with an empty batch"),
                   {0, r}});
    }
    parts.push_back({part[0].item<double>(), part.narrow(0, 2, channels).to(device),
                     part.narrow(0, 2 + channels, channels).to(device)});
  }
  return combined(parts);
}

struct Exchange : torch::CustomClassHolder {
  BatchRanks ranks;
  int layer = -1;
  Moments moments;
};

class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, double eps,
                            c10::intrusive_ptr<Exchange> exchange) {
    const Moments& all = exchange->moments;
    const at::Tensor inverse =
        all.count > 0 ? (all.squares / all.count + eps).rsqrt() : at::zeros_like(all.mean);
    context->save_for_backward({input, weight, inverse});
    context->saved_data["exchange"] = c10::IValue::make_capsule(exchange);
    const at::Tensor wide = widened(input), centred = wide - by_channel(all.mean, wide);
    const at::Tensor gain = inverse * weight.to(at::kDouble);
    return (centred * by_channel(gain, wide) + by_channel(bias, wide)).to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw_misuse(
          "SyncBatchNorm: a backward with create_graph=true makes gradients of gradients, which "
          "would leave out that mean and variance depend on the input: leave create_graph out, or "
          "use torch::nn::BatchNorm where the loss has a gradient penalty");
    }
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &inverse = saved[2];
    const auto capsule = context->saved_data["exchange"].toCapsule();
    const auto& exchange = static_cast<const Exchange&>(*capsule);
    const Moments& all = exchange.moments;
    const BatchRanks& ranks = exchange.ranks;
    const at::Tensor dy = widened(gradients[0]);
    const at::Tensor centred = widened(input) - by_channel(all.mean, dy);
    const auto dimensions = reduced_dimensions(input);
    const at::Tensor sum = dy.sum(dimensions, false, at::kDouble),
                     product = (dy * centred).sum(dimensions, false, at::kDouble);

    at::Tensor totals = at::cat({sum, product}).cpu() * ranks.weight;
    if (ranks.group != nullptr) {
      wait_in(ranks, exchange.layer, [&] { return ranks.group->all_reduce(buffer_of(totals)); });
    }
    totals = totals.to(input.device());
    at::Tensor dx = at::zeros_like(input);
    // A rank whose rows do not count reads the weight too: ranks that keep it divided gather it
    // together.
    const at::Tensor gain = inverse * weight.to(at::kDouble);
    if (ranks.weight > 0) {
      const at::Tensor mean_sum = totals.narrow(0, 0, sum.numel()) / (all.count * ranks.weight);
      const at::Tensor mean_product =
          totals.narrow(0, sum.numel(), sum.numel()) / (all.count * ranks.weight);
      dx = by_channel(gain, dy) * (dy - by_channel(mean_sum, dy) -
                                   centred * by_channel(mean_product * inverse * inverse, dy));
      dx = dx.to(input.scalar_type());
    }
    return {dx, (product * inverse).to(weight.scalar_type()), sum.to(weight.scalar_type()), {}, {}};
  }
};

// Null: not a batch norm.
const torch::nn::BatchNormOptions* batch_norm_options(const torch::nn::Module& module) {
  if (const auto* norm = module.as<torch::nn::BatchNorm1dImpl>()) return &norm->options;
  if (const auto* norm = module.as<torch::nn::BatchNorm2dImpl>()) return &norm->options;
  if (const auto* norm = module.as<torch::nn::BatchNorm3dImpl>()) return &norm->options;
  return nullptr;
}

// Paths of batch norms that are no element of a Sequential.
void collect_fixed(const torch::nn::Module& module, const std::string& path,
                   std::vector<std::string>& fixed) {
  const bool replaceable = module.as<torch::nn::SequentialImpl>() != nullptr;
  for (const auto& child : module.named_children()) {
    const std::string name = path.empty() ? child.key() : path + "." + child.key();
    if (batch_norm_options(*child.value()) != nullptr && !replaceable) fixed.push_back(name);
    collect_fixed(*child.value(), name, fixed);
  }
}

std::size_t convert_below(torch::nn::Module& module) {
  std::size_t converted = 0;
  if (auto* sequence = module.as<torch::nn::SequentialImpl>()) {
    std::size_t place = 0;
    const auto names = sequence->named_children().keys();
    for (torch::nn::AnyModule& element : *sequence) {
      const std::string& name = names[place++];
      const auto old = element.ptr();
      const auto* options = batch_norm_options(*old);
      if (options == nullptr) continue;
      auto sync = std::make_shared<SyncBatchNormImpl>(*options, *old);
      element = torch::nn::AnyModule(sync);
      sequence->replace_module(name, std::move(sync));
      ++converted;
    }
  }
  for (const auto& child : module.children()) converted += convert_below(*child);
  return converted;
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& norm_options)
    : NormImplBase(norm_options) {}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& norm_options,
                                     const torch::nn::Module& norm)
    : NormImplBase(norm_options) {
  for (const auto& item : norm.named_parameters(/*recurse=*/false))
    parameters_[item.key()] = item.value();
  weight = parameters_["weight"];
  bias = parameters_["bias"];
  auto own = named_buffers(/*recurse=*/false);
  for (const auto& item : norm.named_buffers(/*recurse=*/false))
    own[item.key()].set_data(item.value());
  train(norm.is_training());
}

void SyncBatchNormImpl::compute_over(std::shared_ptr<const BatchRanks> ranks, int layer) {
  ranks_ = std::move(ranks);
  layer_ = layer;
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "paceline::SyncBatchNorm(" << options.num_features() << ")";
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  throw_misuse(c10::str("SyncBatchNorm(", options.num_features(), ") needs input of shape (N, ",
                        options.num_features(), ", ...), not ", input.sizes()));
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  if (!is_training() && running_mean.defined()) {
    return at::batch_norm(input, weight, bias, running_mean, running_var, false, 0, options.eps(),
                          false);
  }
  auto exchange = c10::make_intrusive<Exchange>();
  if (ranks_) exchange->ranks = *ranks_;
  exchange->layer = layer_;
  const bool counts = exchange->ranks.weight > 0;
  {
    const at::NoGradGuard no_grad;
    const Moments own = moments_of(counts ? input : input.narrow(0, 0, 0));
    const bool alone = exchange->ranks.group == nullptr || !is_training();
    if (alone) exchange->ranks.group = nullptr;
    exchange->moments = alone ? own : over_all_ranks(own, exchange->ranks, layer_);
    const Moments& all = exchange->moments;
    if (all.count == 1) {
      throw_misuse(
          "SyncBatchNorm: all ranks together have one value for each channel, which has no "
          "variance to train on; "
          "use larger batches, or eval()");
    }
    if (is_training() && running_mean.defined() && all.count > 0) {
      num_batches_tracked.add_(1);
      const double momentum =
          options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
      running_mean.copy_(running_mean.to(at::kDouble) * (1 - momentum) + all.mean * momentum);
      running_var.copy_(running_var.to(at::kDouble) * (1 - momentum) +
                        all.squares * (momentum / (all.count - 1)));
    }
  }
  const bool affine = weight.defined();
  return Normalise::apply(input, affine ? weight : at::ones({input.size(1)}, input.options()),
                          affine ? bias : at::zeros({input.size(1)}, input.options()),
                          options.eps(), exchange);
}

std::size_t convert_sync_batch_norm(torch::nn::Module& model) {
  std::vector<std::string> fixed;
  if (batch_norm_options(model) != nullptr) fixed.emplace_back("(the model itself)");
  collect_fixed(model, "", fixed);
  if (!fixed.empty()) {
    std::string names;
    for (const std::string& name : fixed) names += (names.empty() ? "'" : ", '") + name + "'";
    throw_misuse("convert_sync_batch_norm: " + names +
                 " cannot be replaced from outside, because forward() of the module around it "
                 "calls its own member: "
                 "declare it as paceline::SyncBatchNorm, or put it into a torch::nn::Sequential");
  }
  return convert_below(model);
}

std::vector<NamedSyncBatchNorm> sync_batch_norms_in(torch::nn::Module& model) {
  std::vector<NamedSyncBatchNorm> found;
  if (auto* norm = model.as<SyncBatchNormImpl>()) found.push_back({model.name(), norm});
  for (const auto& item : model.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    if (auto* norm = item.value()->as<SyncBatchNormImpl>()) found.push_back({item.key(), norm});
  }
  return found;
}

}  // namespace paceline
