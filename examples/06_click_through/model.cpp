#include "model.h"

namespace click_through {
namespace {

using paceline::server::SparseTable;
using paceline::server::SparseTableSpec;

SparseTableSpec spec_of(const RunOptions& options, const char* name, std::int64_t width,
                        double spread) {
  return {.name = name,
          .width = static_cast<std::size_t>(width),
          .synchrony = options.synchrony,
          .rule = "adagrad:per=row,rate=" + std::to_string(options.table_rate),
          .seed = options.seed,
          .spread = spread};
}

torch::nn::Sequential network_of(std::int64_t inputs) {
  constexpr std::int64_t kFirst = 64, kSecond = 32;
  return torch::nn::Sequential(torch::nn::Linear(inputs, kFirst), torch::nn::ReLU(),
                               torch::nn::Linear(kFirst, kSecond), torch::nn::ReLU(),
                               torch::nn::Linear(kSecond, 1));
}

}  // namespace

ClickTables::ClickTables(paceline::Job& job, const RunOptions& options)
    : wide(job, spec_of(options, "wide", 1, 0)) {
  constexpr double kSpread = 0.05;
  if (!options.is_wide_only) deep.emplace(job, spec_of(options, "deep", options.width, kSpread));
}

std::vector<SparseTable*> ClickTables::all() {
  std::vector<SparseTable*> tables = {&wide};
  if (deep) tables.push_back(&*deep);
  return tables;
}

void ClickTables::quiesce() {
  for (SparseTable* const table : all()) table->quiesce().wait();
}

double ClickTables::rows_pushed() const {
  return static_cast<double>(wide.figures().rows_pushed + (deep ? deep->figures().rows_pushed : 0));
}

std::int64_t ClickTables::rows_stored() const {
  return static_cast<std::int64_t>(wide.figures().rows + (deep ? deep->figures().rows : 0));
}

WideAndDeepImpl::WideAndDeepImpl(ClickTables& tables)
    : numbers_(register_module("numbers", torch::nn::Linear(kNumbers, 1))), wide_(tables.wide) {
  if (!tables.deep) return;
  deep_ = paceline::ServerEmbedding(*tables.deep);
  const auto width = static_cast<std::int64_t>(tables.deep->spec().width);
  network_ = register_module("network", network_of(kCategories * width + kNumbers));
}

// The wide part sums the rows of a line, which are a bag.
at::Tensor WideAndDeepImpl::forward(const ClickBatch& batch) {
  const at::Tensor bags = at::arange(batch.size(), at::kLong) * kCategories;
  at::Tensor logits = numbers_(batch.numbers) + wide_(batch.ids.flatten(), bags);
  if (deep_) {
    const at::Tensor rows = deep_(batch.ids);  // [lines, categories, width]
    logits = logits + network_->forward(at::cat({rows.flatten(1), batch.numbers}, 1));
  }
  return logits.squeeze(1);
}

void WideAndDeepImpl::prefetch(const ClickBatch& next) {
  wide_->prefetch(next.ids);
  if (deep_) deep_->prefetch(next.ids);
}

void WideAndDeepImpl::step(std::int64_t lines) {
  const paceline::EmbeddingStep options = {.weight = static_cast<double>(lines)};
  wide_->step(options);
  if (deep_) deep_->step(options);
}

}  // namespace click_through
