// Also covers paceline/core/schedule/order/model.h.
#include "paceline/core/schedule/replay/replay_models.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::schedule {
namespace {

std::size_t parameters(const Model& model) {
  return model.bytes() / 4;
}

TEST(ReplayModels, HaveEveryTensorOfTheRealNetworks) {
  const Model resnet = resnet_50(), base = bert_base(), large = bert_large();
  EXPECT_EQ(resnet.size(), 161);
  EXPECT_EQ(parameters(resnet), 25557032u);
  EXPECT_EQ(base.size(), 206);
  EXPECT_EQ(parameters(base), 110111042u);
  EXPECT_EQ(large.size(), 398);
  EXPECT_EQ(parameters(large), 336232258u);
}

TEST(ReplayModels, BeginAndEndWithTheTensorsOfThePublishedLists) {
  const Model resnet = resnet_50();
  const std::vector<std::size_t> head = {9408, 64, 64, 4096, 64, 64, 36864, 64, 64};
  const std::vector<std::size_t> tail = {512, 1048576, 2048, 2048, 2048000, 1000};
  for (std::size_t i = 0; i < head.size(); ++i) EXPECT_EQ(resnet.tensors[i].bytes, 4 * head[i]);
  for (std::size_t i = 0; i < tail.size(); ++i)
    EXPECT_EQ(resnet.tensors[161 - tail.size() + i].bytes, 4 * tail[i]);
}

// Shapes that codecs of matrices see: convolutions and linear layers have a row for each output,
// embeddings one for each word.
TEST(ReplayModels, TensorsAreMatricesOfWholeRowsOrVectors) {
  for (const Model& model : replay_models()) {
    for (const Tensor& tensor : model.tensors) {
      ASSERT_GE(tensor.rows, 1u);
      EXPECT_EQ(tensor.bytes / 4 % tensor.rows, 0u);
    }
  }
  const auto rows = [](const Model& model, std::size_t begin, std::size_t count) {
    std::vector<std::size_t> found;
    for (std::size_t i = begin; i < begin + count; ++i) found.push_back(model.tensors[i].rows);
    return found;
  };
  const Model resnet = resnet_50(), base = bert_base();
  EXPECT_EQ(rows(resnet, 0, 7), (std::vector<std::size_t>{64, 1, 1, 64, 1, 1, 64}));
  EXPECT_EQ(rows(resnet, 156, 5), (std::vector<std::size_t>{2048, 1, 1, 1000, 1}));
  EXPECT_EQ(rows(base, 0, 7), (std::vector<std::size_t>{30528, 512, 2, 1, 1, 768, 1}));
  EXPECT_EQ(rows(base, 197, 9), (std::vector<std::size_t>{768, 1, 1, 768, 1, 1, 1, 2, 1}));
}

// Each tensor's bytes times its place, from lists that were written down independently.
TEST(ReplayModels, HaveEachTensorsBytesAtItsPlace) {
  const auto moment = [](const Model& model) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < model.tensors.size(); ++i) sum += (i + 1) * model.tensors[i].bytes;
    return sum;
  };
  EXPECT_EQ(moment(resnet_50()), 13031961504u);
  EXPECT_EQ(moment(bert_base()), 35882519152u);
  EXPECT_EQ(moment(bert_large()), 243304170608u);
}

TEST(ReplayModels, ComputeAsLongAsOneGpuTookForTheSurvey) {
  EXPECT_NEAR(resnet_50().compute(), 64 / 253.1, 1e-4);
  EXPECT_NEAR(bert_base().compute(), 64 / 212.8, 1e-4);
  EXPECT_NEAR(bert_large().compute(), 8 / 49.0, 1e-4);
}

TEST(ReplayModels, ATiedEmbeddingIsReadyLastAndIsALargeShare) {
  for (const auto& [model, share] : {std::pair(bert_base(), .213), std::pair(bert_large(), .093)}) {
    const Tensor& last = model.sent(model.size() - 1);
    EXPECT_EQ(last, model.tensors.front());
    EXPECT_NEAR(static_cast<double>(last.bytes) / static_cast<double>(model.bytes()), share, .001);
    EXPECT_NEAR(ready_times(model).back(), model.forward() + model.backward(), 1e-12);
  }
}

TEST(ReplayModels, AreFoundByNameInAnyCaseAndAnUnknownOneIsToldWhatThereIs) {
  EXPECT_EQ(replay_model("bert-large"), bert_large());
  try {
    replay_model("VGG");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "there is no model \"VGG\" to replay; there are ResNet-50, BERT-Base, BERT-Large");
  }
}

TEST(Model, ScalingChangesTimesAloneAndDividingBytesAlone) {
  const Model model = bert_base();
  const Model slow = scaled(model, 3), small = divided(model, 8);
  EXPECT_EQ(slow.bytes(), model.bytes());
  EXPECT_NEAR(slow.compute(), 3 * model.compute(), 1e-12);
  EXPECT_EQ(small.compute(), model.compute());
  EXPECT_NEAR(static_cast<double>(small.bytes()), static_cast<double>(model.bytes()) / 8,
              4.0 * 206);
  for (const Tensor& tensor : divided(model, 1000000).tensors) {
    EXPECT_GE(tensor.bytes, 4u);
    EXPECT_EQ(tensor.bytes % 4, 0u);
  }
  EXPECT_THROW(divided(model, 0), Error);
}

}  // namespace
}  // namespace paceline::schedule
