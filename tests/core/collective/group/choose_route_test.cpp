#include "paceline/core/collective/group/choose_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/call/options.h"

namespace paceline::collective {
namespace {

using ::testing::HasSubstr;

// The place of the buffers, and whether ranks may reach those on devices, or have offered the call.
enum class Buffers : std::uint8_t { on_host, in_reach, out_of_reach, offered };

struct Row {
  const char* what;
  RouteFacts facts;
  Call call;
  std::string_view algorithm;
  RoutePrices prices;
  Route route;
  Buffers buffers = Buffers::on_host;
  bool is_staged = false;
};

Request request_of(Call call, Buffers buffers) {
  if (buffers == Buffers::offered) call.offer.emplace();
  return {.call = std::move(call),
          .is_on_device = buffers != Buffers::on_host,
          .may_reach_devices = buffers == Buffers::in_reach};
}

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

RouteFacts with(RouteFacts facts, DeviceCarrier devices, bool makes_offers = false) {
  facts.devices = devices;
  facts.makes_offers = makes_offers;
  return facts;
}

const RouteFacts kShared2{.ranks = 2, .shares_memory = true, .longest_posted = 256 << 10},
    kShared16{.ranks = 16, .shares_memory = true, .longest_gathered = 3200},
    kLinks2{.ranks = 2, .longest_posted = 256 << 10},
    kLinks7{.ranks = 7, .longest_posted = 2730, .longest_gathered = 682},
    kLinks16{.ranks = 16, .longest_posted = 1092, .longest_gathered = 273}, kAlone{.ranks = 1},
    kMpi{.ranks = 16, .shares_memory = true, .engine = EngineTraits{.name = "mpi"}},
    kDirect2 = with(kShared2, DeviceCarrier::direct),
    kNccl2 = with(kShared2, DeviceCarrier::nccl, /*makes_offers=*/true);

void expect_route(const Row& row) {
  const auto [route, is_staged] = choose_route(row.facts, request_of(row.call, row.buffers),
                                               row.algorithm, [&row] { return row.prices; });
  EXPECT_EQ(route, row.route) << row.what << ": " << name_of(route);
  EXPECT_EQ(is_staged, row.is_staged) << row.what;
}

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
    expect_route(row);
  }
}

TEST(ChooseRoute, BuffersOnDevicesGoByKernelsOrAreOfferedOrStaged) {
  constexpr auto in_reach = Buffers::in_reach, out_of_reach = Buffers::out_of_reach,
                 offered = Buffers::offered;
  constexpr auto board = Route::board, programs = Route::programs, kernels = Route::device_kernels;
  const Call broadcast{.operation = Operation::broadcast, .dtype = Dtype::f32, .count = 1};
  const RouteFacts direct7 = with(kLinks7, DeviceCarrier::direct),
                   direct16 = with(kLinks16, DeviceCarrier::direct),
                   mpi = with(kMpi, DeviceCarrier::direct),
                   many = with(kShared16, DeviceCarrier::direct);
  for (const Row& row : {
           Row{"on a host", kDirect2, all_reduce(1), "", {}, kernels, in_reach},
           Row{"whatever programs cost", many, all_reduce(1 << 24), "", {2, 1}, kernels, in_reach},
           Row{"before an engine for the host", mpi, all_reduce(1), "", {}, kernels, in_reach},
           Row{"without an offer", kNccl2, all_reduce(1), "", {}, kernels, in_reach},
           Row{"all offer", kNccl2, all_reduce(1), "", {}, Route::offered, offered},
           Row{"other calls, too", kNccl2, broadcast, "", {}, Route::offered, offered},
           Row{"out of reach", kDirect2, all_reduce(1), "", {}, board, out_of_reach, true},
           Row{"staging is wanted", kShared2, all_reduce(1), "", {}, board, in_reach, true},
           Row{"other calls", kDirect2, broadcast, "", {}, programs, in_reach, true},
           Row{"weights", kDirect2, weighted(all_reduce(1)), "", {}, programs, in_reach, true},
           Row{"a program by its name",
               kDirect2,
               all_reduce(1),
               "ring",
               {},
               programs,
               in_reach,
               true},
           Row{"the board by its name", kDirect2, all_reduce(1), kBoard, {}, board, in_reach, true},
           Row{"over links", direct7, all_reduce(1), "", {}, Route::links, in_reach, true},
           Row{"with the agreement",
               direct16,
               all_reduce(1),
               "",
               {},
               Route::gathered,
               in_reach,
               true},
           Row{"by an engine", mpi, broadcast, "", {}, Route::engine, in_reach, true},
       }) {
    expect_route(row);
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
  const auto goes_direct = [](const RouteFacts& facts, const Call& call,
                              std::string_view algorithm) {
    return choose_route(with(facts, DeviceCarrier::direct), request_of(call, Buffers::in_reach),
                        algorithm, [] { return RoutePrices(); })
               .route == Route::device_kernels;
  };
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

TEST(ChooseRoute, OffersCallsOnDevicesThatAProgramCanCarryWhereSomeRanksDoNotOfferThem) {
  const auto may_be_offered_on = [](const RouteFacts& facts, const Call& call,
                                    std::string_view algorithm) {
    return may_be_offered(facts, request_of(call, Buffers::in_reach), algorithm);
  };
  const RouteFacts links16 = with(kLinks16, DeviceCarrier::nccl, /*makes_offers=*/true);
  EXPECT_TRUE(may_be_offered_on(kNccl2, all_reduce(1), ""));
  EXPECT_TRUE(may_be_offered_on(kNccl2, weighted(all_reduce(1)), ""));
  EXPECT_TRUE(may_be_offered_on(kNccl2, {.operation = Operation::all_gather, .count = 1}, ""));
  EXPECT_TRUE(may_be_offered_on(links16, all_reduce(69), ""));
  EXPECT_FALSE(may_be_offered_on(links16, all_reduce(68), "")) << "it has no program";
  EXPECT_FALSE(may_be_offered_on(kNccl2, all_reduce(0), ""));
  EXPECT_FALSE(may_be_offered_on(kNccl2, {.operation = Operation::barrier}, ""));
  EXPECT_FALSE(may_be_offered_on(kNccl2, all_reduce(1), "ring")) << "a program was named";
  EXPECT_FALSE(may_be_offered_on(kDirect2, all_reduce(1), "")) << "there is no library";
  EXPECT_FALSE(may_be_offered(kNccl2, request_of(all_reduce(1), Buffers::on_host), ""));
  std::vector<float> values(2), other(2);
  Request exchange =
      request_of({.operation = Operation::all_to_all, .count = 2}, Buffers::in_reach);
  exchange.input = exchange.output = buffer_of(values);
  EXPECT_FALSE(may_be_offered(kNccl2, exchange, "")) << "libraries do not exchange in place";
  exchange.output = buffer_of(other);
  EXPECT_TRUE(may_be_offered(kNccl2, exchange, ""));
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
                         [] { return RoutePrices(); })
                .route,
            Route::engine);
}

}  // namespace
}  // namespace paceline::collective
