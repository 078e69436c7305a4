#include "paceline/core/transport/frame/frame_kinds.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "paceline/core/base/result.h"
#include "tests/core/transport/test_frames.h"

namespace paceline::transport {
namespace {

std::string refusal_of(const std::vector<FrameKind>& kinds) {
  FrameKinds table;
  try {
    table.add(kinds);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "none";
}

TEST(FrameKinds, ATableKnowsTransportsKindsAndThoseThatWereAddedAndNoOthers) {
  const FrameKinds& table = test::kTestKinds;
  std::size_t known = 0;
  for (int number = 0; number < 256; ++number) {
    const auto type = static_cast<FrameType>(number);
    const FrameKind* const kind = table.find(type);
    known += kind != nullptr ? 1U : 0U;
    if (kind != nullptr) {
      EXPECT_EQ(kind->type, type);
      EXPECT_EQ(table.name_of(type), kind->name);
    } else {
      EXPECT_EQ(table.name_of(type), "unknown");
      EXPECT_EQ(kTransportKinds.find(type), nullptr);
    }
  }
  EXPECT_EQ(known, kTransportFrames.size() + test::kTestFrames.size());
  EXPECT_EQ(table.find(test::kLongFrame)->longest_payload, kLongestPayload);
  EXPECT_EQ(table.name_of(FrameType::goodbye), "goodbye");
  EXPECT_EQ(kTransportKinds.find(test::kLongFrame), nullptr);
}

TEST(FrameKinds, ANumberThatIsTakenIsRefusedWithBothNames) {
  EXPECT_EQ(refusal_of({{test::kShortFrame, "one", 0}, {test::kShortFrame, "other", 0}}),
            "two kinds of frames have the number 100: 'one' and 'other'; each needs its own "
            "(docs/wire.md)");
  EXPECT_EQ(refusal_of({{FrameType::data, "mine", 0}}),
            "two kinds of frames have the number 2: 'data' and 'mine'; each needs its own "
            "(docs/wire.md)");
}

TEST(FrameKinds, AKindWithoutANameIsRefused) {
  EXPECT_EQ(refusal_of({{test::kShortFrame, "", 0}}),
            "the kind of frames with number 100 has no name");
}

TEST(FrameKinds, AllNumbersMayBeTaken) {
  std::vector<FrameKind> rest;
  for (int number = 0; number < 256; ++number) {
    const auto type = static_cast<FrameType>(number);
    if (kTransportKinds.find(type) == nullptr) rest.push_back({type, "one more", 0});
  }
  EXPECT_EQ(refusal_of(rest), "none");
}

}  // namespace
}  // namespace paceline::transport
