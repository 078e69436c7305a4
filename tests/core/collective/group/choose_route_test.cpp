#include "paceline/core/collective/group/choose_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/call/options.h"

namespace paceline::collective {
namespace {

using ::testing::HasSubstr;

struct Row {
  const char* what;
  RouteFacts facts;
  Call call;
  std::string_view algorithm;
  RoutePrices prices;
  Route route;
};

Call all_reduce(std::uint64_t count) {
  return {.operation = Operation::all_reduce, .dtype = Dtype::f32, .count = count};
}
Call weighted(Call call) {
  call.weighted = true;
  return call;
}
Call noted(Call call) {
  call.note.resize(1);
  return call;
}

const RouteFacts kShared2{.ranks = 2, .shares_memory = true, .longest_posted = 256 << 10},
    kShared16{.ranks = 16, .shares_memory = true, .longest_gathered = 3200},
    kLinks2{.ranks = 2, .longest_posted = 256 << 10},
    kLinks7{.ranks = 7, .longest_posted = 2730, .longest_gathered = 682},
    kLinks16{.ranks = 16, .longest_posted = 1092, .longest_gathered = 273}, kAlone{.ranks = 1},
    kMpi{.ranks = 16, .shares_memory = true, .engine = EngineTraits{.name = "mpi"}};

TEST(ChooseRoute, FollowsFromCallMembersMemoryAndPrices) {
  const Call barrier{.operation = Operation::barrier},
      broadcast{.operation = Operation::broadcast, .dtype = Dtype::f32, .count = 1};
  for (const Row& row : {
           Row{"a rank alone", kAlone, all_reduce(1), "", {}, Route::programs},
           Row{"two ranks do not ask for prices",
               kShared2,
               all_reduce(9),
               "",
               {2, 1},
               Route::board},
           Row{"many take the board where it is cheaper",
               kShared16,
               all_reduce(1 << 20),
               "",
               {1, 2},
               Route::board},
           Row{"as cheap is cheap enough", kShared16, all_reduce(1), "", {1, 1}, Route::board},
           Row{"and a program elsewhere", kShared16, all_reduce(1), "", {2, 1}, Route::programs},
           Row{"barriers have no programs", kShared16, barrier, "", {2, 1}, Route::board},
           Row{"the board by its name", kShared16, all_reduce(1), kBoard, {2, 1}, Route::board},
           Row{"another one by its name", kShared2, all_reduce(1), "ring", {}, Route::programs},
           Row{"weights", kShared2, weighted(all_reduce(1)), "", {}, Route::programs},
           Row{"notes", kLinks2, noted(all_reduce(1)), "", {}, Route::programs},
           Row{"other operations", kShared2, broadcast, "", {}, Route::programs},
           Row{"short over links", kLinks2, all_reduce(1 << 16), "", {}, Route::links},
           Row{"long over links", kLinks2, all_reduce((1 << 16) + 1), "", {}, Route::programs},
           Row{"seven ranks over links", kLinks7, all_reduce(682), "", {}, Route::links},
           Row{"more ranks gather inputs", kLinks16, all_reduce(68), "", {}, Route::gathered},
           Row{"while they are short", kLinks16, all_reduce(69), "", {}, Route::programs},
           Row{"barriers of many", kLinks16, barrier, "", {}, Route::programs},
           Row{"an engine takes all", kMpi, all_reduce(1), "", {}, Route::engine},
           Row{"also by its name", kMpi, all_reduce(1), "mpi", {}, Route::engine},
           Row{"unless another is named", kMpi, all_reduce(1), "ring", {}, Route::programs},
           Row{"barriers are not its own", kMpi, barrier, "", {}, Route::board},
       }) {
    const auto prices = [&row] { return row.prices; };
    EXPECT_EQ(choose_route(row.facts, {.call = row.call}, row.algorithm, prices), row.route)
        << row.what << ": " << name_of(row.route);
  }
}

TEST(ChooseRoute, AsksForPricesOnlyWhereTheAnswerDependsOnThem) {
  const auto never = []() -> RoutePrices {
    ADD_FAILURE() << "prices are not free";
    return {};
  };
  choose_route(kShared2, {.call = all_reduce(1)}, "", never);
  choose_route(kShared16, {.call = all_reduce(1)}, kBoard, never);
  choose_route(kShared16, {.call = {.operation = Operation::barrier}}, "", never);
  choose_route(kLinks16, {.call = all_reduce(1)}, "", never);
  choose_route(kMpi, {.call = all_reduce(1)}, "", never);
}

TEST(ChooseRoute, AllReducesOfFewRanksOnAHostMayGoBetweenDevices) {
  RouteFacts many = kShared16;
  EXPECT_TRUE(goes_direct(kShared2, all_reduce(1), ""));
  EXPECT_TRUE(goes_direct(many, all_reduce(1 << 24), "")) << "whatever programs cost";
  many.ranks = 17;
  EXPECT_FALSE(goes_direct(many, all_reduce(1), "")) << "kernels take no more operands";
  EXPECT_FALSE(goes_direct(kLinks2, all_reduce(1), "")) << "ranks must share memory";
  EXPECT_FALSE(goes_direct(kAlone, all_reduce(1), ""));
  EXPECT_FALSE(goes_direct(kShared2, all_reduce(0), ""));
  EXPECT_FALSE(goes_direct(kShared2, all_reduce(1), "ring")) << "a program was named";
  EXPECT_FALSE(goes_direct(kShared2, weighted(all_reduce(1)), ""));
  EXPECT_FALSE(goes_direct(kShared2, noted(all_reduce(1)), ""));
  EXPECT_FALSE(goes_direct(kShared2, {.operation = Operation::all_gather, .count = 1}, ""));
}

std::string refusal_of(const RouteFacts& facts, const Request& request,
                       std::string_view algorithm) {
  try {
    choose_route(facts, request, algorithm, [] { return RoutePrices(); });
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "nothing was refused";
}

TEST(ChooseRoute, RefusesABoardThatTheCallCannotHaveAndMemoryThatNothingCarries) {
  EXPECT_THAT(refusal_of(kLinks2, {.call = all_reduce(1)}, kBoard),
              HasSubstr("algorithm 'board' is for barriers and all_reduces"));
  EXPECT_THAT(refusal_of(kShared2, {.call = weighted(all_reduce(1))}, kBoard),
              HasSubstr("without weight and note"));
  std::vector<float> values(1);
  Buffer host = buffer_of(values), device = host;
  device.memory = {.kind = Memory::Kind::cuda};
  EXPECT_THAT(refusal_of(kShared2, {.call = all_reduce(1), .input = device, .output = device}, ""),
              HasSubstr("nothing carries here; start the job by `paceline run --transport nccl`"));
  EXPECT_THAT(refusal_of(kShared2, {.call = all_reduce(1), .input = device, .output = host}, ""),
              HasSubstr("one buffer lies in device memory and one on the host"));
  RouteFacts nccl = kShared2;
  nccl.engine = EngineTraits{.name = "nccl", .memory = Memory::Kind::cuda};
  EXPECT_THAT(refusal_of(nccl, {.call = all_reduce(1), .input = device, .output = device}, "ring"),
              HasSubstr("which programs cannot read"));
  EXPECT_EQ(choose_route(nccl, {.call = all_reduce(1), .input = device, .output = device}, "",
                         [] { return RoutePrices(); }),
            Route::engine);
}

}  // namespace
}  // namespace paceline::collective
