#include "paceline/core/schedule/replay/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "paceline/core/base/seed.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline::schedule {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Model any_model(SeededNumbers& numbers) {
  Model model{.name = "m\"<\n\xc3\xa9",
              .tensors = {},
              .batch = 1 + static_cast<int>(numbers.below(1 << 30))};
  const std::uint64_t tensors = 1 + numbers.below(9);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    model.tensors.push_back({.bytes = 1 + numbers.below(std::uint64_t{1} << 40),
                             .forward = numbers.unit(),
                             .backward = numbers.unit() * 86400,
                             .update = numbers.unit() * 1e-12});
    if (numbers.below(2) == 0) model.tensors.back().rows = 1;
    if (numbers.below(2) == 0) model.tensors.back().name = "layer." + std::to_string(i);
  }
  const std::uint64_t layers = numbers.below(6);
  for (std::uint64_t i = 0; i < layers; ++i) {
    model.layers.push_back({.forward = numbers.unit() + 1e-9,
                            .backward = numbers.unit() * 86400,
                            .output_bytes = numbers.below(std::uint64_t{1} << 40),
                            .weight_bytes = numbers.below(std::uint64_t{1} << 40),
                            .saved_bytes = numbers.below(std::uint64_t{1} << 40)});
    Layer& layer = model.layers.back();
    layer.parameters = numbers.below(layer.weight_bytes + 1);
    if (numbers.below(2) == 0) layer.name = "blocks." + std::to_string(i);
    if (numbers.below(2) == 0) layer.forward_start = layer.forward * numbers.unit();
    if (numbers.below(2) == 0) layer.backward_start = layer.backward * numbers.unit();
  }
  return model;
}

Model model_with_layers(SeededNumbers& numbers) {
  for (;;)
    if (Model model = any_model(numbers); !model.layers.empty()) return model;
}

std::string complaint(const Json& json) {
  const auto parsed = parse_model(json.dump(), "m.json");
  EXPECT_FALSE(parsed.has_value()) << json;
  if (parsed) return "";
  EXPECT_EQ(parsed.error().fault, Fault::misuse);
  EXPECT_THAT(parsed.error().what, HasSubstr("model m.json: "));
  EXPECT_THAT(parsed.error().what, HasSubstr("paceline profile --output FILE"));
  return parsed.error().what;
}

TEST(ModelFile, ComesBackFromItsJsonToTheBit) {
  for (const Model& model : replay_models())
    EXPECT_EQ(parse_model(json_of(model), "").value(), model);
  SeededNumbers numbers(test::seed(11));
  for (int round = 0; round < 200; ++round) {
    const Model model = any_model(numbers);
    EXPECT_EQ(parse_model(json_of(model), "").value(), model);
  }
}

TEST(ModelFile, WhatIsLeftOutOfATensorIsNotKnown) {
  const auto model = parse_model(R"({"paceline_model": 1, "name": "m", "batch": 2, "tensors":
      [{"bytes": 8, "forward": 1, "backward": 2, "update": 0}]})",
                                 "");
  EXPECT_EQ(
      model.value(),
      (Model{.name = "m", .tensors = {{.bytes = 8, .forward = 1, .backward = 2}}, .batch = 2}));
}

TEST(ModelFile, EveryKeyThatIsMissingIsNamed) {
  SeededNumbers numbers(test::seed(5));
  const Json good = Json::parse(json_of(any_model(numbers)));
  for (const char* key : {"paceline_model", "name", "batch", "tensors"}) {
    Json bad = good;
    bad.erase(key);
    EXPECT_THAT(complaint(bad), HasSubstr(std::string(": ") + key + " must be given"));
  }
  for (const char* key : {"bytes", "forward", "backward", "update"}) {
    Json bad = good;
    bad["tensors"].back().erase(key);
    EXPECT_THAT(complaint(bad), HasSubstr("tensors[" + std::to_string(good["tensors"].size() - 1) +
                                          "]." + key + " must be given"));
  }
}

