#include "paceline/torch/gradient/sparse_gradients.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::gradient {
namespace {

// Rows in rising order, each once, on the host.
at::Tensor rows_of(const at::Tensor& on_device) {
  const at::Tensor grad = on_device.cpu();
  if (grad.layout() == at::kSparse && grad.sparse_dim() == 1) return grad.coalesce();
  return (grad.layout() == at::kStrided ? grad : grad.to_dense()).to_sparse(1).coalesce();
}

at::ScalarType summed_in(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

// The number of rows that each rank has of each parameter.
class Counts {
 public:
  Counts(Communicator& group, const std::vector<at::Tensor>& rows)
      : parameters_(rows.size()), all_(parameters_ * static_cast<std::size_t>(group.size())) {
    std::vector<std::int64_t> own;
    for (const at::Tensor& each : rows) own.push_back(each.defined() ? each._nnz() : 0);
    group.all_gather(paceline::const_buffer_of(own), paceline::buffer_of(all_)).wait();
  }
  std::int64_t of(std::size_t rank, std::size_t parameter) const {
    return all_[rank * parameters_ + parameter];
  }

 private:
  std::size_t parameters_;
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

void average_sparse(Communicator& group, std::span<const replica::Parameter> parameters,
                    const std::vector<bool>& used, const StepWeights& weights) {
  const bool is_mean_already = group.size() == 1;
  if (is_mean_already || std::ranges::find(used, true) == used.end()) return;
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto own_rank = static_cast<std::size_t>(group.rank());
  std::vector<at::Tensor> rows(parameters.size());
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const at::Tensor& grad = parameters[k].tensor.grad();
    if (grad.defined() && weights.of_ranks[own_rank] > 0) rows[k] = rows_of(grad);
  }
  const Counts counts(group, rows);
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    if (!used[k]) continue;
    std::vector<std::size_t> rows_of_ranks;
    for (std::size_t r = 0; r < ranks; ++r)
      rows_of_ranks.push_back(static_cast<std::size_t>(counts.of(r, k)));
    const at::Tensor& tensor = parameters[k].tensor;
    std::vector<std::int64_t> none = tensor.sizes().vec();
    none[0] = 0;
    const at::Tensor own_index =
        rows[k].defined() ? rows[k].indices()[0].contiguous() : at::empty({0}, at::kLong);
    const at::Tensor own_values = rows[k].defined()
                                      ? rows[k].values().contiguous()
                                      : at::empty(none, at::TensorOptions(tensor.scalar_type()));
    const Gathering index(group, own_index, rows_of_ranks),
        values(group, own_values, rows_of_ranks);
    index.work.wait();
    values.work.wait();

    at::Tensor summands = values.all.to(summed_in(tensor.scalar_type()));
    std::int64_t row = 0;
    for (int r = 0; r < group.size(); ++r) {
      const std::int64_t length = counts.of(static_cast<std::size_t>(r), k);
      if (weights.share(r) != 1) summands.narrow(0, row, length).mul_(weights.share(r));
      row += length;
    }
    const at::Tensor sum =
        at::sparse_coo_tensor(index.all.unsqueeze(0), summands, tensor.sizes()).coalesce();
    tensor.mutable_grad() =
        sum.mul(1.0 / group.size()).to(tensor.options().layout(at::kSparse).requires_grad(false));
  }
}

}  // namespace paceline::gradient
