#include "paceline/torch/gradient/sparse_gradients.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {
namespace {

// Rows in rising order, each once.
at::Tensor rows_of(const at::Tensor& grad) {
  if (grad.layout() == at::kSparse && grad.sparse_dim() == 1) return grad.coalesce();
  return (grad.layout() == at::kStrided ? grad : grad.to_dense()).to_sparse(1).coalesce();
}

at::ScalarType summed_in(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

// One message: what each rank says, one after the other.
class Header {
 public:
  Header(Communicator& group, const RankWeight& weight, const std::vector<at::Tensor>& rows,
         const std::vector<bool>& used)
      : length_(2 + 2 * rows.size()), all_(length_ * static_cast<std::size_t>(group.size())) {
    std::vector<std::int64_t> own{std::bit_cast<std::int64_t>(weight.weight), weight.told};
    for (std::size_t k = 0; k < rows.size(); ++k) {
      own.push_back(rows[k].defined() ? rows[k]._nnz() : 0);
      own.push_back(used[k] && weight.weight > 0);
    }
    group.all_gather(paceline::const_buffer_of(own), paceline::buffer_of(all_)).wait();
  }
  RankWeight weight(std::size_t rank) const {
    return {std::bit_cast<double>(all_[rank * length_]), all_[rank * length_ + 1] != 0};
  }
  std::int64_t rows(std::size_t rank, std::size_t parameter) const {
    return all_[rank * length_ + 2 + 2 * parameter];
  }
  bool used(std::size_t rank, std::size_t parameter) const {
    return all_[rank * length_ + 3 + 2 * parameter] != 0;
  }

 private:
  std::size_t length_;
  std::vector<std::int64_t> all_;
};

// The rows of every rank, one after the other.
struct Gathering {
  at::Tensor own, all;
  Work work;

  Gathering(Communicator& group, at::Tensor rows, const std::vector<std::size_t>& rows_of_ranks)
      : own(std::move(rows)) {
    std::vector<std::int64_t> sizes = own.sizes().vec();
    std::size_t width = 1;
    for (std::size_t d = 1; d < sizes.size(); ++d) width *= static_cast<std::size_t>(sizes[d]);
    std::vector<std::size_t> counts;
    sizes[0] = 0;
    for (const std::size_t count : rows_of_ranks) {
      counts.push_back(count * width);
      sizes[0] += static_cast<std::int64_t>(count);
    }
    all = at::empty(sizes, own.options());
    work = group.all_gather(buffer_of(own), buffer_of(all), {.counts = counts});
    work.keep(std::vector<at::Tensor>{own, all});
  }
};

}  // namespace

SparseOutcome average_sparse(Communicator& group, std::span<Parameter> parameters,
                             const std::vector<bool>& used, const RankWeight& weight) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<at::Tensor> rows(parameters.size());
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const at::Tensor& grad = parameters[k].tensor.grad();
    if (grad.defined() && weight.weight > 0) rows[k] = rows_of(grad);
  }
  const Header header(group, weight, rows, used);
  SparseOutcome outcome;
  double total = 0;
  bool alike = true;
  for (std::size_t r = 0; r < ranks; ++r) {
    outcome.weights.push_back(header.weight(r));
    total += header.weight(r).weight;
    alike = alike && header.weight(r).weight == header.weight(0).weight;
  }
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    std::vector<std::size_t> counts;
    bool any = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      counts.push_back(static_cast<std::size_t>(header.rows(r, k)));
      any = any || header.used(r, k);
    }
    if (!any) continue;
    ++outcome.used;
    at::Tensor& tensor = parameters[k].tensor;
    std::vector<std::int64_t> none = tensor.sizes().vec();
    none[0] = 0;
    const at::Tensor own_index =
        rows[k].defined() ? rows[k].indices()[0].contiguous() : at::empty({0}, at::kLong);
    const at::Tensor own_values = rows[k].defined()
                                      ? rows[k].values().contiguous()
                                      : at::empty(none, tensor.options().requires_grad(false));
    const Gathering index(group, own_index, counts), values(group, own_values, counts);
    index.work.wait();
    values.work.wait();

    at::Tensor summands = values.all.to(summed_in(tensor.scalar_type()));
    if (!alike) {
      std::int64_t row = 0;
      for (std::size_t r = 0; r < ranks; row += header.rows(r, k), ++r)
        summands.narrow(0, row, header.rows(r, k)).mul_(header.weight(r).weight);
    }
    const double factor = alike ? 1.0 / static_cast<double>(ranks) : 1.0 / total;
    const at::Tensor sum =
        at::sparse_coo_tensor(index.all.unsqueeze(0), summands, tensor.sizes()).coalesce();
    tensor.mutable_grad() = sum.mul(factor).to(tensor.scalar_type());
  }
  return outcome;
}

}  // namespace paceline::parallel
