#include "paceline/core/coordination/link_movement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_link.h"

namespace paceline::coordination {
namespace {

using transport::LinkProgress;

// A link that has come as far as its test says.
class ToldLink final : public test::TestLink {
 public:
  using TestLink::TestLink;
  LinkProgress progress() const override { return told; }

  LinkProgress told;
};

// Rank 0 of one, beside one server that was asked: what is said of it when its link has come from
// `before` to `after`.
std::string said(const LinkProgress& before, const LinkProgress& after) {
  const job::JobLinks links = {
      .reactor = nullptr,
      .generation = std::make_shared<membership::Generation>(
          membership::GenerationIdentity{.rank = 0, .size = 2, .servers = 1}),
      .timeout = {},
      .stall_time = {}};
  auto link = std::make_unique<ToldLink>(1);
  ToldLink& told = *link;
  links.generation->attach(1, std::move(link));
  LinkMovement movement(links);
  told.told = before;
  movement.begin();
  told.told = after;
  Awaited awaited;
  awaited.is_silent(1);
  movement.excuse(awaited);
  return awaited.text(links.generation->identity().ranks());
}

TEST(LinkMovement, AServerIsSilentOnlyWhereNothingMovesToOrFromIt) {
  struct Case {
    LinkProgress before, after;
    std::string said;
  };
  constexpr std::uint64_t kMebibyte = 1 << 20;
  const std::string silent = "server 0, which does not answer";
  for (const Case& one : {
           Case{{}, {}, silent},
           Case{{10, 0, 5}, {10, 0, 5}, silent},
           Case{{10, 0, 5}, {90, 0, 5}, silent},  // it has the question
           Case{{10, 7 * kMebibyte, 5}, {10, 7 * kMebibyte + 80, 5}, silent},  // nothing moves
           Case{{10, 0, 5}, {10, 0, 6}, "server 0 to send what is there"},
           Case{{10, 80, 5}, {10, 80, 6}, "server 0 to send what is there"},
       })
    EXPECT_EQ(said(one.before, one.after), one.said);
  for (const std::uint64_t received : {5, 6})  // the server may answer what came before
    EXPECT_THAT(
        said({10, 8 * kMebibyte, 5}, {10 + kMebibyte, 7 * kMebibyte, received}),
        ::testing::MatchesRegex("server 0, to which 7.0 MiB are still being sent \\([0-9.]+ "
                                "MiB a second\\)"));
}

TEST(LinkMovement, ThoseThatLackSomethingAreStillNamed) {
  const job::JobLinks links = {
      .reactor = nullptr,
      .generation = std::make_shared<membership::Generation>(
          membership::GenerationIdentity{.rank = 0, .size = 3, .servers = 1}),
      .timeout = {},
      .stall_time = {}};
  LinkMovement movement(links);
  Awaited awaited;
  awaited.lacks(1, "made it");
  awaited.is_silent(2);
  const std::string before = awaited.text(2);
  movement.excuse(awaited);
  EXPECT_EQ(awaited.text(2), before) << "no question was asked";
  movement.begin();
  movement.excuse(awaited);
  EXPECT_EQ(awaited.text(2), before) << "the server has no link";
}

}  // namespace
}  // namespace paceline::coordination
