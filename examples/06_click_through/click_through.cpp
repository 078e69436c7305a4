// Learns which advertisements are clicked, by a wide and deep model whose embeddings lie on servers.
//   Alone, on lines that it draws itself:      click_through
//   On four workers, with rows on two servers: paceline run -n 4 --servers 2 -- click_through
//   Lines in Criteo's format:                  click_through --generate clicks.txt --lines 1000000
//                                              click_through --train clicks.txt
// The model is in model.h, the loop in training.cpp.
#include "click_data.h"
#include "options.h"
#include "paceline/paceline.h"
#include "training.h"

int main(int argc, char** argv) {
  click_through::RunOptions options;
  if (const int code = click_through::read_options(argc, argv, options); code >= 0) return code;
  return paceline::run_main([&](paceline::Job& job) {
    if (options.generate.empty()) return click_through::train(job, options);
    if (job.rank() == 0) click_through::write_lines(options);
    return 0;
  });
}
