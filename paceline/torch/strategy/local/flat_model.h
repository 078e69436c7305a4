// A replica as one vector: its trained parameters in the order of ModelParts, then its floating
// buffers (running statistics and the like). Strategies that move parameters compute with such
// vectors, and one message carries a whole one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::strategy {

// THREAD: one.
class FlatModel {
 public:
  struct Piece {
    at::Tensor tensor;        // of the model
    std::int64_t offset = 0;  // of its first element
  };

  // `with_buffers`: else each rank keeps its own. THROWS Error (misuse): parameters and floating
  // buffers are not all of one type; it names two that differ.
  FlatModel(const replica::ModelParts& parts, bool with_buffers, const Communicator& group);

  std::int64_t elements() const { return elements_; }      // of parameters and buffers
  std::int64_t parameters() const { return parameters_; }  // of parameters alone
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::size_t trained() const { return trained_; }  // pieces that are parameters; the first ones
  at::ScalarType type() const { return type_; }

  // A new vector of zeros, in memory that the ranks of the group reach without copies.
  // Making one is slow.
  at::Tensor make_vector() const { return make_vector(elements_); }
  at::Tensor make_vector(std::int64_t elements) const;

  // Copies the model into a vector of elements(), and back.
  void read(const at::Tensor& into) const;
  void write(const at::Tensor& from) const;
  void write_buffers(const at::Tensor& from) const;
  // model += factor * vector.
  void add(const at::Tensor& vector, double factor = 1) const;
  // Copies the gradients of the parameters() into a vector of so many elements; zeros where there
  // are none.
  void read_gradients(const at::Tensor& into) const;
  // Parameters become `values` where `is_kept` is false; vectors of parameters().
  void set_where_not(const at::Tensor& is_kept, const at::Tensor& values) const;
  // nullptr: the tensor is none of the trained parameters.
  const Piece* piece_of(const at::Tensor& parameter) const;
  // |model - vector|^2, over the trained parameters.
  double square_distance(const at::Tensor& vector) const;
  // The part of a vector that belongs to a piece, in the piece's shape and memory layout.
  at::Tensor part_of(const at::Tensor& vector, const Piece& piece) const;

  // Buffers that are no floating numbers, such as counts: no mean of them makes sense.
  const std::vector<at::Tensor>& other_buffers() const { return other_buffers_; }

 private:
  // The part of a vector, where the piece lies: vectors are on the host.
  at::Tensor beside_piece(const at::Tensor& vector, const Piece& piece) const;

  const Communicator& group_;
  std::vector<Piece> pieces_;
  std::vector<at::Tensor> other_buffers_;
  std::size_t trained_ = 0;
  std::int64_t elements_ = 0, parameters_ = 0;
  at::ScalarType type_ = at::kFloat;
};

}  // namespace paceline::strategy
