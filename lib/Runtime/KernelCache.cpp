//===- KernelCache.cpp - kernels by spec ----------------------------------===//
#include "KernelCache.h"

#include "rlx/Runtime/Statistics.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace rlx;

namespace {
using Key = std::span<const uint8_t>;
struct KeyHash {
  size_t operator()(Key key) const { return XXH3_64bits(key.data(), key.size()); }
};
struct KeyEqual {
  bool operator()(Key a, Key b) const { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0; }
};
} // namespace

struct KernelCache::Table {
  struct Entry {
    std::vector<uint8_t> bytes; ///< of the key, which points here
    std::weak_ptr<Kernel> kernel;
    const Kernel *whose = nullptr; ///< null while it is being compiled
  };
  using Entries = std::unordered_map<Key, std::unique_ptr<Entry>, KeyHash, KeyEqual>;

  std::mutex mutex; // guards the members below
  std::condition_variable changed;
  Entries entries;
  size_t kernels = 0, codeBytes = 0; // of those that live

  /// A place for a kernel that the caller is going to compile.
  void claim(Key key) {
    auto made = std::make_unique<Entry>();
    made->bytes.assign(key.begin(), key.end());
    Key own = made->bytes;
    entries.emplace(own, std::move(made));
  }
};

/// Takes its place in the table with it when its last user goes.
class KernelCache::Kernel {
public:
  Kernel(std::shared_ptr<Table> table, std::vector<uint8_t> key, LoadedKernel loaded, size_t codeBytes)
      : codeBytes(codeBytes), loaded(std::move(loaded)), key(std::move(key)), table(std::move(table)) {}
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;
  ~Kernel() {
    std::unique_ptr<Table::Entry> dropped;
    std::lock_guard lock(table->mutex);
    if (!listed)
      return;
    --table->kernels;
    table->codeBytes -= codeBytes;
    // Somebody may have found that it is going, and compile it again.
    auto entry = table->entries.find(key);
    if (entry == table->entries.end() || entry->second->whose != this)
      return;
    dropped = std::move(entry->second);
    table->entries.erase(entry);
  }

  LoadedKernel handle(const std::shared_ptr<Kernel> &self) const { return {loaded.function, self}; }
  size_t bytes() const { return codeBytes + 2 * key.size() + sizeof(Kernel) + sizeof(Table::Entry); }

  const size_t codeBytes;
  bool listed = false; ///< guarded by the table's mutex

private:
  const LoadedKernel loaded;
  const std::vector<uint8_t> key;
  const std::shared_ptr<Table> table;
};

KernelCache::KernelCache(std::shared_ptr<KernelLoader> loader)
    : loader(std::move(loader)), table(std::make_shared<Table>()) {}

KernelCache::~KernelCache() = default;

Result<std::vector<std::shared_ptr<KernelCache::Kernel>>> KernelCache::compile(const SelectedKernels &wanted,
                                                                               const std::vector<size_t> &mine,
                                                                               CompilerInterface &compiler,
                                                                               ThreadPool &pool, PhaseTimes &times) {
  std::vector<data::KernelSpecT> specs;
  for (size_t i : mine)
    specs.push_back(wanted[i]->spec);
  auto start = std::chrono::steady_clock::now();
  auto lap = [&] {
    auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start, now)).count();
  };
  Result<std::vector<data::KernelImageT>> images = compiler.compileKernels(specs, pool, times);
  addTime(times, "compile", lap());
  if (!images)
    return images.takeError();
  if (images->size() != mine.size())
    return Error{ErrorCode::Internal, "the compiler returned " + std::to_string(images->size()) + " kernels for " +
                                          std::to_string(mine.size()) + " specs"};
  for (size_t i = 0; i != mine.size(); ++i)
    if ((*images)[i].spec != wanted[mine[i]]->key)
      return Error{ErrorCode::Internal, "the compiler returned a kernel for another spec"};
  lap();
  Result<std::vector<LoadedKernel>> loaded = loader->load(*images);
  if (!loaded)
    return loaded.takeError();
  if (loaded->size() != mine.size())
    return Error{ErrorCode::Internal, "the loader returned another number of kernels"};
  addTime(times, "load", lap());
  std::vector<std::shared_ptr<Kernel>> kernels;
  for (size_t i = 0; i != mine.size(); ++i) {
    if (!(*loaded)[i].function)
      return Error{ErrorCode::Internal, "the loader returned no function"};
    kernels.push_back(
        std::make_shared<Kernel>(table, wanted[mine[i]]->key, std::move((*loaded)[i]), (*images)[i].code.size()));
  }
  return kernels;
}

