#include "paceline/core/observe/trace_file.h"

#include "paceline/core/observe/chrome_trace.h"
#include "paceline/core/observe/output_file.h"
#include "paceline/core/observe/perfetto_trace.h"

namespace paceline::observe {

void write_trace(const std::string& path, std::span<const RankTrace> ranks) {
  OutputFile("trace file", path)
      .write(path.ends_with(".pftrace") ? perfetto_trace(ranks) : chrome_trace(ranks));
}

}  // namespace paceline::observe
