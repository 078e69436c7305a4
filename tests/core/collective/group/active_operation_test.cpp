// The tests look at rank 0 of three ranks that have no links, and make up its peers' frames.
#include "paceline/core/collective/group/active_operation.h"

#include <gtest/gtest.h>

#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/carrier/link_carrier.h"

namespace paceline::collective {
namespace {

using transport::FrameHeader;

class ActiveOperationOfOne : public ::testing::Test {
 protected:
  ActiveOperationOfOne() {
    Request request{.call = {.operation = Operation::all_reduce, .dtype = Dtype::i32, .count = 2},
                    .route = Route::links};
    request.input = {reinterpret_cast<const std::byte*>(values.data()), 2, Dtype::i32};
    request.output = {reinterpret_cast<std::byte*>(values.data()), 2, Dtype::i32};
    request.fingerprint = fingerprint(request.call);
    operation.emplace(context, 7, std::move(request));
    EXPECT_TRUE(operation->start());
  }

  void post(int peer, std::int32_t first, std::int32_t second) {
    const std::vector theirs = {first, second};
    const FrameHeader header{.type = frame::kPosted,
                             .sequence = 7,
                             .descriptor = fingerprint(operation->request().call)};
    EXPECT_TRUE(links.received(peer, header, std::as_bytes(std::span(theirs)), Delivery::payload));
  }
  Result<> call(int peer, const Call& call) {
    return operation->received(peer, {.type = frame::kCall, .sequence = 7}, encode(call),
                               Delivery::payload);
  }

  const std::shared_ptr<transport::Reactor> reactor = std::make_shared<transport::Reactor>();
  const std::shared_ptr<membership::Generation> generation =
      std::make_shared<membership::Generation>(
          membership::GenerationIdentity{.rank = 0, .size = 3});
  const Members members{generation, {0, 1, 2}};
  const std::string name = "world";
  Traffic traffic;
  LinkCarrier links{members, 1, traffic};
  const OperationContext context{.members = members,
                                 .group = 1,
                                 .group_name = name,
                                 .reactor = *reactor,
                                 .posting = links,
                                 .engine = nullptr,
                                 .traffic = traffic,
                                 .on_done = [] {}};
  std::vector<std::int32_t> values = {1, 2};
  std::optional<ActiveOperation> operation;
};

TEST_F(ActiveOperationOfOne, IsDoneWhenAllHavePosted) {
  EXPECT_EQ(operation->missing(), (std::vector{1, 2}));
  EXPECT_EQ(operation->look_at_post().value(), CallProgress::waiting);
  post(2, 10, 20);
  EXPECT_EQ(operation->missing(), std::vector{1});
  post(1, 100, 200);
  EXPECT_FALSE(operation->done()) << "it has not looked";
  EXPECT_EQ(operation->look_at_post().value(), CallProgress::moved);
  EXPECT_TRUE(operation->done());
  EXPECT_EQ(values, (std::vector<std::int32_t>{111, 222}));
  EXPECT_EQ(operation->look_at_post().value(), CallProgress::waiting) << "nothing is summed twice";
  EXPECT_EQ(values[0], 111);
}

TEST_F(ActiveOperationOfOne, ACallOfAPeerTakesItOffItsPost) {
  post(2, 10, 20);
  EXPECT_EQ(operation->description(),
            "all_reduce i32[2] sum by links (operation 7 of group 'world')");
  EXPECT_TRUE(call(1, operation->request().call));
  EXPECT_EQ(operation->description(), "all_reduce i32[2] sum (operation 7 of group 'world')");
  EXPECT_EQ(operation->missing(), std::vector{2}) << "a post counts no more";
  EXPECT_EQ(links.stand(), PostingCarrier::Stand::awaited);
  EXPECT_FALSE(operation->done());
  EXPECT_TRUE(call(2, operation->request().call));
  EXPECT_TRUE(operation->done());
}

TEST_F(ActiveOperationOfOne, ACallThatDiffersFails) {
  Call other = operation->request().call;
  other.count = 3;
  const auto failed = call(1, other);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().fault, Fault::mismatch);
  EXPECT_EQ(failed.error().ranks, (std::vector{0, 1}));
}

}  // namespace
}  // namespace paceline::collective