/// With the lock held. False: it is neither there nor being compiled.
bool KernelCache::take(Got &got, size_t i, const std::vector<uint8_t> &key) {
  auto entry = table->entries.find(key);
  if (entry == table->entries.end())
    return false;
  if (!entry->second->whose)
    return true;
  std::shared_ptr<Kernel> kernel = entry->second->kernel.lock();
  if (!kernel) {
    // Its last user is about to take it out.
    table->entries.erase(entry);
    return false;
  }
  got.kernels[i] = kernel->handle(kernel);
  got.bytes[i] = kernel->bytes();
  return true;
}

std::optional<KernelCache::Got> KernelCache::find(const SelectedKernels &kernels) {
  Got got; // goes after the lock
  got.kernels.resize(kernels.size());
  got.bytes.resize(kernels.size());
  std::lock_guard lock(table->mutex);
  for (size_t i = 0; i != kernels.size(); ++i)
    if (!take(got, i, kernels[i]->key) || !got.kernels[i].function)
      return std::nullopt;
  return got;
}

Result<KernelCache::Got> KernelCache::get(const SelectedKernels &wanted, CompilerInterface &compiler, ThreadPool &pool,
                                          PhaseTimes &times) {
  Got got;
  got.kernels.resize(wanted.size());
  got.bytes.resize(wanted.size());
  while (true) {
    // Claim what nobody has begun. Whoever claims compiles at once and waits for
    // nobody before it is done, so waiting for others below always ends.
    std::vector<size_t> mine;
    {
      std::lock_guard lock(table->mutex);
      for (size_t i = 0; i != wanted.size(); ++i) {
        if (got.kernels[i].function || take(got, i, wanted[i]->key))
          continue;
        table->claim(wanted[i]->key);
        mine.push_back(i);
      }
    }
    if (!mine.empty()) {
      Result<std::vector<std::shared_ptr<Kernel>>> made = compile(wanted, mine, compiler, pool, times);
      {
        std::lock_guard lock(table->mutex);
        for (size_t k = 0; k != mine.size(); ++k) {
          auto entry = table->entries.find(wanted[mine[k]]->key);
          if (!made) {
            table->entries.erase(entry);
            continue;
          }
          Kernel &kernel = *(*made)[k];
          kernel.listed = true;
          entry->second->kernel = (*made)[k];
          entry->second->whose = &kernel;
          ++table->kernels;
          table->codeBytes += kernel.codeBytes;
          got.kernels[mine[k]] = kernel.handle((*made)[k]);
          got.bytes[mine[k]] = kernel.bytes();
          got.codeBytes += kernel.codeBytes;
        }
      }
      table->changed.notify_all();
      if (!made)
        return made.takeError();
      got.compiled += mine.size();
    }
    // Wait for what others claimed. One that failed, or went, is gone: claim it next turn.
    bool missing = false;
    {
      std::unique_lock lock(table->mutex);
      for (size_t i = 0; i != wanted.size(); ++i) {
        if (got.kernels[i].function)
          continue;
        bool there = true;
        table->changed.wait(lock, [&] { return !(there = take(got, i, wanted[i]->key)) || got.kernels[i].function; });
        missing |= !there;
      }
    }
    if (!missing)
      break;
  }
  return got;
}

size_t KernelCache::count() const {
  std::lock_guard lock(table->mutex);
  return table->kernels;
}

size_t KernelCache::codeBytes() const {
  std::lock_guard lock(table->mutex);
  return table->codeBytes;
}
