#include "paceline/core/observe/whole_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "paceline/core/base/result.h"

namespace paceline::observe {
namespace {

bool is_replaceable(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

}  // namespace

WholeFile::WholeFile(std::string what, std::string path)
    : what_(std::move(what)), path_(std::move(path)) {
  if (is_replaceable(path_)) part_ = path_ + ".part";
  file_.emplace(what_, part_.empty() ? path_ : part_);
}

WholeFile::~WholeFile() {
  if (file_ && !part_.empty()) ::unlink(part_.c_str());
}

void WholeFile::commit(std::string_view bytes) {
  file_->write(bytes);
  if (!part_.empty() && std::rename(part_.c_str(), path_.c_str()) != 0)
    throw Error(io_failure(fmt::format("cannot replace the {} {}", what_, path_), errno));
  file_.reset();
}

}  // namespace paceline::observe
