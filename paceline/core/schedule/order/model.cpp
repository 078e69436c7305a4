#include "paceline/core/schedule/order/model.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::schedule {
namespace {

double sum(const std::vector<Tensor>& tensors, double Tensor::*part) {
  double total = 0;
  for (const Tensor& tensor : tensors) total += tensor.*part;
  return total;
}

}  // namespace

std::size_t columns_of(const Tensor& tensor, std::size_t element_bytes) {
  const std::size_t elements = tensor.bytes / element_bytes;
  return tensor.rows > 1 && elements % tensor.rows == 0 ? elements / tensor.rows : 0;
}

std::size_t Model::bytes() const {
  std::size_t total = 0;
  for (const Tensor& tensor : tensors) total += tensor.bytes;
  return total;
}

double Model::forward() const {
  return sum(tensors, &Tensor::forward);
}

double Model::backward() const {
  return sum(tensors, &Tensor::backward);
}

double Model::update() const {
  return sum(tensors, &Tensor::update);
}

std::vector<double> ready_times(const Model& model) {
  std::vector<double> times;
  double now = model.forward();
  for (int place = 0; place < model.size(); ++place)
    times.push_back(now += model.sent(place).backward);
  return times;
}

std::vector<double> sent_bytes(const Model& model) {
  std::vector<double> bytes;
  for (int place = 0; place < model.size(); ++place)
    bytes.push_back(static_cast<double>(model.sent(place).bytes));
  return bytes;
}

Model scaled(Model model, double factor) {
  for (Tensor& tensor : model.tensors) {
    tensor.forward *= factor;
    tensor.backward *= factor;
    tensor.update *= factor;
  }
  for (Layer& layer : model.layers) {
    layer.forward *= factor;
    layer.backward *= factor;
    layer.forward_start *= factor;
    layer.backward_start *= factor;
  }
  return model;
}

Model divided(Model model, int k) {
  PACELINE_CHECK(k >= 1, "tensors cannot be divided by {}: give 1 or more", k);
  constexpr std::size_t kFloat = sizeof(float);
  model.layers.clear();
  for (Tensor& tensor : model.tensors)
    tensor.bytes =
        std::max<std::size_t>(1, tensor.bytes / kFloat / static_cast<std::size_t>(k)) * kFloat;
  return model;
}

}  // namespace paceline::schedule
