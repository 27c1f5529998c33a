//===- KernelCache.cpp - kernels by spec ----------------------------------===//
#include "KernelCache.h"

#include "rlx/Runtime/Statistics.h"

#include <chrono>
#include <utility>

using namespace rlx;

Status KernelCache::compile(std::span<const data::KernelSpecT> specs, std::span<const std::vector<uint8_t>> keys,
                            const std::vector<size_t> &mine, CompilerInterface &compiler, ThreadPool &pool,
                            PhaseTimes &times, Got &got) {
  std::vector<data::KernelSpecT> wanted;
  for (size_t i : mine)
    wanted.push_back(specs[i]);
  auto start = std::chrono::steady_clock::now();
  auto lap = [&] {
    auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start, now)).count();
  };
  Result<std::vector<data::KernelImageT>> images = compiler.compileKernels(wanted, pool, times);
  addTime(times, "compile", lap());
  if (!images)
    return images.takeError();
  if (images->size() != mine.size())
    return Error{ErrorCode::Internal, "the compiler returned " + std::to_string(images->size()) + " kernels for " +
                                          std::to_string(mine.size()) + " specs"};
  for (size_t i = 0; i != mine.size(); ++i)
    if ((*images)[i].spec != keys[mine[i]])
      return Error{ErrorCode::Internal, "the compiler returned a kernel for another spec"};
  lap();
  Result<std::vector<LoadedKernel>> loaded = loader->load(*images);
  if (!loaded)
    return loaded.takeError();
  if (loaded->size() != mine.size())
    return Error{ErrorCode::Internal, "the loader returned another number of kernels"};
  addTime(times, "load", lap());
  for (size_t i = 0; i != mine.size(); ++i) {
    if (!(*loaded)[i].function)
      return Error{ErrorCode::Internal, "the loader returned no function"};
    got.kernels[mine[i]] = (*loaded)[i];
    got.codeBytes += (*images)[i].code.size();
  }
  got.compiled = mine.size();

  std::lock_guard lock(mutex);
  for (size_t i = 0; i != mine.size(); ++i) {
    Entry &entry = entries[keys[mine[i]]];
    entry.kernel = std::move((*loaded)[i]);
    entry.bytes = (*images)[i].code.size();
    totalBytes += entry.bytes;
  }
  return Status::ok();
}

Result<KernelCache::Got> KernelCache::get(std::span<const data::KernelSpecT> specs,
                                          std::span<const std::vector<uint8_t>> keys, CompilerInterface &compiler,
                                          ThreadPool &pool, PhaseTimes &times) {
  Got got;
  got.kernels.resize(specs.size());
  size_t compiled = 0, codeBytes = 0;
  while (true) {
    // Claim what nobody has begun. Whoever claims compiles at once and waits for
    // nobody before it is done, so waiting for others below always ends.
    std::vector<size_t> mine;
    {
      std::lock_guard lock(mutex);
      for (size_t i = 0; i != specs.size(); ++i) {
        if (got.kernels[i].function)
          continue;
        auto [entry, isNew] = entries.try_emplace(keys[i]);
        if (isNew)
          mine.push_back(i);
        else if (entry->second.kernel.function)
          got.kernels[i] = entry->second.kernel;
      }
    }
    if (!mine.empty()) {
      Status status = compile(specs, keys, mine, compiler, pool, times, got);
      if (!status) {
        std::lock_guard lock(mutex);
        for (size_t i : mine)
          entries.erase(keys[i]);
        changed.notify_all();
        return status.takeError();
      }
      compiled += got.compiled;
      codeBytes += got.codeBytes;
      got.codeBytes = 0;
      changed.notify_all();
    }
    // Wait for what others claimed. One that failed is gone: claim it next turn.
    bool missing = false;
    {
      std::unique_lock lock(mutex);
      for (size_t i = 0; i != specs.size(); ++i) {
        if (got.kernels[i].function)
          continue;
        changed.wait(lock, [&] {
          auto entry = entries.find(keys[i]);
          return entry == entries.end() || entry->second.kernel.function;
        });
        auto entry = entries.find(keys[i]);
        if (entry == entries.end())
          missing = true;
        else
          got.kernels[i] = entry->second.kernel;
      }
    }
    if (!missing)
      break;
  }
  got.compiled = compiled;
  got.codeBytes = codeBytes;
  return got;
}

size_t KernelCache::count() const {
  std::lock_guard lock(mutex);
  size_t ready = 0;
  for (const auto &[key, entry] : entries)
    ready += entry.kernel.function != nullptr;
  return ready;
}

size_t KernelCache::codeBytes() const {
  std::lock_guard lock(mutex);
  return totalBytes;
}
