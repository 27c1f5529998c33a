//===- CompilerLibrary.cpp - finds and opens the compiler -----------------===//
#include "rlx/Runtime/CompilerLibrary.h"

#include "CompilerSlot.h"
#include "Places.h"
#include "rlx/Runtime/BuildId.h"
#include "rlx/Runtime/Load.h"

#include <dlfcn.h>

using namespace rlx;

CompilerSource::~CompilerSource() = default;

const char *rlx::buildId() { return RLX_BUILD_ID; }

namespace {
/// Whether `symbol` as the process sees it is another one than `library` has.
bool isReplaced(const char *library, const char *symbol) {
  void *handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle)
    return false;
  bool replaced = ::dlsym(RTLD_DEFAULT, symbol) != ::dlsym(handle, symbol);
  ::dlclose(handle);
  return replaced;
}

/// RTLD_DEEPBIND: the compiler's own MLIR comes before one that the process may have; Debian's has no versions in its
/// symbols. It would also give the compiler the C library's malloc and free where the process has others (sanitizers
/// are such a case), and memory that one made would go to the other. Then symbols are bound as usual, and openLibrary
/// makes sure that MLIR's are the right ones.
int openMode() {
  bool replaced = isReplaced("libc.so.6", "malloc") || isReplaced("libc.so.6", "free") ||
                  isReplaced("libstdc++.so.6", "_Znwm") || isReplaced("libstdc++.so.6", "_ZdlPv");
  // LLVM's and MLIR's threads and static objects do not survive an unloading.
  return RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | (replaced ? 0 : RTLD_DEEPBIND);
}

Error unsupported(const std::string &text) { return {ErrorCode::Unsupported, text}; }
} // namespace

Result<std::shared_ptr<CompilerSource>> rlx::openCompilerLibrary() {
  const std::string wayOut =
      std::string("; ") + kCompilerLibraryVariable + " names it when it is elsewhere, and an engine may be given one";
  constexpr const char *folders[] = {"", "../lib/"};
  Search search = searchFile(kCompilerLibraryFile, kCompilerLibraryVariable, folders);
  bool named = ::secure_getenv(kCompilerLibraryVariable) && *::secure_getenv(kCompilerLibraryVariable);
  if (search.found.empty() && named)
    return unsupported("there is no compiler library at " + search.text() + ", which " + kCompilerLibraryVariable +
                       " names");
  std::string path = search.found.empty() ? kCompilerLibraryFile : search.found;
  void *handle = ::dlopen(path.c_str(), openMode());
  if (!handle) {
    const char *why = ::dlerror();
    std::string text = why ? why : "no reason given";
    if (search.found.empty())
      return unsupported("no compiler library: looked for " + search.text() + " and on the loader's path (" + text +
                         ")" + wayOut);
    return unsupported("the compiler library '" + path + "' cannot be opened: " + text + wayOut);
  }
  using Entry = const CompilerLibrary *(*)();
  auto entry = reinterpret_cast<Entry>(::dlsym(handle, kCompilerLibrarySymbol));
  const CompilerLibrary *library = entry ? entry() : nullptr;
  if (!library || library->magic != CompilerLibrary::kMagic)
    return unsupported("'" + path + "' is not a compiler library of rlx" + wayOut);
  if (std::string_view(library->buildId) != buildId() || library->bytes != sizeof(CompilerLibrary))
    return unsupported("the compiler library '" + path + "' is of build " + library->buildId +
                       ", and the runtime of build " + buildId() + ": both must be of one" + wayOut);
  if (::dlsym(handle, library->symbol) != library->bound)
    return unsupported("the compiler library '" + path +
                       "' got functions of another MLIR in this process, because the process has a malloc of its own; "
                       "use a compiler in a worker process");
  return library->create();
}
