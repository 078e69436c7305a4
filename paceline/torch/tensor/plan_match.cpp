#include "paceline/torch/tensor/plan_match.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::tensor {
namespace {

// The first element of a path, which loses it.
std::string_view take_element(std::string_view& path) {
  const std::size_t end = path.find('.');
  const std::string_view element = path.substr(0, end);
  path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
  return element;
}

std::string layers_of(const torch::nn::Module& model) {
  constexpr std::size_t kMost = 20;
  std::string paths;
  std::size_t layers = 0;
  for (const auto& item : model.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    if (!item.value()->children().empty()) continue;
    if (++layers <= kMost) paths += (paths.empty() ? "" : ", ") + item.key();
  }
  return layers > kMost ? paths + c10::str(", and ", layers - kMost, " more") : paths;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) {
  while (!pattern.empty() && !path.empty()) {
    const std::string_view expected = take_element(pattern), element = take_element(path);
    if (expected != "*" && expected != element) return false;
  }
  return pattern.empty() && path.empty();
}

std::vector<PlannedLayer> planned_layers(const torch::nn::Module& model, const TensorPlan& plan,
                                         int ranks) {
  std::vector<PlannedLayer> layers;
  std::vector<bool> is_used(plan.size());
  for (const auto& item : model.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    const PlanEntry* found = nullptr;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (!matches(plan[i].path, item.key())) continue;
      is_used[i] = true;
      if (found != nullptr) {
        throw_misuse(c10::str("parallelize: the plan's entries \"", found->path, "\" and \"",
                              plan[i].path, "\" both speak of layer '", item.key(),
                              "': leave one of them out"));
      }
      found = &plan[i];
    }
    if (found == nullptr) continue;
    layers.push_back({item.key(), item.value(), {found->style, found->head_size, 0, ranks}});
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (is_used[i]) continue;
    throw_misuse(c10::str("parallelize: the plan's entry \"", plan[i].path,
                          "\" matches no layer; the model has ", layers_of(model)));
  }
  return layers;
}

}  // namespace paceline::tensor
