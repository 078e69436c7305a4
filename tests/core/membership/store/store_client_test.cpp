#include "paceline/core/membership/store/store_client.h"

#include <gtest/gtest.h>

#include <atomic>

#include "paceline/core/transport/reactor/reactor.h"
#include "tests/core/membership/store_world.h"

namespace paceline::membership {
namespace {

using namespace std::chrono_literals;
using test::bytes;
using test::soon;
using test::StoreWorld;
using test::text_of;

const Failure kVerdict{Fault::peer_lost, "rank 2 was killed by signal 9", {2}};

TEST(StoreClient, AGetWaitsForTheSet) {
  StoreWorld world;
  const auto reader = world.client(0);
  std::jthread writer([&] { world.client(1)->set("late/1", bytes("value")); });
  EXPECT_EQ(text_of(reader->get("late/1", soon())), "value");
  EXPECT_EQ(text_of(reader->get("late/1", soon())), "value");
  const auto writer_of_nothing = world.client(2);
  writer_of_nothing->set("empty/2", {});
  EXPECT_EQ(text_of(reader->get("empty/2", soon())), "");
}

TEST(StoreClient, AGetThatNobodyAnswersEndsAtTheDeadlineAndLaterOnesWork) {
  StoreWorld world;
  const auto client = world.client(0);
  EXPECT_EQ(client->get("never", Deadline::in(5ms)).error().what,
            "nobody has set 'never' in the store");
  EXPECT_EQ(client->get("never", Deadline::in(5ms)).error().fault, Fault::timed_out);
  client->set("a/0", bytes("1"));
  EXPECT_EQ(text_of(client->get("a/0", soon())), "1");
}

TEST(StoreClient, AGetOfAllWaitsForTheLastRankAndKeepsTheirOrder) {
  StoreWorld world;
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int rank = 0; rank < 3; ++rank) clients.push_back(world.client(rank));
  clients[2]->set("where/2", bytes("two"));
  clients[0]->set("where/0", bytes("nought"));
  clients[0]->set("elsewhere/0", bytes("of another folder"));
  EXPECT_EQ(clients[0]->get_all("where", 3, Deadline::in(5ms)).error().what,
            "nobody has set 'where/*' in the store");
  std::jthread last([&] { clients[1]->set("where/1", {}); });
  for (int reader : {0, 2, 0}) {
    const auto all = clients[static_cast<std::size_t>(reader)]->get_all("where", 3, soon());
    std::vector<std::string> texts;
    for (const auto& value : all.value()) texts.push_back(text_of(value));
    EXPECT_EQ(texts, (std::vector<std::string>{"nought", "", "two"}));
  }
}

TEST(StoreClient, AGetOfAllCarriesMoreThanOneFrameHolds) {
  constexpr int kRanks = 40;
  StoreWorld world(kRanks);
  std::unique_ptr<StoreClient> reader;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto client = world.client(rank);
    client->set("long/" + std::to_string(rank),
                bytes(std::string(60'000, static_cast<char>('a' + rank % 26))));
    if (rank == 0) reader = std::move(client);
    else ASSERT_TRUE(client->get("long/" + std::to_string(rank), soon()));
  }
  const auto all = reader->get_all("long", kRanks, soon()).value();
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto& value = all[static_cast<std::size_t>(rank)];
    ASSERT_EQ(value.size(), 60'000U);
    EXPECT_EQ(static_cast<char>(value.back()), static_cast<char>('a' + rank % 26));
  }
}

TEST(StoreClient, AVerdictEndsAWaitingGet) {
  StoreWorld world;
  const auto client = world.client(0);
  std::jthread launcher([&] { world.tell(kVerdict); });
  EXPECT_EQ(client->get("never", soon()).error(), kVerdict);
  EXPECT_EQ(client->ended(soon()), kVerdict);
  EXPECT_EQ(world.client(1)->get("never", soon()).error(), kVerdict) << "and whoever comes later";
}

TEST(StoreClient, AVerdictReachesAServingClientAndSoDoesTheLaunchersEnd) {
  StoreWorld world;
  transport::Reactor reactor;
  const auto client = world.client(0);
  std::vector<Failure> heard;
  reactor.run([&] {
    client->serve_on(reactor.poller(), [&](const Failure& verdict) {
      heard.push_back(verdict);
      reactor.note_completion();
    });
  });
  const auto count = [&] {
    std::size_t now = 0;
    reactor.run([&] { now = heard.size(); });
    return now;
  };
  world.tell(kVerdict);
  test::wait_until([&] { return count() == 1; });
  world.end();
  test::wait_until([&] { return count() == 2; });
  reactor.run([&] {
    EXPECT_EQ(heard, (std::vector<Failure>{kVerdict, kVerdict})) << "the first cause stays";
  });
}

TEST(StoreClient, MapsAreHeardWheneverTheyComeAndReportsReachTheOwner) {
  StoreWorld world(2, 1);
  const auto map = [](int number) { return std::vector<std::byte>(static_cast<unsigned>(number)); };
  const auto tell = [&](int number) {
    world.post([map, number](StoreServer& store) { store.tell_map(map(number)); });
  };
  const auto client = world.client(2);
  client->set("here/2", {});
  ASSERT_TRUE(client->get("here/2", soon()));
  tell(1), tell(2);
  const auto second = world.client(0);
  second->set("here/0", {});
  ASSERT_TRUE(second->get("here/0", soon())) << "the maps came before this";
  ASSERT_TRUE(client->get("here/0", soon()));

  transport::Reactor reactor;
  std::atomic<std::size_t> newest = 0, maps = 0;
  reactor.run([&] {
    client->serve_on(reactor.poller(), [](const Failure&) {});
    client->hear_map([&](Bytes bytes) { newest = bytes.size(), ++maps; });
    EXPECT_EQ(newest, 2U);
    client->linked();
    client->report_of_server(bytes("ready"));
  });
  EXPECT_EQ(maps, 1U) << "an older one means nothing any more";
  tell(7);
  test::wait_until([&] { return newest == 7; });
  test::wait_until([&] { return !world.server_reports().empty(); });
  EXPECT_EQ(world.linked(), std::vector{2});
  EXPECT_EQ(world.server_reports()[0].first, 2);
  EXPECT_EQ(text_of(world.server_reports()[0].second), "ready");
}

TEST(StoreClient, AVerdictThatCameBeforeServingIsToldAtOnce) {
  StoreWorld world;
  const auto client = world.client(0);
  world.tell(kVerdict);
  ASSERT_EQ(client->ended(soon()), kVerdict);
  transport::Reactor reactor;
  std::optional<Failure> heard;
  reactor.run([&] {
    client->serve_on(reactor.poller(), [&](const Failure& verdict) { heard = verdict; });
  });
  EXPECT_EQ(heard, kVerdict);
}

TEST(StoreClient, TheLaunchersEndEndsAGet) {
  StoreWorld world;
  const auto client = world.client(0);
  EXPECT_EQ(client->ended(Deadline::in(0s)), std::nullopt);
  std::jthread launcher([&] { world.end(); });
  const auto got = client->get("never", soon());
  EXPECT_EQ(got.error().what,
            "the process with the job's store (the launcher; without one, rank 0) is gone");
  EXPECT_EQ(got.error().fault, Fault::peer_lost);
}

TEST(StoreClient, AReportReachesTheLauncherThoughTheClientEndsAtOnce) {
  StoreWorld world;
  world.client(1)->report(kVerdict);
  test::wait_until([&] { return !world.reports().empty(); });
  EXPECT_EQ(world.reports()[0].rank, 1);
  EXPECT_EQ(world.reports()[0].failure, kVerdict);
}

TEST(StoreClient, AWrongSecretIsRefusedAndAWrongAddressNamed) {
  StoreWorld world;
  const auto refused =
      StoreClient::connect(world.address, world.hello(0), Secret::random(), soon());
  EXPECT_EQ(refused.error().fault, Fault::refused);
  const auto senseless = StoreClient::connect("nowhere", world.hello(0), world.secret, soon());
  EXPECT_EQ(senseless.error().fault, Fault::misuse);
  EXPECT_NE(senseless.error().what.find("PACELINE_STORE: 'nowhere'"), std::string::npos);
  const std::string address = world.address;
  world.end();
  const auto gone = StoreClient::connect(address, world.hello(0), world.secret, Deadline::in(20ms));
  EXPECT_EQ(gone.error().what,
            "cannot reach the job's store: cannot connect to " + address +
                ": Connection refused; is the launcher that set PACELINE_STORE still running?");
}

TEST(StoreClient, KnowsTheAddressByWhichItReachesTheStore) {
  StoreWorld world;
  EXPECT_EQ(world.client(0)->local_host(), "127.0.0.1");
}

}  // namespace
}  // namespace paceline::membership
