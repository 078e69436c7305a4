#include "paceline/torch/replica/broadcast.h"

#include <torch/torch.h>

#include <sstream>
#include <string>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/collective.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/equal/coalesced.h"

namespace paceline {
namespace {

constexpr std::size_t kLargestState = std::size_t{1} << 40;  // bytes of an optimizer

void require_rank(Communicator& group, int root) {
  if (root < 0 || root >= group.size())
    throw_misuse(c10::str("rank ", root, " cannot be the root of a group of ", group.size()));
}

std::string saved(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return std::move(stream).str();
}

}  // namespace

void broadcast_parameters(const std::vector<at::Tensor>& tensors, Communicator& group, int root) {
  require_rank(group, root);
  if (group.size() == 1) return;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].layout() != at::kStrided) {
      throw_misuse(c10::str("broadcast_parameters: tensor ", i, " ", describe(tensors[i]),
                            " is not dense: hand in its dense copy"));
    }
    lines.push_back(c10::str("tensor ", i, " ", describe(tensors[i])));
  }
  replica::require_agreement(group, lines);
  replica::broadcast_all(tensors, group, root);
}

void broadcast_parameters(const torch::nn::Module& model, Communicator& group, int root) {
  std::vector<at::Tensor> tensors = model.parameters();
  for (const at::Tensor& buffer : model.buffers()) tensors.push_back(buffer);
  broadcast_parameters(tensors, group, root);
}

void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, Communicator& group, int root) {
  require_rank(group, root);
  if (group.size() == 1) return;
  const std::string own = group.rank() == root ? saved(optimizer) : std::string();
  std::string text = broadcast_bytes(group, own, root, {.at_most = kLargestState});
  if (group.rank() == root) return;
  std::istringstream stream(std::move(text));
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  optimizer.state().clear();  // load() adds, and the root may lack what is here
  optimizer.load(archive);
}

}  // namespace paceline
