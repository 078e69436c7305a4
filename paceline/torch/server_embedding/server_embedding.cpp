#include "paceline/torch/server_embedding/server_embedding.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline {
namespace {

std::vector<std::int64_t> numbers_in(const char* what, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.scalar_type() != at::kLong || !tensor.device().is_cpu())
    throw_misuse(c10::str("ServerEmbedding: its ", what,
                          " are i64 in the host's memory, and these are ",
                          tensor.defined() ? describe(tensor) : std::string("undefined"),
                          ": convert them by .to(at::kCPU, at::kLong)"));
  const at::Tensor flat = tensor.flatten().contiguous();
  const auto* const first = flat.const_data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

// The bag of each id.
at::Tensor bags_of(const std::vector<std::int64_t>& offsets, std::int64_t ids) {
  if ((!offsets.empty() && offsets.front() != 0) || !std::ranges::is_sorted(offsets) ||
      (!offsets.empty() && offsets.back() > ids) || (offsets.empty() && ids > 0))
    throw_misuse(
        c10::str("ServerEmbedding: offsets of bags begin with 0, ascend, and are at most "
                 "the number of ids, here ",
                 ids));
  at::Tensor bags = at::empty({ids}, at::kLong);
  auto* bag = bags.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::int64_t end = i + 1 < offsets.size() ? offsets[i + 1] : ids;
    bag = std::fill_n(bag, end - offsets[i], static_cast<std::int64_t>(i));
  }
  return bags;
}

}  // namespace

ServerEmbeddingImpl::ServerEmbeddingImpl(server::SparseTable& table) : table_(table) {
  if (!table.is_worker())
    throw_misuse(
        c10::str("ServerEmbedding: this rank only serves sparse table '", table.spec().name, "'"));
}

at::Tensor ServerEmbeddingImpl::rows_of(std::vector<std::int64_t> ids) {
  const auto width = static_cast<std::int64_t>(table_.spec().width);
  at::Tensor rows = at::empty({static_cast<std::int64_t>(ids.size()), width},
                              scalar_type_of(table_.spec().dtype));
  table_.pull(ids, buffer_of(rows)).wait();
  if (!at::GradMode::is_enabled()) return rows;
  rows.requires_grad_();
  pulled_.push_back({std::move(ids), rows});
  return rows;
}

at::Tensor ServerEmbeddingImpl::forward(const at::Tensor& ids, const at::Tensor& offsets) {
  std::vector<std::int64_t> all = numbers_in("ids", ids);
  if (!offsets.defined()) {
    std::vector<std::int64_t> shape(ids.sizes().begin(), ids.sizes().end());
    shape.push_back(static_cast<std::int64_t>(table_.spec().width));
    return rows_of(std::move(all)).reshape(shape);
  }
  const std::vector<std::int64_t> begins = numbers_in("offsets", offsets);
  const at::Tensor bags = bags_of(begins, static_cast<std::int64_t>(all.size()));
  const at::Tensor rows = rows_of(std::move(all));
  return at::zeros({static_cast<std::int64_t>(begins.size()), rows.size(1)}, rows.options())
      .index_add(0, bags, rows);
}

// A pass that nothing was differentiated through has no gradients.
void ServerEmbeddingImpl::step(const EmbeddingStep& options) {
  std::vector<std::int64_t> ids;
  std::vector<at::Tensor> gradients;
  for (const Pulled& one : std::exchange(pulled_, {})) {
    const at::Tensor& gradient = one.rows.grad();
    if (!gradient.defined()) continue;
    ids.insert(ids.end(), one.ids.begin(), one.ids.end());
    gradients.push_back(gradient);
  }
  const auto width = static_cast<std::int64_t>(table_.spec().width);
  const at::Tensor all = gradients.empty()
                             ? at::empty({0, width}, scalar_type_of(table_.spec().dtype))
                             : at::cat(gradients).contiguous();
  table_.push(ids, buffer_of(all), {.rate = options.rate, .weight = options.weight});
}

void ServerEmbeddingImpl::prefetch(const at::Tensor& ids) {
  table_.prefetch(numbers_in("ids", ids));
}

}  // namespace paceline
