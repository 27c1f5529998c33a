//===- Measure.cpp - what the machine can do, and fair timing -------------===//
#include "Measure.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <immintrin.h>
#include <new>
#include <optional>
#include <sched.h>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>

using namespace rlx::bench;

static volatile double sink; // what is computed is looked at, so that it is not left out

int64_t rlx::bench::processStatus(std::string_view key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key))
      return std::atoll(line.c_str() + key.size());
  return 0;
}

double rlx::bench::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double rlx::bench::median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

int rlx::bench::cpuCount() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return CPU_COUNT(&set);
}

std::string rlx::bench::cpuName() {
  std::string name = "unknown CPU";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      name = line.substr(std::min(line.size(), line.find(':') + 2));
      break;
    }
  std::string family, model;
  file.clear();
  file.seekg(0);
  for (std::string line; std::getline(file, line) && (family.empty() || model.empty());) {
    if (line.starts_with("cpu family"))
      family = line.substr(line.find(':') + 2);
    else if (line.starts_with("model\t"))
      model = line.substr(line.find(':') + 2);
  }
  if (!family.empty())
    name += " (family " + family + ", model " + model + ")";
  // (sysconf says nonsense of the L3 of some virtual machines.)
  for (int index = 0; index < 8; ++index) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::string level, type, size;
    if (std::ifstream(folder + "level") >> level && std::ifstream(folder + "type") >> type &&
        std::ifstream(folder + "size") >> size && type != "Instruction")
      name += ", L" + level + (type == "Data" ? "d " : " ") + size;
  }
  return name;
}