TEST(ModelFile, EveryValueThatIsWrongIsNamedWithItsTensor) {
  SeededNumbers numbers(test::seed(6));
  Json good = Json::parse(json_of(any_model(numbers)));
  good["tensors"].push_back(good["tensors"][0]);
  const std::vector<Json> no_text = {1, nullptr, Json::array(), std::string(201, 'x')};
  const std::vector<Json> no_seconds = {-1e-9, 86401, 1e300, "1", nullptr, true};
  const std::vector<Json> no_bytes = {0, -4, 1.5, (std::uint64_t{1} << 40) + 1, "4", nullptr};
  const std::vector<std::pair<std::string, std::vector<Json>>> of_tensors = {
      {"bytes", no_bytes},      {"forward", no_seconds},
      {"backward", no_seconds}, {"update", no_seconds},
      {"name", no_text},        {"rows", {-1, 1.5, "1", std::uint64_t{1} << 63}},
  };
  for (const auto& [key, values] : of_tensors) {
    for (const Json& value : values) {
      Json bad = good;
      bad["tensors"][1][key] = value;
      EXPECT_THAT(complaint(bad), HasSubstr("tensors[1]." + key + " must be ")) << value;
    }
  }
  const std::vector<std::pair<std::string, std::vector<Json>>> of_the_whole = {
      {"paceline_model", {0, 2, "1", nullptr}},
      {"name", no_text},
      {"batch", {0, -1, 1.5, std::uint64_t{1} << 31, "1"}},
      {"tensors", {Json::array(), Json::object(), 1, "x"}}};
  for (const auto& [key, values] : of_the_whole) {
    for (const Json& value : values) {
      Json bad = good;
      bad[key] = value;
      EXPECT_THAT(complaint(bad), HasSubstr(": " + key + " must be ")) << value;
    }
  }
}

TEST(ModelFile, KeysThatThereAreNoneOfAreNamed) {
  SeededNumbers numbers(test::seed(7));
  const Json good = Json::parse(json_of(any_model(numbers)));
  Json bad = good;
  bad["tensor"] = 1;
  EXPECT_THAT(complaint(bad), HasSubstr("key 'tensor' of the whole must be one of"));
  bad = good;
  bad["tensors"][0]["byte"] = 1;
  EXPECT_THAT(complaint(bad), HasSubstr("key 'byte' of tensors[0] must be one of bytes, "));
}

TEST(ModelFile, AModelThatComputesNothingIsNone) {
  Json json = Json::parse(json_of({.name = "m", .tensors = {{.bytes = 4}}}));
  EXPECT_THAT(complaint(json), HasSubstr("must be more than 0 seconds"));
}

TEST(ModelFile, OfAnEarlierReleaseHasNoLayersAndIsWrittenAsItWas) {
  SeededNumbers numbers(test::seed(9));
  Model model = any_model(numbers);
  model.layers.clear();
  EXPECT_FALSE(Json::parse(json_of(model)).contains("layers"));
  EXPECT_EQ(parse_model(json_of(model), "").value(), model);
}

TEST(ModelFile, EveryValueOfALayerThatIsMissingOrWrongIsNamedWithItsLayer) {
  SeededNumbers numbers(test::seed(10));
  Json good = Json::parse(json_of(model_with_layers(numbers)));
  good["layers"].push_back(good["layers"][0]);
  good["layers"][1]["weight_bytes"] = 8;
  good["layers"][1]["parameters"] = 2;
  const std::vector<Json> no_seconds = {-1e-9, 86401, 1e300, "1", nullptr, true};
  const std::vector<Json> no_bytes = {-4, 1.5, (std::uint64_t{1} << 40) + 1, "4", nullptr};
  const std::vector<std::pair<std::string, std::vector<Json>>> of_layers = {
      {"forward", no_seconds},
      {"backward", no_seconds},
      {"output_bytes", no_bytes},
      {"weight_bytes", no_bytes},
      {"saved_bytes", no_bytes},
      {"parameters", {-1, 1.5, 9, "4", nullptr}},  // more elements than bytes
      {"name", {1, nullptr, Json::array(), std::string(201, 'x')}},
      {"forward_start", {-1e-9, 86401, "1", nullptr}},
      {"backward_start", {-1e-9, 86401, "1", nullptr}},
  };
  for (const auto& [key, values] : of_layers) {
    for (const Json& value : values) {
      Json bad = good;
      bad["layers"][1][key] = value;
      EXPECT_THAT(complaint(bad), HasSubstr("layers[1]." + key + " must be ")) << value;
    }
    if (key == "name" || key.ends_with("_start")) continue;
    Json bad = good;
    bad["layers"][1].erase(key);
    EXPECT_THAT(complaint(bad), HasSubstr("layers[1]." + key + " must be given"));
  }
  Json unknown = good;
  unknown["layers"][0]["byte"] = 1;
  EXPECT_THAT(complaint(unknown), HasSubstr("key 'byte' of layers[0] must be one of"));
  for (const Json& value : std::vector<Json>{Json::array(), Json::object(), 1, "x", nullptr}) {
    Json bad = good;
    bad["layers"] = value;
    EXPECT_THAT(complaint(bad), HasSubstr("layers must be a list")) << value;
  }
  Json idle = good;
  for (Json& layer : idle["layers"]) {
    layer["forward"] = layer["backward"] = 0;
    layer.erase("forward_start");
    layer.erase("backward_start");
  }
  EXPECT_THAT(complaint(idle), HasSubstr("all layers together must be more than 0 seconds"));
}

