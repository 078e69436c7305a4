// A model in training on the ranks of a mesh: whole on each replica (whole_model.cpp), or in stages
// (staged_model.cpp).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "options.h"
#include "paceline/train.h"

namespace tiny_gpt {

// All ranks of a replica make the same calls, and get the same results.
class Trainee {
 public:
  virtual ~Trainee() = default;
  // Trains on the rows of this replica, [rows, length + 1] characters each, in step `step` of the
  // run. Returns the mean loss of all replicas. THROWS paceline::Error (misuse): it is not finite.
  virtual double step(const at::Tensor& rows, std::int64_t step, double rate) = 0;
  virtual void train(bool on) = 0;  // the mode of its layers
  // The mean loss of the characters that this rank has of these rows, in evaluation.
  virtual double loss_of(const at::Tensor& rows) = 0;
  // The logits of the next character behind these, [1, length]: [1, all characters], on the host.
  virtual at::Tensor last_logits(const at::Tensor& tokens) = 0;
  virtual std::string sha256() = 0;  // of the parameters of the whole model
  virtual void add_to(paceline::Checkpoints& checkpoints) = 0;
  // The summary tells these of this kind of training. All ranks call it.
  virtual paceline::observe::Metrics figures() = 0;
};

// The part of sequences that this rank has, where ranks share them: [rows, length].
inline at::Tensor own_tokens(const at::Tensor& whole, paceline::DeviceMesh& mesh) {
  paceline::Communicator& context = mesh.group("cp");
  return context.size() == 1 ? whole : paceline::zigzag_part(whole, 1, context);
}

// The logits of the rank that has the last character, on all ranks that share the sequence.
inline at::Tensor of_last_character(at::Tensor logits, paceline::DeviceMesh& mesh) {
  paceline::Communicator& context = mesh.group("cp");
  if (context.size() == 1) return logits;
  logits = logits.contiguous();
  context.broadcast(paceline::buffer_of(logits)).wait();
  return logits;
}

[[noreturn]] inline void throw_not_finite(std::int64_t step) {
  throw paceline::Error({paceline::Fault::misuse,
                         "the loss of step " + std::to_string(step) +
                             " is not finite: take a smaller --learning-rate",
                         {}});
}

// The options outlive it, and so does the mesh. `device`: where the model lies.
std::unique_ptr<Trainee> make_whole_model(const RunOptions& options, paceline::DeviceMesh& mesh,
                                          at::Device device);
std::unique_ptr<Trainee> make_staged_model(const RunOptions& options, paceline::DeviceMesh& mesh);

}  // namespace tiny_gpt
