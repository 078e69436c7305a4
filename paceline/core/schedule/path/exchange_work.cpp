#include "paceline/core/schedule/path/exchange_work.h"

#include <vector>

namespace paceline::schedule {

Work start(Communicator& group, const compress::Exchange& exchange) {
  using Kind = compress::Exchange::Kind;
  switch (exchange.kind) {
    case Kind::all_reduce:
      return group.all_reduce(exchange.input, exchange.output, {.op = exchange.op});
    case Kind::all_gather: return group.all_gather(exchange.input, exchange.output);
    case Kind::broadcast: return group.broadcast(exchange.output, exchange.root);
    case Kind::all_to_all:
      return group.all_to_all(exchange.input, exchange.send_counts, exchange.output,
                              exchange.receive_counts);
    case Kind::swap: break;
  }
  std::vector<Work> both;
  if (exchange.to >= 0) both.push_back(group.send(exchange.input, exchange.to));
  if (exchange.from >= 0) both.push_back(group.recv(exchange.output, exchange.from));
  return Work::all_of(std::move(both));
}

}  // namespace paceline::schedule
