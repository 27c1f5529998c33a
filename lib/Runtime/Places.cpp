//===- Places.cpp - where files that belong to the runtime are ------------===//
#include "Places.h"

#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <unistd.h>

using namespace rlx;

std::string Search::text() const {
  std::string all;
  for (const std::string &place : places)
    all += (all.empty() ? "'" : ", '") + place + "'";
  return all;
}

/// The folder of the library or program that this code is in, or "".
static std::string folderOfThisCode() {
  Dl_info info;
  struct link_map *map = nullptr;
  std::string file = "/proc/self/exe";
  // The program itself has an empty name in the list of what is loaded.
  if (::dladdr1(reinterpret_cast<void *>(&folderOfThisCode), &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) &&
      map && map->l_name && *map->l_name)
    file = map->l_name;
  std::unique_ptr<char, void (*)(void *)> real(::realpath(file.c_str(), nullptr), std::free);
  if (!real)
    return {};
  std::string path(real.get());
  return path.substr(0, path.rfind('/'));
}

Search rlx::searchFile(const char *file, const char *variable, std::span<const char *const> folders) {
  Search search;
  auto look = [&](std::string path) {
    bool there = ::access(path.c_str(), R_OK) == 0;
    search.places.push_back(path);
    if (there)
      search.found = std::move(path);
    return there;
  };
  // Not of a program with more rights than its user.
  if (const char *named = ::secure_getenv(variable); named && *named) {
    look(named);
    return search;
  }
  std::string folder = folderOfThisCode();
  for (const char *each : folders)
    if (!folder.empty() && look(folder + "/" + each + file))
      break;
  return search;
}
