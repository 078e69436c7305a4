#include "paceline/torch/strategy/server/centre_table.h"

#include <c10/util/StringUtil.h>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/strategy/server/others_wait.h"
#include "paceline/torch/strategy/server/table_names.h"

namespace paceline::strategy {

std::unique_ptr<server::Table> make_centre_table(Job& job, const FlatModel& model,
                                                 const server::ConsistencyChoice& choice) {
  let_others_go_on(job);  // all ranks make the table together
  return std::make_unique<server::Table>(
      job, server::TableSpec{.name = TableNames::next(job, "centre"),
                             .elements = static_cast<std::size_t>(model.elements()),
                             .dtype = *dtype_of(model.type()),
                             .synchrony = choice.text(),
                             .rule = "add"});
}

void refuse_writes_under(const server::ConsistencyChoice& choice, std::string_view centre) {
  throw_misuse(c10::str(
      "the model was written between two steps, and under synchrony '", choice.entry.name,
      ":centre=server' the servers hold a ", centre,
      " that would draw it back: write on all ranks alike, then call consensus() before the next "
      "step; from there on the ",
      centre, " is what was written"));
}

}  // namespace paceline::strategy
