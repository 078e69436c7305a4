#include "paceline/torch/bridge/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "paceline/core/base/result.h"

namespace paceline {
namespace {

using testing::HasSubstr;

std::string misuse_of(const at::Tensor& tensor) {
  try {
    buffer_of(tensor);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "";
}

TEST(Tensors, ABufferIsTheTensorsOwnMemory) {
  for (auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                    at::kShort, at::kChar, at::kByte, at::kBool}) {
    const at::Tensor tensor = at::zeros({3, 5}, type);
    const Buffer buffer = buffer_of(tensor);
    EXPECT_EQ(static_cast<void*>(buffer.data), tensor.data_ptr());
    EXPECT_EQ(buffer.count, 15u);
    EXPECT_EQ(buffer.size_bytes(), tensor.nbytes());
    EXPECT_EQ(buffer.dtype, dtype_of(type).value());
  }
}

TEST(Tensors, ScalarsAndEmptyTensorsAreBuffersToo) {
  EXPECT_EQ(buffer_of(at::zeros({}, at::kFloat)).count, 1u);
  EXPECT_EQ(buffer_of(at::zeros({0, 7}, at::kFloat)).count, 0u);
}

TEST(Tensors, WhatCannotBeABufferIsRefusedWithARemedy) {
  EXPECT_THAT(misuse_of(at::Tensor()), HasSubstr("fill it first"));
  EXPECT_THAT(misuse_of(at::zeros({4, 4}).t().narrow(0, 0, 2)), HasSubstr(".contiguous()"));
  EXPECT_THAT(misuse_of(at::zeros({4}, at::kComplexFloat)), HasSubstr("view_as_real"));
  EXPECT_THAT(misuse_of(at::zeros({4, 4}).to_sparse()), HasSubstr("to_dense()"));
  EXPECT_THAT(misuse_of(at::empty({4}, at::TensorOptions().device(at::kMeta))),
              HasSubstr(".cpu()"));
}

TEST(Tensors, ATensorOverMemoryKeepsItsOwnerAndIsNoView) {
  auto memory = std::make_shared<std::vector<std::byte>>(6 * sizeof(float));
  const at::Tensor like = at::zeros({2, 3}, at::kFloat);
  at::Tensor tensor = tensor_over(memory->data(), like, memory);
  EXPECT_EQ(memory.use_count(), 2);
  tensor.fill_(2);
  EXPECT_EQ(reinterpret_cast<float*>(memory->data())[5], 2.0f);
  at::Tensor parameter = at::zeros({2, 3}, at::kFloat).set_requires_grad(true);
  parameter.mutable_grad() = tensor;
  parameter.mutable_grad()
      .detach_()
      .zero_();  // what zero_grad(false) does; throws for autograd views
  EXPECT_EQ(reinterpret_cast<float*>(memory->data())[5], 0.0f);
  parameter.mutable_grad().reset();
  tensor.reset();
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(Tensors, ADenseLayoutIsKept) {
  std::vector<std::byte> memory(2 * 3 * 4 * 5 * sizeof(float));
  const at::Tensor like = at::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor tensor = tensor_over(memory.data(), like, {});
  EXPECT_EQ(tensor.strides(), like.strides());
  EXPECT_FALSE(is_same_memory(tensor, like));
  EXPECT_TRUE(is_same_memory(tensor, tensor));
  EXPECT_FALSE(is_same_memory(tensor, at::Tensor()));
}

TEST(Tensors, PackingAndUnpackingGivesTheSameValuesForMixedTensors) {
  const std::vector<at::Tensor> from = {
      at::rand({3, 5}), at::arange(7, at::kLong), at::zeros({0}), at::ones({2}, at::kBool),
      at::rand({1, 3, 2, 2}, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast)};
  std::vector<at::Tensor> to;
  for (const at::Tensor& tensor : from) to.push_back(at::zeros_like(tensor));
  std::vector<std::byte> bytes(packed_bytes(from));
  pack(from, bytes);
  unpack(bytes, to);
  for (std::size_t i = 0; i < from.size(); ++i) EXPECT_TRUE(at::equal(from[i], to[i])) << i;
}

}  // namespace
}  // namespace paceline
