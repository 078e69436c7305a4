#include "paceline/app/cli/shared/output_file.h"

#include <cstdio>
#include <fstream>

#include "paceline/core/base/check.h"

namespace paceline::cli {

void write_output(std::string_view option, const std::string& file, std::string_view text) {
  if (file == "-") return fmt::print("{}", text);
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  PACELINE_CHECK(out.good(), "{}: {} cannot be written; give a file that can, or - for stdout",
                 option, file);
}

}  // namespace paceline::cli