/// Seconds of `work` on this thread. When another process had the core meanwhile, it is done again, a few times: the
/// fastest counts then.
static double undisturbed(const std::function<void()> &work) {
  auto ownTime = [] {
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double best = 1e9;
  for (int attempt = 0; attempt < 6; ++attempt) {
    double start = now(), ownStart = ownTime();
    work();
    double own = ownTime() - ownStart, seconds = now() - start;
    best = std::min(best, seconds);
    if (seconds - own < 0.02 * seconds + 20e-6)
      return seconds;
  }
  return best;
}

//===--- threads that start together ----------------------------------------===//

/// Seconds from the moment all threads are there until the last is done. `work` gets the thread's number.
static double together(int threads, const std::function<void(int)> &work) {
  if (threads <= 1)
    return undisturbed([&] { work(0); });
  std::atomic<int> waiting{0};
  std::vector<double> starts(static_cast<size_t>(threads)), ends(starts);
  auto body = [&](int number) {
    ++waiting;
    while (waiting.load() < threads)
      _mm_pause();
    starts[static_cast<size_t>(number)] = now();
    work(number);
    ends[static_cast<size_t>(number)] = now();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(body, i);
  body(0);
  for (std::thread &other : others)
    other.join();
  return *std::ranges::max_element(ends) - *std::ranges::min_element(starts);
}

//===--- multiply-adds ------------------------------------------------------===//

static constexpr int kChains = 12;

__attribute__((target("avx2,fma"), noinline)) static void multiplyAdds8(int64_t rounds) {
  __m256 x[kChains], y = _mm256_set1_ps(0.999f);
  for (int i = 0; i < kChains; ++i)
    x[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round)
    for (int i = 0; i < kChains; ++i) {
      x[i] = _mm256_fmadd_ps(x[i], y, y);
      asm volatile("" : "+x"(x[i]));
    }
}

__attribute__((target("avx512f"), noinline)) static void multiplyAdds16(int64_t rounds) {
  __m512 x[kChains], y = _mm512_set1_ps(0.999f);
  for (int i = 0; i < kChains; ++i)
    x[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round)
    for (int i = 0; i < kChains; ++i) {
      x[i] = _mm512_fmadd_ps(x[i], y, y);
      asm volatile("" : "+v"(x[i]));
    }
}

double rlx::bench::fmaPeak(int threads) {
  constexpr int64_t kRounds = 600000;
  double operations = 2.0 * kChains * kRounds * threads;
  double best = 8 * operations / together(threads, [](int) { multiplyAdds8(kRounds); });
  if (__builtin_cpu_supports("avx512f"))
    best = std::max(best, 16 * operations / together(threads, [](int) { multiplyAdds16(kRounds); }));
  return best * 1e-9;
}

//===--- memory -------------------------------------------------------------===//

struct Memory::Impl {
  std::optional<Room> own;
  const std::byte *data = nullptr;
  size_t bytes = 0;
};

static constexpr size_t kHugePage = size_t(2) << 20;

// Every thread has 8 streams of whole 256-byte blocks at most, for up to 16 threads.
static constexpr size_t kBlock = 256, kMaxStreams = 8, kUnit = kBlock * kMaxStreams * 16;

void *rlx::bench::allocate(size_t bytes) {
  size_t alignment = bytes >= kHugePage ? kHugePage : 4096;
  bytes = std::max<size_t>((bytes + alignment - 1) / alignment, 1) * alignment;
  void *memory = std::aligned_alloc(alignment, bytes);
  if (!memory)
    throw std::bad_alloc();
  if (alignment == kHugePage)
    ::madvise(memory, bytes, MADV_HUGEPAGE); // a wish: there are systems without
  return memory;
}

Room::Room(size_t bytes) : memory(static_cast<std::byte *>(allocate(bytes)), std::free) {
  std::memset(memory.get(), 0, bytes);
}

Memory::Memory(size_t bytes) : impl(std::make_unique<Impl>()) {
  impl->bytes = std::max<size_t>((bytes + kUnit - 1) / kUnit, 1) * kUnit;
  impl->data = impl->own.emplace(impl->bytes).data();
}

Memory::Memory(std::span<const std::byte> data) : impl(std::make_unique<Impl>()) {
  impl->bytes = data.size() / kUnit * kUnit;
  impl->data = data.data();
}

Memory::~Memory() = default;

/// Adds up `bytes` bytes in `streams` pieces that are walked side by side.
__attribute__((target("avx2"), noinline)) static int readStreams(const std::byte *data, size_t bytes, size_t streams) {
  size_t piece = bytes / streams;
  __m256i sum[4] = {};
  for (size_t at = 0; at < piece; at += kBlock / 2)
    for (size_t stream = 0; stream < streams; ++stream) {
      const __m256i *from = reinterpret_cast<const __m256i *>(data + stream * piece + at);
      for (int i = 0; i < 4; ++i)
        sum[i] = _mm256_add_epi32(sum[i], _mm256_loadu_si256(from + i));
    }
  __m256i all = _mm256_add_epi32(_mm256_add_epi32(sum[0], sum[1]), _mm256_add_epi32(sum[2], sum[3]));
  return _mm256_cvtsi256_si32(all);
}

__attribute__((target("avx2"), noinline)) static void copyStreams(std::byte *to, const std::byte *from, size_t bytes,
                                                                  size_t streams) {
  size_t piece = bytes / streams;
  for (size_t at = 0; at < piece; at += kBlock / 2)
    for (size_t stream = 0; stream < streams; ++stream)
      for (int i = 0; i < 4; ++i) {
        size_t place = stream * piece + at + 32 * static_cast<size_t>(i);
        _mm256_storeu_ps(reinterpret_cast<float *>(to + place),
                         _mm256_loadu_ps(reinterpret_cast<const float *>(from + place)));
      }
}

/// How often a pass over `bytes` is repeated, so that a sample moves 32 MB or more: some milliseconds.
static int passes(size_t bytes) {
  return static_cast<int>(std::max<size_t>((32u << 20) / std::max<size_t>(bytes, 1), 1));
}

/// A thread's bytes of `bytes`, in whole streams.
static size_t shareOf(size_t bytes, int threads) {
  return bytes / static_cast<size_t>(threads) / (kBlock * kMaxStreams) * (kBlock * kMaxStreams);
}

std::vector<double> Memory::readEach(int threads, Turn turn) { return readEach({{0, impl->bytes}}, threads, turn); }
double Memory::read(int threads) { return std::ranges::max(readEach(threads)); }
double Memory::read(const std::vector<Piece> &order, int threads) { return std::ranges::max(readEach(order, threads)); }

std::vector<double> Memory::readEach(const std::vector<Piece> &order, int threads, Turn turn) {
  std::vector<double> each;
  size_t share = 0;
  for (const Piece &piece : order) {
    if (piece.offset > impl->bytes || piece.bytes > impl->bytes - piece.offset)
      return {0};
    share += shareOf(piece.bytes, threads);
  }
  int fewest = passes(share * static_cast<size_t>(threads));
  for (size_t streams : {1, 4, 8}) {
    auto pass = [&](int number, int repeats) {
      int sum = 0;
      for (int i = 0; i < repeats; ++i)
        for (const Piece &piece : order) {
          size_t part = shareOf(piece.bytes, threads);
          sum ^= readStreams(impl->data + piece.offset + static_cast<size_t>(number) * part, part, streams);
          asm volatile("" ::: "memory"); // each pass reads anew
        }
      if (sum == 0)
        sink = sum;
    };
    // What caches keep of it from pass to pass is theirs again, not the last contestant's.
    double once = together(threads, [&](int number) { pass(number, 1); });
    auto passesOf = [&](double seconds) { return static_cast<int>(std::min(seconds / std::max(once, 1e-8), 1e6)); };
    if (int unmeasured = passesOf(turn.unmeasured))
      together(threads, [&](int number) { pass(number, unmeasured); });
    int repeats = std::max(fewest, passesOf(turn.measured));
    double taken = together(threads, [&](int number) { pass(number, repeats); });
    each.push_back(static_cast<double>(share) * threads * repeats / taken * 1e-9);
  }
  return each;
}

double Memory::copy(int threads) {
  assert(impl->own && "memory of others is not written");
  double best = 0;
  size_t half = impl->bytes / 2;
  size_t share = shareOf(half, threads);
  int repeats = passes(impl->bytes);
  for (size_t streams : {1, 4}) {
    double seconds = together(threads, [&](int number) {
      size_t at = static_cast<size_t>(number) * share;
      for (int i = 0; i < repeats; ++i)
        copyStreams(impl->own->data() + half + at, impl->data + at, share, streams);
    });
    best = std::max(best, 2 * static_cast<double>(share) * threads * repeats / seconds);
  }
  return best * 1e-9;
}

//===--- calls in turn ------------------------------------------------------===//

size_t Race::add(std::function<void()> call) {
  contestants.push_back({std::move(call), 0, {}});
  return contestants.size() - 1;
}

double Race::take(Contestant &contestant, Turn turn) {
  if (contestant.once == 0) {
    contestant.call(); // its memory is touched, its code is in
    contestant.once = std::max(undisturbed(contestant.call), 1e-8);
  }
  auto callsOf = [&](double seconds) { return static_cast<int>(std::clamp(seconds / contestant.once, 1.0, 1e6)); };
  auto call = [&](int times) {
    for (int i = 0; i < times; ++i)
      contestant.call();
  };
  call(callsOf(turn.unmeasured)); // caches hold what the last contestant used
  int calls = callsOf(turn.measured);
  if (threads == 1)
    return undisturbed([&] { call(calls); }) / calls;
  double start = now();
  call(calls);
  return (now() - start) / calls;
}

void Race::run(int rounds, Turn turn) {
  for (Contestant &contestant : contestants)
    take(contestant, turn);
  for (int round = 0; round < rounds; ++round) {
    peaks.push_back(fmaPeak(threads));
    if (memory)
      reads.push_back(memory->readEach(threads, turn));
    for (size_t i = 0; i < contestants.size(); ++i) {
      size_t who = (i + static_cast<size_t>(round)) % contestants.size();
      if (round % 2)
        who = contestants.size() - 1 - who;
      contestants[who].seconds.push_back(take(contestants[who], turn));
    }
  }
}

double Race::seconds(size_t who) const { return median(contestants[who].seconds); }
double Race::fastest(size_t who) const { return std::ranges::min(contestants[who].seconds); }
double Race::peak() const { return median(peaks); }

double Race::shareOfPeak(size_t who, double flops) const {
  std::vector<double> shares;
  for (size_t round = 0; round < peaks.size(); ++round)
    shares.push_back(flops * 1e-9 / contestants[who].seconds[round] / peaks[round]);
  return median(shares);
}

std::vector<double> Race::bandwidths() const {
  std::vector<double> best;
  for (size_t streams = 0; streams < (reads.empty() ? 0 : reads.front().size()); ++streams) {
    std::vector<double> column;
    for (const std::vector<double> &round : reads)
      column.push_back(round[streams]);
    if (median(column) > median(best))
      best = column;
  }
  return best;
}

double Race::shareOfLimit(size_t who, double flops, double bytes) const {
  std::vector<double> shares, read = bandwidths();
  for (size_t round = 0; round < peaks.size(); ++round) {
    double limit = flops / peaks[round];
    if (memory)
      limit = std::max(limit, bytes / read[round]);
    shares.push_back(limit * 1e-9 / contestants[who].seconds[round]);
  }
  return median(shares);
}

double Race::ratio(size_t who, size_t other) const {
  std::vector<double> ratios;
  for (size_t round = 0; round < peaks.size(); ++round)
    ratios.push_back(contestants[who].seconds[round] / contestants[other].seconds[round]);
  return median(ratios);
}
