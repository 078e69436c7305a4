// A small model in bf16 of which two layers are one, for the tests that read its checkpoints in
// Python (tests/readers/torch_reader.py has the same model).
//
//   tied_model DIRECTORY STEP FILE     goes on from the newest checkpoint in DIRECTORY, or saves
//   STEP
//                                      there; FILE gets the bytes of all tensors, by their names
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <string>

#include "paceline/core/job/job.h"
#include "paceline/torch/checkpointing/checkpointing.h"

namespace {

torch::nn::Sequential make_model() {
  torch::nn::Sequential model;
  const torch::nn::Linear shared(6, 6);
  model->push_back("encoder", shared);
  model->push_back("norm", torch::nn::BatchNorm1d(6));
  model->push_back("decoder", shared);
  model->push_back("head", torch::nn::Linear(6, 3));
  // Module::to would change the norm's count of batches too, which PyTorch's does not.
  for (at::Tensor& one : model->parameters()) one.set_data(one.to(at::kBFloat16));
  for (at::Tensor& one : model->buffers())
    if (one.is_floating_point()) one.set_data(one.to(at::kBFloat16));
  return model;
}

void write_tensors(const torch::nn::Sequential& model, const std::string& path) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : model->named_parameters()) tensors[entry.key()] = entry.value();
  for (const auto& entry : model->named_buffers()) tensors[entry.key()] = entry.value();
  std::ofstream file(path, std::ios::binary);
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor whole = tensor.detach().contiguous();
    file.write(static_cast<const char*>(whole.const_data_ptr()),
               static_cast<std::streamsize>(whole.nbytes()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  torch::manual_seed(1);
  paceline::Job job = paceline::init();
  torch::nn::Sequential model = make_model();
  paceline::Checkpoints checkpoints(job, argv[1], {.resume = true});
  checkpoints.add("model", model);
  const std::int64_t step = std::atoll(argv[2]);
  if (checkpoints.resume() < step) checkpoints.save(step);
  if (job.rank() == 0) write_tensors(model, argv[3]);
  return checkpoints.finish();
}
