#include <set>
#include <tuple>

#include "paceline/app/launch/ending/server_keeper.h"
#include "paceline/core/server/control/controller.h"

namespace paceline::launch {
namespace {

std::vector<int> numbers_from(int first, int count) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(first + i);
  return numbers;
}

// The controller tells nobody by itself: the launcher takes its chains and tells all members.
class ControllerKeeper final : public ServerKeeper {
 public:
  ControllerKeeper(const std::vector<int>& servers, int replicas)
      : controller_(server::first_chains(servers, replicas), replicas, {},
                    {servers.begin(), servers.end()}) {}

  bool may_lose(int member) const override { return controller_.may_lose(member); }
  void died(int member, bool is_replaced) override {
    std::ignore = controller_.died(member, is_replaced);
  }
  void came(int member) override { std::ignore = controller_.came(member); }
  void reported(int member, Bytes report) override {
    const auto reports = server::parse_chain_reports(report);
    if (!reports) return;
    for (const server::ChainReport& one : *reports)
      std::ignore = controller_.on_message(member, server::encode(one), {});
  }
  bool is_ready(int member) const override { return controller_.is_ready(member); }
  std::optional<std::vector<std::byte>> take_map() override {
    if (controller_.chains() == told_) return std::nullopt;
    told_ = controller_.chains();
    return server::encode(told_);
  }

 private:
  server::Controller controller_;
  std::vector<server::Chain> told_ = controller_.chains();  // members begin with the first ones
};

}  // namespace

std::unique_ptr<ServerKeeper> keeper_of_chains(int ranks, int servers, int replicas) {
  return std::make_unique<ControllerKeeper>(numbers_from(ranks, servers), replicas);
}

}  // namespace paceline::launch
