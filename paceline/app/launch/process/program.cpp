#include "paceline/app/launch/process/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
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

// A script as its first line tells, without "#!".
struct Script {
  bool has_mark = false;  // "#!"
  bool is_text = false;   // its first bytes are those of a text
  std::string interpreter = {};
  bool ends_as_dos = false;  // by a carriage return and a newline
};

Script script_in(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  std::getline(in, line);
  Script script{.has_mark = line.starts_with("#!"),
                .is_text = !line.empty() && std::ranges::all_of(line, [](unsigned char byte) {
                  return std::isprint(byte) != 0 || std::isspace(byte) != 0;
                })};
  if (!script.has_mark) return script;
  script.ends_as_dos = line.ends_with('\r');
  const auto begin = line.find_first_not_of(" \t", 2);
  if (begin != std::string::npos)
    script.interpreter = line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
  return script;
}

Result<std::string> check_script(const std::string& file) {
  const Script script = script_in(file);
  if (script.ends_as_dos)
    return misuse(fmt::format(
        "{0} has lines that end as on DOS, so that no interpreter is found for it; run `sed -i "
        "'s/\\r$//' {0}`",
        file));
  if (script.is_text && !script.has_mark)
    return misuse(fmt::format(
        "{0} is a text without #! at its begin, so that nobody knows what runs it; begin it with "
        "#!/bin/sh or the like, or name its interpreter first, as in `paceline run -n 2 sh {0}`",
        file));
  if (!script.interpreter.empty() && !is_executable(script.interpreter))
    return misuse(fmt::format(
        "{} starts with #!{}, which does not exist or is not executable; correct its first line",
        file, script.interpreter));
  return file;
}

Result<std::string> check(const std::string& file) {
  if (is_folder(file)) {
    return misuse(
        fmt::format("{} is a directory, not a program; name an executable file in it", file));
  }
  if (!is_file(file)) {
    if (const auto folder = current_folder(); !folder && !file.starts_with('/'))
      return folder.error();
    return misuse(fmt::format(
        "{} does not exist; check the path (it is relative to the current folder)", file));
  }
  if (!is_executable(file)) {
    return misuse(fmt::format(
        "{0} is not executable; run `chmod +x {0}`, or name its interpreter first, as in "
        "`paceline run -n 2 python3 {0}`",
        file));
  }
  return check_script(file);
}

}  // namespace

Result<std::string> current_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  if (!error) return folder.native();
  return misuse(
      fmt::format("the current folder cannot be used ({}), since it was deleted or is not yours; "
                  "change into another one",
                  error.message()));
}

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

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace paceline::launch
