#include "paceline/core/checkpoint/manifest.h"

#include <gmock/gmock.h>

#include "paceline/core/base/seed.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/seed.h"

namespace paceline::checkpoint::testing {
namespace {

using ::testing::HasSubstr;
using Json = JsonReader::Json;

Manifest small_manifest() {
  SmallCheckpoint checkpoint(400);
  for (const auto& file : checkpoint.files)
    checkpoint.manifest.files.push_back({file.name, (1 << 20) + 5, {0x12345678, 0x9abcdef0}});
  return checkpoint.manifest;
}

// The words of parse_manifest on the small manifest after a change.
std::string refusal(const std::function<void(Json&)>& change) {
  Json json = Json::parse(to_json(small_manifest()));
  change(json);
  const auto read = parse_manifest("manifest m", json.dump());
  return read ? "accepted" : read.error().what;
}

TEST(Manifest, IsReadAsItWasWritten) {
  const Manifest manifest = small_manifest();
  EXPECT_EQ(parse_manifest("m", to_json(manifest)).value(), manifest);
}

TEST(Manifest, IsRefusedAtTheFirstThingThatCannotBeTrue) {
  EXPECT_EQ(refusal([](Json&) {}), "accepted");
  const auto of_tensor = [](const char* key, Json value) {
    return refusal([&](Json& json) { json["items"][0]["tensors"][2][key] = value; });
  };
  EXPECT_THAT(of_tensor("shape", {7, 3}), HasSubstr("items[0].tensors[2].pieces"));
  EXPECT_THAT(of_tensor("dtype", "F7"), HasSubstr("items[0].tensors[2].dtype"));
  EXPECT_THAT(of_tensor("rank", 2), HasSubstr("items[0].tensors[2].rank"));
  EXPECT_THAT(of_tensor("name", "fc.bias"), HasSubstr("items[0].tensors[2].name"));
  EXPECT_THAT(of_tensor("shape", {-1}), HasSubstr("items[0].tensors[2].shape"));
  EXPECT_THAT(of_tensor("shape", {1ULL << 40, 1ULL << 40}), HasSubstr("2^63"));
  for (const char* name : {"../m", "a/b", ".hidden", "", "/etc/passwd", "a\nb"}) {
    EXPECT_THAT(refusal([&](Json& json) { json["files"][0]["name"] = name; }),
                HasSubstr("files[0].name"))
        << name;
  }
  EXPECT_THAT(refusal([](Json& json) { json["files"][1]["name"] = json["files"][0]["name"]; }),
              HasSubstr("files[1].name"));
  EXPECT_THAT(refusal([](Json& json) { json["files"][0]["length"] = 5; }),
              HasSubstr("files[0].crc32c"));
  EXPECT_THAT(refusal([](Json& json) { json["files"][0]["crc32c"] = "1234567x9abcdef0"; }),
              HasSubstr("files[0].crc32c"));
  EXPECT_THAT(
      refusal([](Json& json) { json["items"][0]["tensors"][0]["pieces"][0]["file"] = "x"; }),
      HasSubstr("pieces[0].file must be one of the files"));
  EXPECT_THAT(refusal([](Json& json) { json["world_size"] = 0; }), HasSubstr("world_size"));
  EXPECT_THAT(refusal([](Json& json) { json["more"] = 1; }), HasSubstr("more"));
  EXPECT_THAT(refusal([](Json& json) { json.erase("job"); }), HasSubstr("job"));
  EXPECT_THAT(refusal([](Json& json) { json["version"] = 0; }), HasSubstr("version"));
  EXPECT_THAT(refusal([](Json& json) { json["format"] = "zip"; }), HasSubstr("no manifest"));
}

// The pieces of all tensors, and the files, dealt out to two ranks.
std::vector<Manifest> shares_of(const Manifest& whole) {
  std::vector<Manifest> shares(2, whole);
  for (int rank = 0; rank < 2; ++rank) {
    Manifest& own = shares[static_cast<std::size_t>(rank)];
    for (Item& item : own.items) {
      for (LogicalTensor& tensor : item.tensors) {
        std::size_t place = 0;
        std::erase_if(tensor.pieces,
                      [&](const StoredPiece&) { return static_cast<int>(place++ % 2) != rank; });
      }
      std::erase_if(item.tensors, [](const LogicalTensor& one) { return one.pieces.empty(); });
    }
    if (rank > 0) own.files.clear();
  }
  return shares;
}

TEST(Manifest, OfSharesIsTheWholeOrNamesTheTensorThatHasAGap) {
  const Manifest whole = small_manifest();
  std::vector<Manifest> shares = shares_of(whole);
  auto made = merged(shares);
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_TRUE(parse_manifest("m", to_json(made.value())));
  ASSERT_EQ(made->items.size(), whole.items.size());
  for (std::size_t i = 0; i < whole.items.size(); ++i)
    EXPECT_EQ(made->items[i].tensors.size(), whole.items[i].tensors.size());

  // Without the second rank's pieces a share is one, and no manifest.
  EXPECT_TRUE(parse_share("s", to_json(shares[0])));
  EXPECT_FALSE(parse_manifest("s", to_json(shares[0])));
  shares.pop_back();
  EXPECT_THAT(merged(shares).error().what, HasSubstr("do not make up the whole"));
}

TEST(Manifest, OfANewerVersionIsToldWithBothVersionsAndIsNoDamage) {
  Json json = Json::parse(to_json(small_manifest()));
  json["version"] = 7;
  const auto read = parse_manifest("manifest m", json.dump());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().fault, Fault::misuse);
  EXPECT_THAT(read.error().what, HasSubstr("version 7, and this Paceline reads up to version 1"));
}

TEST(Manifest, OfAnyBytesIsRefusedOrSound) {
  SeededNumbers numbers(test::seed(4));
  const std::string good = to_json(small_manifest());
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (std::uint64_t changes = 1 + numbers.below(3); changes > 0; --changes)
      text[numbers.below(text.size())] = static_cast<char>(numbers.below(256));
    const auto read = parse_manifest("m", text);
    if (!read) continue;
    ASSERT_EQ(parse_manifest("m", to_json(read.value())).value(), read.value());
  }
}

}  // namespace
}  // namespace paceline::checkpoint::testing
