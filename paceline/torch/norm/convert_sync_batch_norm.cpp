#include "paceline/torch/norm/convert_sync_batch_norm.h"

#include <torch/torch.h>

#include <string>
#include <utility>

#include "paceline/core/base/base.h"

namespace paceline {
namespace {

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
