#include "paceline/core/collective/group/machine_port.h"

#include <set>
#include <utility>

#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/collective/group/group_number.h"
#include "paceline/core/membership/generation/generation_port.h"

namespace paceline {
namespace {

using machine::Actions;
using machine::Message;
using machine::Time;

std::set<int> set_of(const std::vector<int>& ranks) {
  return {ranks.begin(), ranks.end()};
}

}  // namespace

class MachinePort::Impl {
  // The port below numbers peers by their ranks in the world, the machine inside by those in the
  // group. It also wakes those who wait for what the machine does.
  class GroupMachine final : public machine::Machine {
   public:
    GroupMachine(machine::Machine& inside, collective::Group& group)
        : inside_(inside), members_(group.members()), reactor_(*group.reactor()) {}

    Actions on_message(int from, const Message& message, Time now) override {
      return outside(inside_.on_message(members_.member(from), message, now));
    }
    Actions on_timer(std::uint32_t timer, Time now) override {
      return outside(inside_.on_timer(timer, now));
    }
    Actions on_lost(int peer, Time now) override {
      return outside(inside_.on_lost(members_.member(peer), now));
    }

   private:
    Actions outside(Actions actions) {
      reactor_.note_completion();
      for (machine::Action& action : actions) {
        if (auto* const send = std::get_if<machine::Send>(&action))
          send->to = members_.world_rank(send->to);
        if (auto* const drop = std::get_if<machine::Drop>(&action))
          drop->peer = members_.world_rank(drop->peer);
      }
      return actions;
    }

    machine::Machine& inside_;
    const collective::Members& members_;
    transport::Reactor& reactor_;
  };

 public:
  Impl(std::shared_ptr<collective::Group> of, std::chrono::milliseconds longest_wait,
       std::uint32_t number, machine::Machine& machine)
      : group(std::move(of)),
        timeout(longest_wait),
        inside(machine, *group),
        port(group->reactor(), group->members().shared_generation(), number, inside, {},
             set_of(group->members().world_ranks())) {}

  const std::shared_ptr<collective::Group> group;
  const std::chrono::milliseconds timeout;
  GroupMachine inside;
  membership::GenerationPort port;
};

MachinePort::MachinePort(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MachinePort::~MachinePort() = default;

void MachinePort::tell(Message message) {
  impl_->port.tell(std::move(message));
}

void MachinePort::wait(const char* what, const std::function<bool()>& done,
                       std::chrono::milliseconds within) {
  collective::Group& group = *impl_->group;
  const auto time = within.count() > 0 ? within : impl_->timeout;
  const auto is_over = [&] { return done() || group.generation().is_failing(); };
  const bool over = group.reactor()->drive_until(is_over, Deadline::in(time));
  if (done()) return;
  group.check_alive();
  if (over) return;
  throw Error(
      {Fault::timed_out,
       fmt::format("rank {} of group '{}' waited {} ms for {}; a rank may be stopped or have ended "
                   "its part early: look at the other ranks' logs",
                   group.members().rank(), group.name(), time.count(), what),
       {}});
}

// The last barrier makes sure that no message comes where the port is not there yet.
std::unique_ptr<MachinePort> Communicator::attach(machine::Machine& machine) {
  check_may_wait("attach");
  collective::Group& group = *impl_->group;
  membership::Generation& generation = group.generation();
  const std::uint32_t number =
      collective::agree_on_number(*this, generation, group.id(),
                                  {.count = ++impl_->machines, .color = collective::kMachineColor});
  generation.release_group(number);  // the port takes it
  auto port = std::make_unique<MachinePort>(
      std::make_unique<MachinePort::Impl>(impl_->group, impl_->timeout, number, machine));
  barrier().wait();
  return port;
}

}  // namespace paceline
