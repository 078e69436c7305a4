#include "paceline/torch/parallel/sparse_gradients.h"

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

at::ScalarType summed_in(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

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

// `own` of every rank, each filled up to `longest` rows: shape {ranks, longest, ...}.
struct Gathering {
  at::Tensor padded, all;
  Work work;

  Gathering(Communicator& group, const at::Tensor& own, std::int64_t longest) {
    std::vector<std::int64_t> sizes = own.sizes().vec();
    sizes[0] = longest;
    padded = at::zeros(sizes, own.options());
    padded.narrow(0, 0, own.size(0)).copy_(own);
    sizes.insert(sizes.begin(), group.size());
    all = at::empty(sizes, own.options());
    work = group.all_gather(buffer_of(padded), buffer_of(all));
    work.keep(std::vector<at::Tensor>{padded, all});
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
    std::int64_t longest = 0;
    bool any = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      longest = std::max(longest, header.rows(r, k));
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
    const Gathering index(group, own_index, longest), values(group, own_values, longest);
    index.work.wait();
    values.work.wait();

    std::vector<at::Tensor> indices, summands;
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<std::int64_t>(r);
      indices.push_back(index.all[rank].narrow(0, 0, header.rows(r, k)));
      at::Tensor part = values.all[rank].narrow(0, 0, header.rows(r, k)).to(summed_in(tensor.scalar_type()));
      summands.push_back(alike ? part : part * header.weight(r).weight);
    }
    const double factor = alike ? 1.0 / static_cast<double>(ranks) : 1.0 / total;
    const at::Tensor sum =
        at::sparse_coo_tensor(at::cat(indices).unsqueeze(0), at::cat(summands), tensor.sizes()).coalesce();
    tensor.mutable_grad() = sum.mul(factor).to(tensor.scalar_type());
  }
  return outcome;
}

}  // namespace paceline::parallel
