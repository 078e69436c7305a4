#include "paceline/torch/shard/sharding_refusals.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/optimizers/optimizers.h"

namespace paceline::shard {
void require_shardable(const replica::ModelParts& parts, const DataParallelOptions& options) {
  const std::string stage = c10::str("DataParallelOptions::zero_stage ", options.zero_stage);
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw_misuse(c10::str(stage, " ", what, ": ", remedy));
  };
  if (options.optimizer) {
    refuse(
        "does not go with DataParallelOptions::optimizer, whose optimizers step whole parameters",
        "give step() an optimizer over parallel.parameters()");
  }
  if (options.synchrony != "synchronous") {
    refuse(c10::str("does not go with synchrony \"", options.synchrony,
                    "\", in which each rank has parameters of its own"),
           "take \"synchronous\"");
  }
  if (options.compression != "none" && !wire_of(options.compression)) {
    refuse(c10::str("does not go with compression \"", options.compression,
                    "\", because gradients are reduced to their owners element by element"),
           "take \"none\", \"fp16\" or \"bf16\"");
  }
  if (options.schedule != "buckets") {
    refuse(c10::str("does not go with schedule \"", options.schedule,
                    "\", because units fix which gradients travel together"),
           "take \"buckets\"");
  }
  if (!parts.sparse.empty()) {
    refuse(c10::str("does not go with the sparse gradients of '", parts.sparse.front().name, "'"),
           "make the embedding with sparse(false)");
  }
  if (const auto aliases = replica::aliases_in(parts.dense)) {
    refuse(c10::str("moves parameters into memory of its own, and '", aliases->first, "' and '",
                    aliases->second, "' lie in one storage"),
           "register one tensor under both names where layers share it, else give each its own "
           "memory, as by weight.set_data(weight.clone())");
  }
  for (const replica::Parameter& one : parts.dense) {
    if (one.tensor.element_size() == 2) {
      refuse(c10::str("does not go with parameter '", one.name, "' ", describe(one.tensor),
                      ": 16 bits are too few to add up small updates"),
             "train in float32");
    }
  }
}

std::optional<Dtype> wire_of(const std::string& compression) {
  if (compression == "fp16") return Dtype::f16;
  if (compression == "bf16") return Dtype::bf16;
  return {};
}

std::string complaint_about_optimizer(const torch::optim::Optimizer& optimizer,
                                      const std::vector<replica::Parameter>& parameters,
                                      int stage) {
  const optimizers::KnownOptimizer* const known = optimizers::known(optimizer);
  if (known != nullptr && known->reach != optimizers::Reach::element) {
    return c10::str(known->name, " looks at whole tensors, and with zero_stage ", stage,
                    " each rank has segments of them: take an optimizer that treats each element "
                    "by itself, such as SGD, Adam or AdamW");
  }
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& tensor : group.params()) {
      for (const replica::Parameter& one : parameters) {
        if (!one.tensor.is_same(tensor)) continue;
        return c10::str("the optimizer has the whole parameter '", one.name,
                        "', of which this rank updates a segment alone with zero_stage ", stage,
                        ": make it over parallel.parameters(), or parallel.parameters(name)");
      }
    }
  }
  return {};
}

}  // namespace paceline::shard
