#include "paceline/core/plan/layer_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

schedule::Model recorded() {
  return {.name = "m",
          .tensors = {{.bytes = 8, .forward = 1}},
          .batch = 4,
          .layers = {{.name = "in",
                      .forward = 1,
                      .backward = 2,
                      .output_bytes = 16,
                      .weight_bytes = 8,
                      .saved_bytes = 32,
                      .parameters = 2},
                     {.forward = 3, .output_bytes = 4}}};
}

TEST(ProfiledLayers, AreThoseOfTheFile) {
  EXPECT_EQ(
      profiled_layers(recorded(), "m.json").value(),
      (std::vector<LayerCost>{
          {.forward = 1, .backward = 2, .output_bytes = 16, .weight_bytes = 8, .saved_bytes = 32},
          {.forward = 3, .output_bytes = 4}}));
}

TEST(ProfiledLayers, HaveTheUpdatesOfTheirParametersAndTheirStarts) {
  schedule::Model model = recorded();
  model.tensors = {{.bytes = 8, .update = 2, .name = "in.weight"},
                   {.bytes = 8, .update = 3, .name = "in.up.bias"},
                   {.bytes = 8, .update = 5, .name = "inner.weight"}};
  model.layers.front().forward_start = .25;
  model.layers.front().backward_start = .5;
  const LayerCost layer = profiled_layers(model, "m.json").value().front();
  EXPECT_EQ(layer.update, 5);
  EXPECT_EQ(layer.forward_of(1), 1);
  EXPECT_EQ(layer.forward_of(0), .25);
  EXPECT_EQ(layer.backward_of(.5), .5 + .75);
}

TEST(ProfiledLayers, OfAFileWithoutLayersAreRefusedWithTheRemedy) {
  schedule::Model old = recorded();
  old.layers.clear();
  EXPECT_THAT(profiled_layers(old, "m.json").error().what,
              AllOf(HasSubstr("profile m.json"), HasSubstr("earlier releases"),
                    HasSubstr("record it again with: paceline profile")));
}

TEST(ProfiledLayers, OfAnotherModelAreRefusedWithBothSides) {
  const auto refusal = [](std::vector<NamedLayer> layers) {
    const auto checked = check_profile_of(recorded(), "m.json", layers);
    return checked ? std::string("accepted") : checked.error().what;
  };
  EXPECT_EQ(refusal({{"in", 2}, {"out", 0}}), "accepted") << "the second has no name in the file";
  EXPECT_THAT(refusal({{"in", 2}}), AllOf(HasSubstr("2 layers"), HasSubstr("this model 1")));
  EXPECT_THAT(refusal({{"first", 2}, {"out", 0}}),
              AllOf(HasSubstr("layer 0 is 'in'"), HasSubstr("this model's is 'first'")));
  EXPECT_THAT(refusal({{"in", 2}, {"out", 5}}),
              AllOf(HasSubstr("layer 1"), HasSubstr("with 0 parameters"), HasSubstr("with 5")));
}

}  // namespace
}  // namespace paceline::plan