// Any content of the file gives a model or a complaint, and nothing else.
TEST(ModelFile, OfAnyBytesIsAModelWithinItsBoundsOrAComplaint) {
  SeededNumbers numbers(test::seed(8));
  for (int round = 0; round < 3000; ++round) {
    std::string text = json_of(any_model(numbers));
    const std::uint64_t changes = 1 + numbers.below(4);
    for (std::uint64_t i = 0; i < changes; ++i) {
      const auto at = static_cast<std::size_t>(numbers.below(text.size()));
      const auto kind = numbers.below(4);
      if (kind == 0) text[at] = static_cast<char>(numbers.below(256));
      else if (kind == 1) text.erase(at, 1 + static_cast<std::size_t>(numbers.below(9)));
      else if (kind == 2) text.insert(at, 1, "0123456789eE-+.\"[]{},:"[numbers.below(22)]);
      else text.insert(at, text.substr(static_cast<std::size_t>(numbers.below(text.size())), 9));
    }
    auto parsed = parse_model(text, "m.json");
    if (!parsed) {
      EXPECT_FALSE(parsed.error().what.empty());
      continue;
    }
    EXPECT_GT(parsed->size(), 0);
    EXPECT_GT(parsed->compute(), 0);
    EXPECT_GE(parsed->batch, 1);
    for (const Tensor& tensor : parsed->tensors) {
      EXPECT_GE(tensor.bytes, 1u);
      EXPECT_LE(tensor.forward + tensor.backward + tensor.update, 3 * 86400.0);
    }
    for (const Layer& layer : parsed->layers) {
      EXPECT_LE(layer.parameters, layer.weight_bytes);
      EXPECT_LE(layer.output_bytes + layer.saved_bytes, std::uint64_t{1} << 41);
      EXPECT_LE(layer.forward + layer.backward, 2 * 86400.0);
    }
  }
}

TEST(ModelFile, IsReadFromAFileAndOneThatIsNotThereIsToldWithTheRemedy) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("m.json");
  std::ofstream(file) << json_of(bert_base());
  EXPECT_EQ(read_model(file), bert_base());
  for (const std::string& missing : {folder.file("none.json"), folder.path().string()}) {
    try {
      read_model(missing);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse);
      EXPECT_THAT(error.what(), HasSubstr(missing + " cannot be read; record one with: paceline"));
    }
  }
}

TEST(ModelFile, AnOptionNamesAFileByASlashOrItsEndingElseAReplayModel) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("small");
  const Model small{.name = "small", .tensors = {{.bytes = 4, .forward = 1}}};
  std::ofstream(file) << json_of(small);
  EXPECT_EQ(model_named(file), small);
  EXPECT_EQ(model_named("bert-base"), bert_base());
  EXPECT_THROW(model_named("bert-base.json"), Error);
  EXPECT_THROW(model_named("small"), Error);
}

}  // namespace
}  // namespace paceline::schedule
