#include "paceline/core/machine/machine.h"

#include <iterator>

namespace paceline::machine {
namespace {

struct Performer {
  Port& port;
  void operator()(const Send& send) const { port.send(send.to, send.message); }
  void operator()(const Arm& arm) const { port.arm(arm.timer, arm.at); }
  void operator()(const Drop& drop) const { port.drop(drop.peer, drop.why); }
};

}  // namespace

void append(Actions& all, Actions more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void perform(const Actions& actions, Port& port) {
  for (const Action& action : actions) std::visit(Performer{port}, action);
}

}  // namespace paceline::machine
