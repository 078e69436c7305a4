// Workers that wait ask the ranges whom these wait for, under every synchrony.
// Also covers paceline/core/server/machine/range_missing.cpp,
// paceline/core/server/machine/worker_asking.cpp and paceline/core/server/control/part_servers.cpp.
#include <gtest/gtest.h>

#include "paceline/core/server/machine/table_machine.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Send;

// A table of three workers, 0 to 2, on the servers 3 and 4, whose messages arrive at once unless
// their server is stopped.
class Asked {
 public:
  explicit Asked(const std::string& synchrony, const std::string& rule = "sgd", int replicas = 1)
      : shape_(shape_of({.name = "w",
                         .elements = 4,
                         .synchrony = synchrony,
                         .rule = rule,
                         .part_bytes = 8,
                         .replicas = replicas},
                        {{0, 1, 2}, {3, 4}})
                   .value()) {
    for (int member = 0; member < 5; ++member)
      machines_.push_back(std::make_unique<TableMachine>(shape_, member));
  }

  void stop(int server) { stopped_ = server; }
  void begin() {
    for (int worker = 0; worker < 3; ++worker)
      work(worker, [](WorkerMachine& one) { return one.assign(std::vector<std::byte>(16)); });
    for (int worker = 0; worker < 3; ++worker) pull(worker);
  }
  void push(int worker) {
    const std::vector<double> settings(shape_.rule.entry.settings.size(), 0.5);
    work(worker,
         [&](WorkerMachine& one) { return one.push(std::vector<std::byte>(16), 1, settings); });
  }
  void pull(int worker) {
    work(worker, [](WorkerMachine& one) { return one.pull(); });
  }
  void quiesce(int worker) {
    work(worker, [](WorkerMachine& one) { return one.quiesce(); });
  }
  void assign_nothing(int worker) {
    work(worker, [](WorkerMachine& one) { return one.assign({}); });
  }
  // Whom the worker waits for, when it has asked.
  std::string awaited(int worker) {
    work(worker, [](WorkerMachine& one) { return one.ask(); });
    return machines_[worker]->look([](const auto& one) { return one.awaited(); }).text(3);
  }
  bool has_heard(int worker) const {
    return machines_[worker]->look([](const auto& one) { return one.has_heard(); });
  }

 private:
  void work(int worker, const std::function<Actions(WorkerMachine&)>& call) {
    machines_[worker]->do_work([&](WorkerMachine& one, machine::Time) { return call(one); });
    carry(worker, machines_[worker]->on_message(worker, {.kind = TableMachine::kWork}, {}));
  }
  void carry(int from, const Actions& actions) {
    for (const auto& action : actions)
      if (const auto* send = std::get_if<Send>(&action); send != nullptr && send->to != stopped_)
        carry(send->to, machines_[send->to]->on_message(from, send->message, {}));
  }

  const TableShape shape_;
  std::vector<std::unique_ptr<TableMachine>> machines_;  // by member
  int stopped_ = -1;
};

TEST(Asking, ThoseThatHaveNotPushedToAStepAreNamedToWhoeverWaitsForIt) {
  for (const char* synchrony : {"bsp", "ssp:staleness=0", "bounded_delay:steps=0"}) {
    Asked table(synchrony);
    table.begin();
    table.push(0);
    table.pull(0);
    EXPECT_EQ(table.awaited(0), "ranks 1, 2, which have not pushed at clock 0") << synchrony;
    table.push(2);
    table.pull(2);
    EXPECT_EQ(table.awaited(0), "rank 1, which has not pushed at clock 0") << synchrony;
    table.push(1);
    table.pull(1);
    EXPECT_EQ(table.awaited(0), "what is under way") << synchrony;
    table.push(1);
    table.pull(1);
    EXPECT_EQ(table.awaited(1), "ranks 0, 2, which have not pushed at clock 1") << synchrony;
  }
}

TEST(Asking, ThoseThatAreTooFarBehindAreNamed) {
  Asked table("ssp:staleness=2");
  table.begin();
  table.push(1);
  for (int step = 0; step < 3; ++step) {
    table.push(0);
    table.pull(0);
  }
  EXPECT_EQ(table.awaited(0), "rank 2, which has not pushed at clock 0");
  table.push(2);
  table.push(0);
  table.pull(0);
  EXPECT_EQ(table.awaited(0), "ranks 1, 2, which have not pushed at clock 1");
}

TEST(Asking, WithSpareWorkersAllAreNamedThatMayPush) {
  Asked table("backup_workers:spare=1");
  table.begin();
  table.push(0);
  table.pull(0);
  EXPECT_EQ(table.awaited(0), "ranks 1, 2, which have not pushed at clock 0");
}

TEST(Asking, ThoseWhomARoundLacksAreNamedAndThoseAloneIfEnoughHaveCome) {
  for (const int replicas : {1, 2}) {
    Asked table("admm:barrier=2,delay=2", "add", replicas);
    table.begin();
    table.push(0);
    table.pull(0);
    EXPECT_EQ(table.awaited(0), "ranks 1, 2, which have not pushed at clock 0");
    table.push(1);
    table.pull(1);
    for (const int worker : {0, 1}) {
      EXPECT_EQ(table.awaited(worker), "what is under way") << "the round has ended";
      table.push(worker);
      table.pull(worker);
    }
    EXPECT_EQ(table.awaited(0), "rank 2, which has not pushed at clock 0");
    table.quiesce(2);
    EXPECT_EQ(table.awaited(0), "what is under way") << "nobody waits for rank 2 any more";
  }
}

TEST(Asking, ThoseThatDoNotQuiesceAreNamedAndThoseThatAreQuietHoldUpNoPull) {
  Asked table("bsp");
  table.begin();
  table.quiesce(1);
  EXPECT_EQ(table.awaited(1), "ranks 0, 2, which have not quiesced");
  table.push(0);
  table.pull(0);
  EXPECT_EQ(table.awaited(0), "rank 2, which has not pushed at clock 0");
}

TEST(Asking, WhoGivesTheFirstValuesIsNamed) {
  Asked table("bsp");
  table.assign_nothing(2);
  EXPECT_EQ(table.awaited(2), "rank 0, which has not given the first values");
}

TEST(Asking, AServerThatDoesNotAnswerIsNamedBesideThoseForWhomTheOtherWaits) {
  Asked table("bsp");
  table.begin();
  table.push(2);
  table.stop(4);
  table.push(0);
  table.pull(0);
  EXPECT_EQ(table.awaited(0),
            "rank 1, which has not pushed at clock 0; server 1, which does not answer");
  EXPECT_FALSE(table.has_heard(0));
}

}  // namespace
}  // namespace paceline::server
