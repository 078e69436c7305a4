#include "paceline/app/launch/process/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <vector>

namespace paceline::launch {
namespace {

Failure misuse(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

bool is_file(const std::string& path) {
  struct stat about;
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat about;
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

bool is_executable(const std::string& path) {
  return is_file(path) && ::access(path.c_str(), X_OK) == 0;
}

std::vector<std::string> folders_of(std::string_view path) {
  std::vector<std::string> folders;
  while (true) {
    const auto colon = path.find(':');
    const auto folder = path.substr(0, colon);
    folders.emplace_back(folder.empty() ? "." : folder);  // an empty entry is the current folder
    if (colon == std::string_view::npos) return folders;
    path.remove_prefix(colon + 1);
  }
}

// The interpreter in a script's first line "#!/usr/bin/env python3"; empty when there is none.
std::string interpreter_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  char mark[2] = {};
  std::string line;
  if (!in.read(mark, 2) || mark[0] != '#' || mark[1] != '!' || !std::getline(in, line)) return {};
  const auto begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

Result<std::string> check(const std::string& file) {
  if (is_folder(file)) {
    return misuse(
        fmt::format("{} is a directory, not a program; name an executable file in it", file));
  }
  if (!is_file(file)) {
    return misuse(fmt::format(
        "{} does not exist; check the path (it is relative to the current folder)", file));
  }
  if (!is_executable(file)) {
    return misuse(fmt::format(
        "{0} is not executable; run `chmod +x {0}`, or name its interpreter first, as in "
        "`paceline run -n 2 python3 {0}`",
        file));
  }
  const auto interpreter = interpreter_of(file);
  if (!interpreter.empty() && !is_executable(interpreter)) {
    return misuse(fmt::format(
        "{} starts with #!{}, which does not exist or is not executable; correct its first line",
        file, interpreter));
  }
  return file;
}

}  // namespace

Result<std::string> find_program(const std::string& name, std::string_view path) {
  if (name.empty()) return misuse("the program's name is empty; write it after the options");
  if (name.find('/') != std::string::npos) return check(name);
  for (const auto& folder : folders_of(path)) {
    const auto file = folder + "/" + name;
    if (is_executable(file)) return check(file);
  }
  const bool is_here = is_file(name) || is_folder(name);
  if (!is_here)
    return misuse(fmt::format("{} was not found in $PATH; check its name, or give its path", name));
  return misuse(
      fmt::format("{0} was not found in $PATH, but is in the current folder; write ./{0}", name));
}

}  // namespace paceline::launch
